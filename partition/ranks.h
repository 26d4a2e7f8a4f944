// An order of a graph's nodes that knows neither their names nor the order in which they stand.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace weft::partition {

// The place of each node, by index, when nodes are sorted by their depth, then by what they compute
// from which inputs, then by what is made of it. Weights count by their type only. Nodes that agree
// in all this are interchangeable; they keep the order of the graph.
std::vector<int32_t> CanonicalRanks(const graph::Graph& graph);

}  // namespace weft::partition
