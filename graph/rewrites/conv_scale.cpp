// A product or a sum with a constant for each channel, as exporters leave biases and learned scales
// behind a convolution, goes into its weights and its bias.

#include <cmath>

#include "graph/rewrites/fold_affine.h"

namespace weft::graph {
namespace {

// The constant as one number a channel, if it has at most the channel axis.
std::optional<std::vector<double>> ByChannel(const Graph& graph, ValueId id, const Node& linear,
                                             int64_t channels) {
  const Value& value = graph[id];
  const auto& out = graph[linear.outputs[0]].shape;
  if (value.kind != ValueKind::kConstant || !out || value.constant.shape().size() > out->size())
    return std::nullopt;
  if (value.constant.dtype() == Dtype::kString) return std::nullopt;
  const Shape& shape = value.constant.shape();
  const size_t channel_axis = linear.op == Op::kGemm ? out->size() - 1 : 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t axis = out->size() - shape.size() + i;
    if (shape[i] != 1 && (axis != channel_axis || shape[i] != channels)) return std::nullopt;
  }
  std::vector<double> numbers;
  for (int64_t i = 0; i < channels; ++i) {
    numbers.push_back(ElemAsDouble(value.constant, value.constant.elems() == 1 ? 0 : i));
    if (!std::isfinite(numbers.back())) return std::nullopt;
  }
  return numbers;
}

void Match(Rewriter& r, NodeId id) {
  const Node& node = r.graph[id];
  for (size_t k = 0; k < 2; ++k) {
    const Node* linear = LinearBefore(r, node.inputs[k]);
    if (!linear || !SameShape(r.graph, node.inputs[k], node.outputs[0])) continue;
    const int64_t channels = ChannelsOf(r.graph, *linear);
    auto numbers = ByChannel(r.graph, node.inputs[1 - k], *linear, channels);
    if (!numbers) continue;
    const auto count = static_cast<size_t>(channels);
    PerChannel affine;
    if (node.op == Op::kMul) affine = {std::move(*numbers), std::vector<double>(count, 0.0)};
    if (node.op == Op::kAdd) affine = {std::vector<double>(count, 1.0), std::move(*numbers)};
    FoldAffine(r, id, node.inputs[k], affine);
    return;
  }
}

}  // namespace

Result<int> conv_scale(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kMul || op == Op::kAdd) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
