// Products of dequantized integers as products of the integers, which is what a network quantized
// with QuantizeLinear and DequantizeLinear means:
//   Conv(DequantizeLinear(x, a, p), DequantizeLinear(w, b), bias)
//     = Cast(ConvInteger(x, w, p)) * (a * b) + bias,
// and MatMul and Gemm alike. The sums become exact; what was a sum of rounded floats before.
//
// Constant weights of such products that fit signed bytes less their zero point are those, as
// instructions multiply them, and need none.
#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// So many products of a u8 less its zero point and an i8 are within 32 bits.
constexpr int64_t kMostProducts = (int64_t{1} << 31) / (255 * 128);

// x = scale * (bytes - zero), with one scale and at most one zero point.
struct Activations {
  ValueId bytes, scale, zero;
};

std::optional<Activations> ActivationsOf(const Rewriter& r, ValueId id) {
  const Node* node = r.Def(id, Op::kDequantizeLinear);
  if (!node) return std::nullopt;
  const Activations x{InputAt(*node, 0), InputAt(*node, 1), InputAt(*node, 2)};
  const auto dtype = r.graph[x.bytes].dtype;
  const auto is_one = [&](ValueId v) {
    const auto shape = StaticShape(r.graph[v]);
    return shape && (shape->empty() || *shape == Shape{1});
  };
  if ((dtype != Dtype::kU8 && dtype != Dtype::kI8) || r.graph[x.scale].dtype != Dtype::kF32 ||
      !is_one(x.scale) || (x.zero.valid() && !is_one(x.zero)))
    return std::nullopt;
  return x;
}

// Bytes less their zero point (null for 0), one number or one for each place of the axis `along`,
// if all are in the range of an i8.
std::optional<Tensor> SignedBytes(const Tensor& w, const Tensor* zero, int64_t along) {
  Tensor bytes(Dtype::kI8, w.shape());
  const int64_t channels = w.shape()[static_cast<size_t>(along)];
  int64_t inner = 1;
  for (size_t a = static_cast<size_t>(along) + 1; a < w.shape().size(); ++a) inner *= w.shape()[a];
  for (int64_t i = 0; i < w.elems(); ++i) {
    const int64_t channel = zero && zero->elems() > 1 ? i / inner % channels : 0;
    const int64_t byte = ElemAsInt(w, i) - (zero ? ElemAsInt(*zero, channel) : 0);
    if (byte < INT8_MIN || byte > INT8_MAX) return std::nullopt;
    SetElemInt(bytes, i, byte);
  }
  return bytes;
}

// w = scale * bytes: i8, scales by channel of the output.
struct Weights {
  Tensor bytes, scale;
};

// `along`: the axis of the output's channels.
std::optional<Weights> WeightsOf(const Rewriter& r, ValueId id, int64_t along) {
  const Node* node = r.Def(id, Op::kDequantizeLinear);
  if (!node || IntAttr(*node, "block_size", 0) != 0) return std::nullopt;
  const auto constant = [&](size_t k) { return ConstantOf(r.graph, InputAt(*node, k)); };
  const Tensor *w = constant(0), *scale = constant(1), *zero = constant(2);
  if (!w || !scale || (InputAt(*node, 2).valid() && !zero) || scale->dtype() != Dtype::kF32 ||
      (w->dtype() != Dtype::kI8 && w->dtype() != Dtype::kU8))
    return std::nullopt;
  const auto rank = static_cast<int64_t>(w->shape().size());
  if (along >= rank) return std::nullopt;
  const int64_t channels = w->shape()[static_cast<size_t>(along)];
  int64_t axis = IntAttr(*node, "axis", 1);
  if (axis < 0) axis += rank;
  const auto fits = [&](const Tensor& t) {
    return t.elems() == 1 || (t.shape() == Shape{channels} && axis == along);
  };
  if (!fits(*scale) || (zero && !fits(*zero))) return std::nullopt;
  auto bytes = SignedBytes(*w, zero, along);
  if (!bytes) return std::nullopt;
  return Weights{std::move(*bytes), *scale};
}

