// Changes ONNX models at the level of their messages, for libFuzzer and the fixed mutations of a
// test run.
#pragma once

#include "graph/onnx/proto/onnx-ml.pb.h"
#include "tests/fuzz/models.h"

namespace weft::fuzz {

// One change of any kind: fields of any message are set to extreme or to each other's values,
// dropped, doubled, swapped or copied from elsewhere; nodes are added, become other operators, move
// into branches; the opset changes.
void Mutate(Random& random, onnx::ModelProto& model);

}  // namespace weft::fuzz
