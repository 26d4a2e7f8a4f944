// Batch normalization with constant statistics is a scale and a shift of each channel.

#include <cmath>

#include "graph/rewrites/fold_affine.h"

namespace weft::graph {
namespace {

const Tensor* ConstantOf(const Graph& graph, ValueId id) {
  return id.valid() && graph[id].kind == ValueKind::kConstant ? &graph[id].constant : nullptr;
}

std::optional<PerChannel> Normalization(const Graph& graph, const Node& bn) {
  const Tensor* in[4];  // scale, bias, mean, variance
  for (size_t i = 0; i < 4; ++i) {
    in[i] = ConstantOf(graph, InputAt(bn, i + 1));
    if (!in[i] || in[i]->shape() != in[0]->shape()) return std::nullopt;
  }
  if (IntAttr(bn, "training_mode", 0) != 0 || bn.outputs.size() > 1) return std::nullopt;
  const double epsilon = FloatAttr(bn, "epsilon", 1e-5f);
  PerChannel out;
  for (int64_t i = 0; i < in[0]->elems(); ++i) {
    const double scale = ElemAsDouble(*in[0], i) / std::sqrt(ElemAsDouble(*in[3], i) + epsilon);
    if (!std::isfinite(scale)) return std::nullopt;
    out.scale.push_back(scale);
    out.shift.push_back(ElemAsDouble(*in[1], i) - ElemAsDouble(*in[2], i) * scale);
  }
  return out;
}

}  // namespace

Result<int> conv_batchnorm(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kBatchNormalization) continue;
    const auto affine = Normalization(graph, node);
    if (!affine || FoldAffine(r, NodeId(n), node.inputs[0], *affine)) continue;
    const auto& shape = graph[node.outputs[0]].shape;
    if (shape && shape->size() == 2) FoldIntoColumns(r, NodeId(n), node.inputs[0], *affine);
  }
  return r.Finish();
}

}  // namespace weft::graph
