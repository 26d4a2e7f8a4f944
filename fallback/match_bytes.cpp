// Products of bytes by oneDNN, as tc_lang/ops/quantize.cpp defines them: sums of 32 bits, exact,
// and of the QLinear operators round(sum * (scale_a * scale_b / scale_y)) + zero, saturated.
//
// Attributes of the calls: src_zero and weights_zero, the zero points that are known and not 0 (a
// source's may be an operand instead); factors, one for each channel, where the post-op "factors"
// stands; wide, see CheckSums. What follows the sum are post-ops in the operator's order, since the
// library's own scales and its zero point of the result round elsewhere: it adds the bias behind
// the scale, and the zero point before it rounds, so that 0.5 + 1 becomes 2 where ONNX says
// round(0.5) + 1 = 1.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fallback/match_internal.h"

namespace weft::fallback {
namespace {

using graph::Op;
using graph::ValueId;

constexpr Dtype kBytes[] = {Dtype::kU8, Dtype::kI8};
constexpr Dtype kSums[] = {Dtype::kI32};
constexpr int64_t kExact = int64_t{1} << 24;  // f32 holds every integer up to it

bool IsLinear(Op op) { return op == Op::kQLinearMatMul || op == Op::kQLinearConv; }
bool Convolves(Op op) { return op == Op::kConvInteger || op == Op::kQLinearConv; }

const Tensor* Constant(const graph::Graph& graph, ValueId id) {
  if (!id.valid() || graph[id].kind != graph::ValueKind::kConstant) return nullptr;
  return &graph[id].constant;
}

// The one number of all elements of a constant.
std::optional<double> Uniform(const graph::Graph& graph, ValueId id) {
  const Tensor* tensor = Constant(graph, id);
  if (tensor == nullptr || tensor->elems() == 0) return std::nullopt;
  for (int64_t i = 1; i < tensor->elems(); ++i)
    if (ElemAsDouble(*tensor, i) != ElemAsDouble(*tensor, 0)) return std::nullopt;
  return ElemAsDouble(*tensor, 0);
}

// The most that the sum of each channel can be, whatever it is computed from: the library shifts
// signed sources by 128 and unsigned weights by -128, and takes off what that and zero points add.
// With P the sum of the positive weights of a channel and N that of the others, each of these is at
// most 256 * max(P, N).
std::vector<int64_t> MostSums(const CallOperand& weights, const Tensor* constant, bool convolves,
                              bool zeros) {
  const Shape& shape = weights.shape;
  const size_t rank = shape.size();
  int64_t depth = convolves ? 1 : shape[rank - 2];
  for (size_t a = 1; convolves && a < rank; ++a) depth *= shape[a];
  const int64_t channels = convolves ? shape[0] : shape[rank - 1];
  const int64_t most = depth * 128, unknown = 256 * most * (zeros ? 2 : 1);
  if (constant == nullptr || unknown <= kExact || zeros)
    return std::vector<int64_t>(static_cast<size_t>(channels), unknown);
  const int64_t less = constant->dtype() == Dtype::kU8 ? 128 : 0;
  std::vector<int64_t> sums(static_cast<size_t>(channels));
  const int64_t matrix = depth * channels;
  std::vector<int64_t> positive(sums.size()), negative(sums.size());
  for (int64_t begin = 0; begin < constant->elems(); begin += matrix) {
    std::ranges::fill(positive, 0);
    std::ranges::fill(negative, 0);
    for (int64_t e = 0; e < matrix; ++e) {
      const auto channel = static_cast<size_t>(convolves ? e / depth : e % channels);
      const int64_t w =
          (less != 0 ? constant->as<uint8_t>()[begin + e] : constant->as<int8_t>()[begin + e]) -
          less;
      (w > 0 ? positive : negative)[channel] += std::abs(w);
    }
    for (size_t c = 0; c < sums.size(); ++c)
      sums[c] = std::max({sums[c], 256 * positive[c], 256 * negative[c]});
  }
  return sums;
}

}  // namespace

No CallMatcher::InputOf(std::string role, ValueId id, std::span<const Dtype> dtypes, bool packs) {
  if (!id.valid()) return Refuse(Reason::kPatternUnknownToLibrary, "no {}", role);
  const auto at = std::ranges::find(dtypes, graph_[id].dtype);
  dtype_ = at == dtypes.end() ? dtypes[0] : *at;
  return role == "dst" ? Output(id) : Input(std::move(role), id, packs);
}

// That of a source may be computed: networks that quantize what flows through them do.
No CallMatcher::ZeroPoint(std::string role, ValueId id) {
  if (!id.valid()) return std::nullopt;
  if (const auto zero = Uniform(graph_, id)) {
    if (*zero != 0) Set(std::move(role), static_cast<int64_t>(*zero));
    return std::nullopt;
  }
  const auto shape = graph::StaticShape(graph_[id]);
  const bool one = shape && CountElems(*shape).ok() && *CountElems(*shape) == 1;
  if (role != "src_zero" || !one || Constant(graph_, id) != nullptr) {
    return Refuse(Reason::kPatternUnknownToLibrary, "{}, a {} that is not one known number",
                  graph_[id].name, role);
  }
  return InputOf(std::move(role), id, kBytes);
}

No CallMatcher::ByteOperands(const graph::Node& node, bool convolves, bool linear) {
  const ValueId weights = graph::InputAt(node, linear ? 3 : 1);
  if (auto no = InputOf("src", node.inputs[0], kBytes)) return no;
  if (auto no = InputOf("weights", weights, kBytes, true)) return no;
  const bool known = Constant(graph_, weights) != nullptr;
  if (!known && graph_[weights].dtype == Dtype::kU8) {
    return Refuse(Reason::kDtypeUnknownToLibrary, "{} is u8 and computed", graph_[weights].name);
  }
  if (!known && convolves) {
    return Refuse(Reason::kPatternUnknownToLibrary, "the filter {} is computed",
                  graph_[weights].name);
  }
  if (linear && convolves && graph::InputAt(node, 8).valid()) {
    if (auto no = InputOf("bias", node.inputs[8], kSums)) return no;
  }
  if (auto no = ZeroPoint("src_zero", graph::InputAt(node, 2))) return no;
  return ZeroPoint("weights_zero", graph::InputAt(node, linear ? 5 : 3));
}

No CallMatcher::Bytes(const graph::Node& node) {
  const bool convolves = Convolves(node.op), linear = IsLinear(node.op);
  call_.op = convolves ? "convolution" : "matmul";
  if (!can_.dot_products) {
    return Refuse(Reason::kSaturatesInLibrary, "{} without VNNI", graph::OpName(node.op));
  }
  if (auto no = ByteOperands(node, convolves, linear)) return no;
  if (auto no = InputOf("dst", node.outputs[0], linear ? std::span<const Dtype>(kBytes) : kSums))
    return no;
  if (convolves) {
    if (auto no = Convolved(node)) return no;
  } else {
    if (auto no = Multiplied()) return no;
  }
  const bool shifted = FindOperand(call_, "weights")->dtype == Dtype::kU8;
  if (convolves && IntAttr(call_, "weights_zero", 0) != (shifted ? 128 : 0)) {
    return Refuse(Reason::kPatternUnknownToLibrary, "a filter whose zero point is {}",
                  IntAttr(call_, "weights_zero", 0));
  }
  if (linear) {
    if (auto no = Requantize(node)) return no;
  }
  return CheckSums(node);
}

// The operator's own arithmetic, which is f32: scale_a * scale_b / scale_y.
No CallMatcher::Requantize(const graph::Node& node) {
  const auto a = Uniform(graph_, graph::InputAt(node, 1)),
             y = Uniform(graph_, graph::InputAt(node, 6));
  const Tensor* b = Constant(graph_, graph::InputAt(node, 4));
  const ValueId zero = graph::InputAt(node, 7);
  const auto shift = zero.valid() ? Uniform(graph_, zero) : 0;
  if (!a || !y || b == nullptr || b->elems() == 0 || !shift) {
    return Refuse(Reason::kPatternUnknownToLibrary, "scales, or a zero point, that are not known");
  }
  std::vector<float> factors;
  for (int64_t i = 0; i < b->elems(); ++i) {
    const auto each = static_cast<float>(ElemAsDouble(*b, i));
    factors.push_back(static_cast<float>(*a) * each / static_cast<float>(*y));
    if (!std::isnormal(factors.back())) {
      return Refuse(Reason::kRoundsInLibrary, "{} times the sum", factors.back());
    }
  }
  const Shape& dst = ShapeOf("dst");
  const int64_t channels = call_.op == "matmul" ? dst.back() : dst[1];
  if (std::ranges::all_of(factors, [&](float f) { return f == factors[0]; })) {
    call_.post_ops.push_back({.kind = "linear", .alpha = factors[0]});
  } else if (b->shape().size() == 1 && b->elems() == channels) {
    Set("factors", std::move(factors));
    call_.post_ops.push_back({.kind = "factors"});
  } else {
    return Refuse(Reason::kShapeUnknownToLibrary, "scales {} of {} channels",
                  weft::Print(b->shape()), channels);
  }
  call_.post_ops.push_back({.kind = "round"});
  if (*shift != 0)
    call_.post_ops.push_back({.kind = "linear", .alpha = 1, .beta = static_cast<float>(*shift)});
  return std::nullopt;
}

// The library's sums are exact, but behind them it computes in f32, and some kernels turn into f32
// each of the sum, what zero points add to it, and the bias. That is exact while all of it stays
// below 2^24. Above, calls are marked `wide`: they get kernels that first take zero points off in
// 32 bits. Then a sum of 32 bits comes out as it is if nothing is added, and one that is
// requantized is rounded to f32 once, as the operator does, but for the bias: that is refused,
// unless the result saturates, either way, before sums get so large.
No CallMatcher::CheckSums(const graph::Node& node) {
  const bool convolves = Convolves(node.op);
  const CallOperand& weights = *FindOperand(call_, "weights");
  const bool zeros = IntAttr(call_, "weights_zero", 0) != (weights.dtype == Dtype::kU8 ? 128 : 0);
  const Tensor* constant = Constant(graph_, graph::InputAt(node, IsLinear(node.op) ? 3 : 1));
  const std::vector<int64_t> sums = MostSums(weights, constant, convolves, zeros);
  const CallOperand* bias_operand = FindOperand(call_, "bias");
  const Tensor* bias = bias_operand ? Constant(graph_, graph::InputAt(node, 8)) : nullptr;
  const CallAttribute* list = FindAttribute(call_, "factors");
  if (bias_operand && bias == nullptr)
    return Refuse(Reason::kRoundsInLibrary, "the bias is computed");
  bool wide = false;
  for (size_t c = 0; c < sums.size(); ++c) {
    const int64_t added = bias ? std::abs(ElemAsInt(*bias, static_cast<int64_t>(c))) : 0;
    if (sums[c] + added <= kExact) continue;
    wide = true;
    if (added == 0 && sums[c] < INT32_MAX) continue;
    const float factor = list                     ? std::get<std::vector<float>>(list->value)[c]
                         : call_.post_ops.empty() ? 0
                                                  : call_.post_ops[0].alpha;
    // 512: past any byte, whatever the zero point.
    if (sums[c] + added > INT32_MAX ||
        static_cast<double>(kExact - 2 * added) * std::abs(factor) < 512) {
      return Refuse(Reason::kRoundsInLibrary, "sums up to {}, and a bias of {}", sums[c], added);
    }
  }
  if (!wide) return std::nullopt;
  const bool adds = zeros || IntAttr(call_, "src_zero", 0) != 0 ||
                    FindOperand(call_, "src_zero") != nullptr ||
                    FindOperand(call_, "src")->dtype == Dtype::kI8;
  if (!IsLinear(node.op) && adds) {
    return Refuse(Reason::kRoundsInLibrary, "sums up to {}, and zero points to take off them",
                  *std::ranges::max_element(sums));
  }
  const auto fits = [](int64_t channels) { return channels % 16 == 0; };
  if (convolves &&
      !(IntAttr(call_, "group", 1) == 1 && fits(weights.shape[0]) && fits(weights.shape[1]))) {
    return Refuse(Reason::kRoundsInLibrary, "sums up to {}, of a filter {}",
                  *std::ranges::max_element(sums), weft::Print(weights.shape));
  }
  Set("wide", int64_t{1});
  return std::nullopt;
}

}  // namespace weft::fallback
