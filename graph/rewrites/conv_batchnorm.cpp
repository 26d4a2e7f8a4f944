// Batch normalization with constant statistics is a scale and a shift of each channel, which the
// weights and the bias of the convolution or Gemm before it can carry (computed in f64).

#include <cmath>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

struct PerChannel {
  std::vector<double> scale, shift;
};

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

// The output channel of element i of the weights, by operator.
struct Weights {
  int64_t groups = 1, channels = 0;  // channels of the output
  int64_t outer = 1, inner = 1;      // elements before and after the axis of output channels
};

std::optional<Weights> WeightsOf(const Node& node, const Tensor& w) {
  Weights out;
  const Shape& s = w.shape();
  size_t axis = 0;
  if (node.op == Op::kConvTranspose) {
    axis = 1;
    out.groups = IntAttr(node, "group", 1);
  } else if (node.op == Op::kGemm) {
    axis = IntAttr(node, "transB", 0) != 0 ? 0 : 1;
  }
  if (s.size() < 2 || out.groups < 1 || s[0] % out.groups != 0) return std::nullopt;
  for (size_t i = 0; i < axis; ++i) out.outer *= s[i];
  for (size_t i = axis + 1; i < s.size(); ++i) out.inner *= s[i];
  out.channels = s[axis] * out.groups;
  return out;
}

// The bias of each output channel; Gemm's may be a scalar or have a row axis.
std::optional<std::vector<double>> BiasOf(const Graph& graph, const Node& node, int64_t channels) {
  std::vector<double> bias(static_cast<size_t>(channels), 0.0);
  if (!InputAt(node, 2).valid()) return bias;
  const Tensor* tensor = ConstantOf(graph, node.inputs[2]);
  if (!tensor || (tensor->elems() != channels && tensor->elems() != 1)) return std::nullopt;
  if (!tensor->shape().empty() && tensor->elems() > 1 && tensor->shape().back() != channels) return std::nullopt;
  const double beta = node.op == Op::kGemm ? FloatAttr(node, "beta", 1.0f) : 1.0;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = beta * ElemAsDouble(*tensor, tensor->elems() == 1 ? 0 : static_cast<int64_t>(i));
  return bias;
}

bool Fold(Rewriter& r, NodeId bn_id) {
  Graph& graph = r.graph;
  const Node bn = graph[bn_id];
  const Node* linear = r.Def(bn.inputs[0]);
  if (!linear || (linear->op != Op::kConv && linear->op != Op::kConvTranspose && linear->op != Op::kGemm)) return false;
  if (!r.OnlyUser(bn.inputs[0]).valid()) return false;
  const Tensor* w = ConstantOf(graph, linear->inputs[1]);
  const auto norm = Normalization(graph, bn);
  if (!w || !norm || (w->dtype() != Dtype::kF32 && w->dtype() != Dtype::kF64)) return false;
  const auto shape = WeightsOf(*linear, *w);
  if (!shape || shape->channels != static_cast<int64_t>(norm->scale.size())) return false;
  const auto bias = BiasOf(graph, *linear, shape->channels);
  if (!bias) return false;

  const double alpha = linear->op == Op::kGemm ? FloatAttr(*linear, "alpha", 1.0f) : 1.0;
  Tensor scaled(w->dtype(), w->shape());
  const int64_t per_group = shape->channels / shape->groups, rows = shape->outer / shape->groups;
  for (int64_t i = 0; i < w->elems(); ++i) {
    const int64_t row = i / shape->inner, group = rows > 0 ? row / per_group / rows : 0;
    const auto channel = static_cast<size_t>(group * per_group + row % per_group);
    SetElem(scaled, i, ElemAsDouble(*w, i) * norm->scale[channel] * alpha);
  }
  Tensor shifted(w->dtype(), {shape->channels});
  for (int64_t i = 0; i < shape->channels; ++i) {
    const auto k = static_cast<size_t>(i);
    SetElem(shifted, i, (*bias)[k] * norm->scale[k] + norm->shift[k]);
  }
  Node merged = *linear;
  merged.outputs = bn.outputs;
  std::erase_if(merged.attributes, [](const Attribute& a) { return a.name == "alpha" || a.name == "beta"; });
  merged.inputs.resize(3);
  const std::string name = graph[bn.outputs[0]].name;
  merged.inputs[1] = r.NewConstant(name + "_weights", std::move(scaled));
  merged.inputs[2] = r.NewConstant(name + "_bias", std::move(shifted));
  graph[bn_id] = std::move(merged);
  r.Changed();
  return true;
}

}  // namespace

Result<int> conv_batchnorm(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == Op::kBatchNormalization) Fold(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
