// Random ONNX models that are right: what the mutator starts from and takes new nodes of.
//
// They are made of the nodes of nodes.def: an operand is a value that the graph has and of the type
// that the node asks for, else a new input or initializer. Bodies of control flow and functions of
// the model's own are among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/proto/onnx-ml.pb.h"

namespace weft::fuzz {

// The same numbers from the same seed, wherever it runs.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t Below(size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }
  template <typename List>
  auto& Pick(List&& list) {
    return list[Below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

// A line of nodes.def.
struct NodeRow {
  std::string_view op, operands, results, attributes;
};
std::span<const NodeRow> NodeRows();

// A model of the newest opset with some of `nodes` more nodes than it needs for their operands.
onnx::ModelProto RandomModel(Random& random, int nodes);
// A model of one node and what makes its operands.
onnx::ModelProto ModelOfRow(Random& random, const NodeRow& row);
// A node more, at the end of a graph whose values have the types that its lists of inputs,
// initializers and value infos say.
void AddRandomNode(Random& random, onnx::GraphProto& graph);
// `type` is as in nodes.def. Its elements are small numbers, or few extreme ones.
onnx::TensorProto RandomTensor(Random& random, std::string_view type, const std::string& name);

}  // namespace weft::fuzz
