// TensorProto, SparseTensorProto -> Tensor.
#pragma once

#include "base/tensor.h"
#include "graph/onnx/external.h"

namespace onnx {
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace weft::graph {

inline constexpr int kMaxRank = 64;

// The dtype of an ONNX data type, or why there is none: unknown, or known but not to weft.
Result<Dtype> DtypeOf(int32_t data_type);
// Errors do not name the tensor: the caller does.
Result<Tensor> TensorOf(const onnx::TensorProto& proto, ExternalFiles& files);
// With the zeros that the file leaves out, which may take as many bytes as this.
Result<Tensor> TensorOf(const onnx::SparseTensorProto& proto, ExternalFiles& files,
                        int64_t max_bytes);

}  // namespace weft::graph
