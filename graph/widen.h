// For targets that multiply float32 only.
#pragma once

#include "base/dtype.h"
#include "graph/graph.h"

namespace weft::graph {

// Convolutions and products of 16-bit floats of this type become those of float32 between casts,
// which is what they mean: they sum in float32, and their result is rounded. Then each element is
// converted once instead of once for each product that it is in, and constants are converted here.
// A matrix of which each element is in few products stays: it costs more to read than to convert.
void WidenProducts(Graph& graph, Dtype narrow);

}  // namespace weft::graph
