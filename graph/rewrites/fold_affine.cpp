#include "graph/rewrites/fold_affine.h"

#include <cmath>
#include <limits>

namespace weft::graph {
namespace {

const Tensor* ConstantOf(const Graph& graph, ValueId id) {
  return id.valid() && graph[id].kind == ValueKind::kConstant ? &graph[id].constant : nullptr;
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
  const double beta = node.op == Op::kGemm ? FloatAttr(node, "beta", 1.0f) : 1.0;
  if (!InputAt(node, 2).valid() || beta == 0) return bias;
  const Tensor* tensor = ConstantOf(graph, node.inputs[2]);
  if (!tensor || (tensor->elems() != channels && tensor->elems() != 1)) return std::nullopt;
  if (!tensor->shape().empty() && tensor->elems() > 1 && tensor->shape().back() != channels)
    return std::nullopt;
  for (size_t i = 0; i < bias.size(); ++i)
    bias[i] = beta * ElemAsDouble(*tensor, tensor->elems() == 1 ? 0 : static_cast<int64_t>(i));
  return bias;
}

// Whether a type holds what a * b + c is as well as its parts, which it holds.
bool IsInRange(double a, double b, double c, Dtype dtype) {
  const bool is_wide = dtype == Dtype::kF64;
  const double most =
      is_wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const double least =
      is_wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const double value = std::abs(a * b + c);
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return true;
  const bool is_product = a != 0 && b != 0 && c == 0;
  return value <= most && (value >= least || !is_product);
}

}  // namespace

const Node* LinearBefore(const Rewriter& r, ValueId id) {
  const Node* linear = r.Def(id);
  if (!linear ||
      (linear->op != Op::kConv && linear->op != Op::kConvTranspose && linear->op != Op::kGemm))
    return nullptr;
  const Tensor* w = ConstantOf(r.graph, linear->inputs[1]);
  if (!w || (w->dtype() != Dtype::kF32 && w->dtype() != Dtype::kF64)) return nullptr;
  return r.OnlyUser(id).valid() ? linear : nullptr;
}

int64_t ChannelsOf(const Graph& graph, const Node& linear) {
  const Tensor* w = ConstantOf(graph, linear.inputs[1]);
  const auto shape = w ? WeightsOf(linear, *w) : std::nullopt;
  return shape ? shape->channels : 0;
}

bool FoldAffine(Rewriter& r, NodeId id, ValueId input, const PerChannel& affine) {
  Graph& graph = r.graph;
  const Node* linear = LinearBefore(r, input);
  if (!linear) return false;
  const Tensor* w = ConstantOf(graph, linear->inputs[1]);
  const auto shape = WeightsOf(*linear, *w);
  if (!shape || shape->channels != static_cast<int64_t>(affine.scale.size())) return false;
  const auto bias = BiasOf(graph, *linear, shape->channels);
  if (!bias) return false;

  const double alpha = linear->op == Op::kGemm ? FloatAttr(*linear, "alpha", 1.0f) : 1.0;
  Tensor scaled(w->dtype(), w->shape());
  const int64_t per_group = shape->channels / shape->groups, rows = shape->outer / shape->groups;
  for (int64_t i = 0; i < w->elems(); ++i) {
    const int64_t row = i / shape->inner, group = rows > 0 ? row / per_group / rows : 0;
    const auto channel = static_cast<size_t>(group * per_group + row % per_group);
    const double factor = affine.scale[channel] * alpha, weight = ElemAsDouble(*w, i);
    if (!IsInRange(weight, factor, 0, w->dtype())) return false;
    SetElem(scaled, i, weight * factor);
  }
  Tensor shifted(w->dtype(), {shape->channels});
  for (int64_t i = 0; i < shape->channels; ++i) {
    const auto k = static_cast<size_t>(i);
    if (!IsInRange((*bias)[k], affine.scale[k], affine.shift[k], w->dtype())) return false;
    SetElem(shifted, i, (*bias)[k] * affine.scale[k] + affine.shift[k]);
  }
  Node merged = *linear;
  merged.outputs = graph[id].outputs;
  std::erase_if(merged.attributes,
                [](const Attribute& a) { return a.name == "alpha" || a.name == "beta"; });
  merged.inputs.resize(3);
  const std::string name = graph[merged.outputs[0]].name;
  merged.inputs[1] = r.NewConstant(name + "_weights", std::move(scaled));
  merged.inputs[2] = r.NewConstant(name + "_bias", std::move(shifted));
  graph[id] = std::move(merged);
  r.Changed();
  return true;
}

}  // namespace weft::graph
