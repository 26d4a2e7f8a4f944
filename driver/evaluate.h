// Computes single nodes on constant inputs: what constant folding and the reference stand on.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver {

// A node by its native kernel if there is one, else by its comprehension in the interpreter. An
// absent optional operand is a null pointer. Unsupported if neither exists.
Result<std::vector<Tensor>> EvaluateNode(const graph::Graph& graph, const graph::Node& node,
                                         std::span<const Tensor* const> inputs);

}  // namespace weft::driver
