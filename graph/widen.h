// What type of number is multiplied, where it is another than the network says.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "graph/graph.h"

namespace weft::graph {

// Convolutions and products of 16-bit floats of this type become those of float32 between casts,
// which is what they mean: they sum in float32, and their result is rounded. Then each element is
// converted once instead of once for each product that it is in, and constants are converted here.
// A matrix of which each element is in few products stays: it costs more to read than to convert.
void WidenProducts(Graph& graph, Dtype narrow);

// Of a convolution or product of bfloat16 whose result is float32: that type. No attribute of
// ONNX's.
inline constexpr std::string_view kSumType = "out_dtype";

// Convolutions and products of float32 with long sums become those of bfloat16, whose sums and
// results are still float32: the factors are rounded, constants here. That changes results by some
// 2^-8 of their scale, and somebody must have allowed it.
void NarrowProducts(Graph& graph);

}  // namespace weft::graph
