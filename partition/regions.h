// Several groupings of one graph, measured, made into one that takes the best of each.
//
// A region is a smallest set of nodes that no group of any of the groupings crosses: there, and
// only there, one grouping's groups can stand for another's. Choosing per region compares like with
// like, also where a library call and an own kernel cut the graph differently. (Layouts belong to
// values and are the same in all groupings, so a choice costs its neighbours nothing.)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/grouping.h"

namespace weft::partition {

struct PricedGrouping {
  Grouping grouping;
  std::vector<double> us;  // by group, measured
};

// Per region of the best so far and the next grouping the cheaper of the two, the earlier on a tie:
// so in a region of all groupings at least the cheapest of them. What was not taken there is a
// rival of the groups that were, with its time. Regions whose best choices would wait for each
// other in a circle keep the choice of the one that is cheaper as a whole.
Grouping SelectByRegion(const graph::Graph& graph, std::span<const PricedGrouping> groupings);
// One of the groupings in every region; `why` it is better as a whole stands with its rivals.
Grouping TakeWhole(const graph::Graph& graph, std::span<const PricedGrouping> groupings,
                   size_t taken, const std::string& why);

}  // namespace weft::partition
