// The fp64 reference of a whole network: node by node, sharing no code with code generation.
//
// Contractions, convolutions and pooling are plain C++ loops in double; everything else runs in the
// comprehension interpreter, widened to f64, or natively where no comprehension exists.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver {

// Outputs in f64 for float outputs, in their own type otherwise. Inputs in the graph's order.
Result<std::vector<Tensor>> RunReference(const graph::Graph& graph, std::span<const Tensor> inputs);

}  // namespace weft::driver
