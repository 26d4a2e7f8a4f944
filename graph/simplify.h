// Rewrites of a Graph that need no price: they are right and never slower.
//
// Each rewrite has a name, a file graph/rewrites/<name>.cpp and a test. They run in the order of
// Rewrites(), repeated until nothing changes (bounded). All keep the names of graph inputs and
// outputs.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// Computes a node whose inputs are all constant; handed in by the driver (graph/ knows no kernels).
// Inputs may hold an empty optional as a tensor without data; returns one tensor per output.
using Evaluator = std::function<Result<std::vector<Tensor>>(const Graph& graph, const Node& node,
                                                            std::span<const Tensor* const> inputs)>;

struct Rewrite {
  std::string_view name;  // "fold_constants", "conv_batchnorm", "layernorm_from_parts", …
  // Returns how often it applied.
  Result<int> (*apply)(Graph& graph, const Evaluator& evaluate);
};
std::span<const Rewrite> Rewrites();

// All rewrites to a fixed point, then dead nodes are dropped and the order is made canonical: the
// same graph whatever the order of nodes in the file (ties by name of first output). Infers shapes
// between.
Status Simplify(Graph& graph, const Evaluator& evaluate);

}  // namespace weft::graph
