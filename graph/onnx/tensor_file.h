// One tensor in a file of its own, as the test data of ONNX models has them: input_0.pb,
// output_0.pb.
#pragma once

#include <string>

#include "base/status.h"
#include "base/tensor.h"

namespace weft::graph {

// A serialized TensorProto without external data; errors name the file and, where there is one, the
// byte. Sequences, maps and optional values are kInvalid: they are other messages.
Result<Tensor> ReadOnnxTensor(const std::string& path);

}  // namespace weft::graph
