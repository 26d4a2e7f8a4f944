// The heavy operators of the fp64 reference as plain loops: the interpreter would take minutes.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver::reference {

// Conv, MatMul and Gemm on f64 operands (null: absent), ConvInteger and MatMulInteger on integers;
// nothing for any other node.
std::optional<Tensor> RunLoops(const graph::Node& node, const std::vector<const Tensor*>& operands);

}  // namespace weft::driver::reference
