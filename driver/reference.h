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

// Rounds what each node gives to the type that the network declares it of. How far this moves the
// outputs is how far a right implementation may be off: little in most networks, but where values
// are quantized one that stands near the edge of a step falls to the other side, and what follows
// multiplies that.
enum class Rounding : uint8_t { kNone, kEachValue };

// Outputs in f64 for float outputs, in their own type otherwise. Inputs in the graph's order.
Result<std::vector<Tensor>> RunReference(const graph::Graph& graph, std::span<const Tensor> inputs,
                                         Rounding rounding = Rounding::kNone);

}  // namespace weft::driver
