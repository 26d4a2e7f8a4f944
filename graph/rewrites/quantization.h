// What a QuantizeLinear or DequantizeLinear says, where it says one number of each kind.
#pragma once

#include <optional>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

// Integers of 8 or 16 bits: real = (integer - zero) * scale, in float32.
struct Quantization {
  Dtype dtype = Dtype::kU8;
  double scale = 0, zero = 0;
  bool operator==(const Quantization&) const = default;
};

// Of a node between `integers` and `real` numbers, if its scale and zero point are constants. The
// scale is such that no product and no quotient of it and an integer is infinite or subnormal.
std::optional<Quantization> QuantizationOf(const Graph& graph, const Node& node, ValueId integers,
                                           ValueId real);

}  // namespace weft::graph
