// What greedy merging took, improved: a few neighbouring groups at a time, exactly.
//
// A window is a convex set of neighbouring groups. Of all ways to cover its nodes by legal groups
// the cheapest is found by dynamic programming over ideals: sets of nodes that hold whatever their
// nodes depend on. A group may follow if its producers are covered, so that groups come in an order
// that data can flow in, and since the window is convex no cycle can lead around it. Windows that
// are alike are solved once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "partition/clusters.h"
#include "partition/forms.h"

namespace weft::partition {

class Windows {
 public:
  // Of nodes that are in graph order, as one kernel; none if it is not legal.
  using Price = std::function<std::optional<double>(const std::vector<graph::NodeId>&)>;
  // Of groups that were replaced, and of what replaced them, in us.
  using Note =
      std::function<void(const std::vector<graph::NodeId>& group, double before, double after)>;

  // `ranks` are of nodes, and respect data flow; what is not `is_own` (by node) stays as it is.
  Windows(const GraphFacts& facts, const Forms& forms, std::span<const int32_t> ranks,
          const std::vector<bool>& is_own, Price price, Note note);

  // The same whatever the order of the nodes: windows are taken by rank. Ends when nothing is
  // gained any more, or with a bounded effort.
  void Improve(Clusters& clusters);

 private:
  using Mask = uint32_t;  // of the window's nodes, by rank
  using Cover = std::vector<Mask>;

  struct Column {
    Mask nodes = 0, producers = 0;
    double us = 0;
  };
  struct Window {
    std::vector<int32_t> sets;
    std::vector<graph::NodeId> nodes;    // by rank
    Mask own = 0;                        // those that may be in a kernel of our own
    std::vector<Mask> producers, above;  // of each node, in the window: direct, and all
    Cover groups;                        // as it is
  };

  Window Around(int32_t seed, const Clusters& clusters, class MergeOrder& order) const;
  std::vector<graph::NodeId> NodesOf(const Window& window, Mask nodes) const;
  bool IsConvex(const Window& window, Mask nodes) const;
  std::vector<Column> Columns(const Window& window);
  Cover Cheapest(const Window& window);
  const Cover& Solve(const Window& window);
  void Apply(const Window& window, const Cover& cover, Clusters& clusters);

  const GraphFacts& facts_;
  const Forms& forms_;
  const std::span<const int32_t> ranks_;
  const std::vector<bool>& is_own_;
  const Price price_;
  const Note note_;
  std::map<std::tuple<Form, Mask, Cover>, Cover> solved_;  // empty: as it is
  size_t columns_ = 0;                                     // priced so far
};

}  // namespace weft::partition
