#include "graph/onnx/tensor_file.h"

#include <fmt/format.h>

#include "base/file.h"
#include "graph/onnx/proto/onnx-ml.pb.h"
#include "graph/onnx/tensors.h"
#include "graph/onnx/wire.h"

namespace weft::graph {
namespace {

constexpr int32_t kMaxDepth = 8;  // a TensorProto holds two levels

Result<Tensor> Parse(const std::string& bytes) {
  WEFT_TRY(CheckWire(std::as_bytes(std::span(bytes)), *onnx::TensorProto::descriptor(),
                     {.max_depth = kMaxDepth}));
  onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) return Invalid("the file is not an ONNX tensor");
  ExternalFiles none("");
  return TensorOf(proto, none);
}

}  // namespace

Result<Tensor> ReadOnnxTensor(const std::string& path) {
  try {
    WEFT_TRY(const std::string bytes, ReadFile(path, INT32_MAX));
    auto tensor = Parse(bytes);
    if (tensor.ok()) return tensor;
    const Status& s = tensor.status();
    return Status(s.code(), s.what())
        .At(s.where().empty() ? path : path + ": " + s.where())
        .Try(s.hint());
  } catch (const std::bad_alloc&) {
    return Limit("no memory for the tensor").At(path);
  }
}

}  // namespace weft::graph