void Match(Rewriter& r, NodeId id) {
  const Node node = r.graph[id];
  const bool convolves = node.op == Op::kConv, turned = IntAttr(node, "transB", 0) != 0;
  const auto x = ActivationsOf(r, node.inputs[0]);
  if (!x || r.graph[node.outputs[0]].dtype != Dtype::kF32) return;
  if (node.op == Op::kGemm && !IsPlainGemm(node)) return;
  auto w = WeightsOf(r, node.inputs[1], convolves || turned ? 0 : 1);
  if (!w) return;
  const Shape& shape = w->bytes.shape();
  if ((!convolves && shape.size() != 2) || w->bytes.elems() == 0) return;
  const int64_t channels = shape[convolves || turned ? 0 : 1];
  if (w->bytes.elems() / channels > kMostProducts) return;

  const ValueId y = node.outputs[0];
  const std::string name = r.graph[y].name;
  ValueId bytes = r.NewConstant(r.graph[node.inputs[1]].name + "_bytes", w->bytes);
  if (turned) {
    bytes = r.Insert(id, Op::kTranspose, {bytes}, name + "_turned", bytes);
    r.graph[bytes].shape = {shape[1], shape[0]};
  }
  const ValueId sum =
      r.Insert(id, convolves ? Op::kConvInteger : Op::kMatMulInteger, {x->bytes, bytes, x->zero},
               name + "_sum", y, convolves ? node.attributes : std::vector<Attribute>{});
  r.graph[sum].dtype = Dtype::kI32;
  const ValueId real = r.Insert(id, Op::kCast, {sum}, name + "_real", y,
                                {{"to", int64_t{DtypeToOnnx(Dtype::kF32)}}});
  // One number a channel, which is the axis behind the batch of a convolution, else the last.
  Shape by_channel{w->scale.elems()};
  if (convolves) by_channel.resize(shape.size() - 1, 1);
  const ValueId factor = r.NewConstant(name + "_factor", w->scale.Reshaped(by_channel));
  const ValueId scale = r.Insert(id, Op::kMul, {x->scale, factor}, name + "_scale", factor);
  const ValueId bias = InputAt(node, 2);
  if (!bias.valid()) return r.Become(id, Op::kMul, {real, scale});
  ValueId added = bias;
  if (convolves) {
    by_channel[0] = channels;
    Tensor extents(Dtype::kI64, {static_cast<int64_t>(by_channel.size())});
    for (size_t i = 0; i < by_channel.size(); ++i)
      SetElemInt(extents, static_cast<int64_t>(i), by_channel[i]);
    added = r.Insert(id, Op::kReshape, {bias, r.NewConstant(name + "_extents", extents)},
                     name + "_bias", bias);
    r.graph[added].shape.emplace(by_channel.begin(), by_channel.end());
  }
  const ValueId product = r.Insert(id, Op::kMul, {real, scale}, name + "_product", y);
  r.Become(id, Op::kAdd, {product, added});
}

// The weights of a product of integers, input `at`, of which input `at_zero` is the zero point.
void MakeSigned(Rewriter& r, NodeId id, size_t at, size_t at_zero, bool convolves) {
  const Node& node = r.graph[id];
  const ValueId of_w = InputAt(node, at), of_zero = InputAt(node, at_zero);
  const Tensor *w = ConstantOf(r.graph, of_w), *zero = ConstantOf(r.graph, of_zero);
  if (!w || (of_zero.valid() && !zero) || w->shape().empty()) return;
  const bool shifts =
      zero && std::ranges::any_of(zero->raw(), [](std::byte b) { return b != std::byte(0); });
  if (w->dtype() != Dtype::kU8 && (w->dtype() != Dtype::kI8 || !shifts)) return;
  const size_t along = convolves ? 0 : w->shape().size() - 1;
  const bool fits = !zero || zero->elems() == 1 ||
                    (w->shape().size() > 1 && zero->shape() == Shape{w->shape()[along]});
  if (!fits) return;
  auto bytes = SignedBytes(*w, zero, static_cast<int64_t>(along));
  if (!bytes) return;
  std::vector<ValueId> inputs = node.inputs;
  inputs[at] = r.NewConstant(r.graph[of_w].name + "_signed", std::move(*bytes));
  if (of_zero.valid())
    inputs[at_zero] = r.NewConstant(r.graph[of_zero].name + "_signed", Tensor(Dtype::kI8, {}));
  r.Become(id, node.op, std::move(inputs), node.attributes);
}

}  // namespace

Result<int> integer_products(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kConv || op == Op::kMatMul || op == Op::kGemm) Match(r, NodeId(n));
    if (op == Op::kConvInteger || op == Op::kMatMulInteger)
      MakeSigned(r, NodeId(n), 1, 3, op == Op::kConvInteger);
    if (op == Op::kQLinearConv || op == Op::kQLinearMatMul)
      MakeSigned(r, NodeId(n), 3, 5, op == Op::kQLinearConv);
  }
  return r.Finish();
}

}  // namespace weft::graph
