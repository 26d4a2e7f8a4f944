#include "graph/rewrites/fold_affine.h"

#include <cmath>
#include <limits>

namespace weft::graph {
namespace {

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

// What adds a constant to each column of a value of `columns` columns, taken off: the value behind
// which it stands and the constant, in f64. Zeros if nothing does.
std::pair<ValueId, std::vector<double>> BiasOfColumns(const Rewriter& r, ValueId id,
                                                      size_t columns) {
  std::vector<double> bias(columns, 0.0);
  const Node* add = r.Def(id, Op::kAdd);
  for (size_t k = 0; add != nullptr && k < 2; ++k) {
    const Tensor* constant = ConstantOf(r.graph, add->inputs[1 - k]);
    const ValueId sum = add->inputs[k];
    if (!constant || !r.OnlyUser(sum).valid() || !SameShape(r.graph, sum, id)) continue;
    const auto elems = static_cast<size_t>(constant->elems());
    if (elems != 1 && (elems != columns || constant->shape().back() != constant->elems())) continue;
    for (size_t i = 0; i < columns; ++i)
      bias[i] = ElemAsDouble(*constant, elems == 1 ? 0 : static_cast<int64_t>(i));
    return {sum, std::move(bias)};
  }
  return {id, std::move(bias)};
}

// scale * bias + shift, if the type holds each.
std::optional<Tensor> ShiftedBias(const std::vector<double>& bias, const PerChannel& affine,
                                  Dtype dtype) {
  Tensor shifted(dtype, {static_cast<int64_t>(bias.size())});
  for (size_t i = 0; i < bias.size(); ++i) {
    if (!IsInRange(bias[i], affine.scale[i], affine.shift[i], dtype)) return std::nullopt;
    SetElem(shifted, static_cast<int64_t>(i), bias[i] * affine.scale[i] + affine.shift[i]);
  }
  return shifted;
}

}  // namespace

std::optional<PerChannel> AffineOfNormalization(const Graph& graph, const Node& bn) {
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

std::optional<Tensor> Rounded(const std::vector<double>& values, Dtype dtype, const Shape& shape) {
  Tensor out(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    SetElem(out, static_cast<int64_t>(i), values[i]);
    if (!std::isfinite(ElemAsDouble(out, static_cast<int64_t>(i)))) return std::nullopt;
  }
  return out;
}

std::optional<std::vector<double>> ByChannel(const Graph& graph, ValueId id, size_t rank,
                                             size_t channel_axis, int64_t channels) {
  const Tensor* constant = ConstantOf(graph, id);
  if (!constant || constant->dtype() == Dtype::kString || constant->shape().size() > rank)
    return std::nullopt;
  const Shape& shape = constant->shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t axis = rank - shape.size() + i;
    if (shape[i] != 1 && (axis != channel_axis || shape[i] != channels)) return std::nullopt;
  }
  std::vector<double> numbers;
  for (int64_t i = 0; i < channels; ++i) {
    numbers.push_back(ElemAsDouble(*constant, constant->elems() == 1 ? 0 : i));
    if (!std::isfinite(numbers.back())) return std::nullopt;
  }
  return numbers;
}

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
  auto shifted = ShiftedBias(*bias, affine, w->dtype());
  if (!shifted) return false;
  Node merged = *linear;
  merged.outputs = graph[id].outputs;
  std::erase_if(merged.attributes,
                [](const Attribute& a) { return a.name == "alpha" || a.name == "beta"; });
  merged.inputs.resize(3);
  const std::string name = graph[merged.outputs[0]].name;
  merged.inputs[1] = r.NewConstant(name + "_weights", std::move(scaled));
  merged.inputs[2] = r.NewConstant(name + "_bias", std::move(*shifted));
  graph[id] = std::move(merged);
  r.Changed();
  return true;
}

bool FoldIntoColumns(Rewriter& r, NodeId id, ValueId input, const PerChannel& affine) {
  Graph& graph = r.graph;
  const size_t columns = affine.scale.size();
  const auto keeps_columns = [&](ValueId v) {
    const auto& shape = graph[v].shape;
    return shape && !shape->empty() && shape->back() == Extent(static_cast<int64_t>(columns));
  };
  const ValueId y = graph[id].outputs[0];
  const Node* reshape = r.Def(input);
  const bool is_reshaped = IsReshape(reshape);
  const ValueId end = is_reshaped ? reshape->inputs[0] : input;
  if (r.OnlyUser(input) != id || !r.OnlyUser(end).valid() || !keeps_columns(end) ||
      !keeps_columns(y))
    return false;
  const auto [product, bias] = BiasOfColumns(r, end, columns);
  const Node* matmul = r.Def(product, Op::kMatMul);
  const Tensor* w = matmul ? ConstantOf(graph, matmul->inputs[1]) : nullptr;
  if (!w || (w->dtype() != Dtype::kF32 && w->dtype() != Dtype::kF64) || w->shape().size() != 2)
    return false;

  Tensor scaled(w->dtype(), w->shape());
  for (int64_t i = 0; i < w->elems(); ++i) {
    const double factor = affine.scale[static_cast<size_t>(i) % columns],
                 weight = ElemAsDouble(*w, i);
    if (!IsInRange(weight, factor, 0, w->dtype())) return false;
    SetElem(scaled, i, weight * factor);
  }
  auto shifted = ShiftedBias(bias, affine, w->dtype());
  if (!shifted) return false;
  const std::string name = graph[y].name;
  const ValueId x = matmul->inputs[0];
  const ValueId weights = r.NewConstant(name + "_weights", std::move(scaled));
  const ValueId shifts = r.NewConstant(name + "_bias", std::move(*shifted));
  const auto as_product = graph[end].shape;
  const auto insert = [&](Op op, std::vector<ValueId> inputs, std::string_view suffix) {
    const ValueId made = r.Insert(id, op, std::move(inputs), name + std::string(suffix), y);
    graph[made].shape = as_product;
    return made;
  };
  const ValueId sums = insert(Op::kMatMul, {x, weights}, "_product");
  if (!is_reshaped) {
    r.Become(id, Op::kAdd, {sums, shifts});
    return true;
  }
  r.BecomeLike(id, *reshape, insert(Op::kAdd, {sums, shifts}, "_columns"));
  return true;
}

}  // namespace weft::graph
