// TensorProto -> Tensor.
#pragma once

#include "base/tensor.h"
#include "graph/onnx/external.h"

namespace onnx {
class TensorProto;
}

namespace weft::graph {

inline constexpr int kMaxRank = 64;

// The dtype of an ONNX data type, or why there is none: unknown, or known but not to weft.
Result<Dtype> DtypeOf(int32_t data_type);
// Errors do not name the tensor: the caller does.
Result<Tensor> TensorOf(const onnx::TensorProto& proto, ExternalFiles& files);

}  // namespace weft::graph
