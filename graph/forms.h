// Names of the forms that constants have among Graph::forms, where several folders look for one.
#pragma once

#include <string>

#include "graph/graph.h"

namespace weft::graph {

// The weights of a DequantizeMatMul as float32: they depend on scales and zero points too.
inline std::pair<ValueId, std::string> FoldedWeights(const Node& node) {
  return {node.inputs[1], "float " + std::to_string(node.inputs[2].index) + " " +
                              std::to_string(InputAt(node, 3).index)};
}

}  // namespace weft::graph
