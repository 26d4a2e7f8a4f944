// The fp64 reference of a whole network: node by node, sharing no code with code generation.
//
// Contractions, convolutions and pooling are plain C++ loops in double; everything else runs in the
// comprehension interpreter, widened to f64, or natively where no comprehension exists.
#pragma once

#include <cstdint>
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
//
// kJittered moves each by as much as rounding may, this way or that: sums that are added up in
// another order are off by a part of their operands, not of themselves, which rounding of what they
// came to does not show. Some of these and the reference enclose what right implementations give.
enum class Rounding : uint8_t { kNone, kEachValue, kJittered };

// Outputs in f64 for float outputs, in their own type otherwise. Inputs in the graph's order.
// `seed` is that of the jitter.
Result<std::vector<Tensor>> RunReference(const graph::Graph& graph, std::span<const Tensor> inputs,
                                         Rounding rounding = Rounding::kNone, uint64_t seed = 0);

}  // namespace weft::driver
