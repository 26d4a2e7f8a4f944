// What oneDNN fuses behind an anchor: post-ops. Addends are read by binary_add and never by sum,
// which overwrites its addend and so would need the destination to be the addend's last use.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fallback/match_internal.h"

namespace weft::fallback {
namespace {

using graph::Op;

std::optional<PostOp> ClipPostOp(const graph::Graph& graph, const graph::Node& node) {
  float bounds[] = {-std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::infinity()};
  for (size_t i : {1, 2}) {
    const graph::ValueId bound = graph::InputAt(node, i);
    if (!bound.valid()) continue;
    const auto value = ConstantScalar(graph, bound);
    if (!value) return std::nullopt;
    bounds[i - 1] = *value;
  }
  if (!(bounds[0] <= bounds[1])) return std::nullopt;
  if (bounds[0] == 0 && std::isinf(bounds[1])) return PostOp{.kind = "relu"};
  return PostOp{.kind = "clip", .alpha = bounds[0], .beta = bounds[1]};
}

}  // namespace

std::optional<float> ConstantScalar(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph[id];
  if (value.kind != graph::ValueKind::kConstant || value.constant.elems() != 1) return std::nullopt;
  const Dtype dtype = value.constant.dtype();
  if (dtype != Dtype::kF32 && dtype != Dtype::kBF16) return std::nullopt;
  return static_cast<float>(ElemAsDouble(value.constant, 0));
}

std::string_view BinaryKind(Op op) {
  switch (op) {
    case Op::kAdd:
      return "binary_add";
    case Op::kSub:
      return "binary_sub";
    case Op::kMul:
      return "binary_mul";
    case Op::kDiv:
      return "binary_div";
    default:
      return {};
  }
}

std::optional<PostOp> UnaryPostOp(const graph::Graph& graph, const graph::Node& node) {
  const auto real = [&](std::string_view name, float otherwise) {
    return graph::FloatAttr(node, name, otherwise);
  };
  switch (node.op) {
    case Op::kRelu:
      return PostOp{.kind = "relu"};
    case Op::kClip:
      return ClipPostOp(graph, node);
    case Op::kLeakyRelu:
      return PostOp{.kind = "leaky", .alpha = real("alpha", 0.01f)};
    case Op::kSigmoid:
      return PostOp{.kind = "sigmoid"};
    case Op::kTanh:
      return PostOp{.kind = "tanh"};
    case Op::kGelu:
      return PostOp{.kind = graph::StringAttr(node, "approximate", "none") == "tanh" ? "gelu_tanh"
                                                                                     : "gelu_erf"};
    case Op::kSwish:
      return PostOp{.kind = "swish", .alpha = real("alpha", 1)};
    case Op::kHardSwish:
      return PostOp{.kind = "hardswish"};
    case Op::kHardSigmoid:
      return PostOp{
          .kind = "hardsigmoid", .alpha = real("alpha", 0.2f), .beta = real("beta", 0.5f)};
    case Op::kMish:
      return PostOp{.kind = "mish"};
    case Op::kAbs:
      return PostOp{.kind = "abs"};
    case Op::kSqrt:
      return PostOp{.kind = "sqrt"};
    case Op::kExp:
      return PostOp{.kind = "exp"};
    default:
      // Near zeros of Log, Elu and Softplus its results are off by 1e-4 to 2e-1 of what they are.
      return std::nullopt;
  }
}

// One value for each column of a matmul, before anything else is fused.
bool CallMatcher::TakesAsBias(graph::ValueId id) const {
  if (call_.op != "matmul" || !call_.post_ops.empty() || FindOperand(call_, "bias")) return false;
  const auto shape = graph::StaticShape(graph_[id]);
  const Shape& dst = ShapeOf("dst");
  if (!shape || shape->empty() || shape->size() > dst.size() || shape->back() != dst.back())
    return false;
  for (size_t d = 0; d + 1 < shape->size(); ++d) {
    if ((*shape)[d] != 1) return false;
  }
  return graph_[id].kind == graph::ValueKind::kConstant;
}

No CallMatcher::PostOperand(graph::ValueId other, std::string_view kind) {
  if (auto no = Input(fmt::format("post{}", call_.post_ops.size()), other)) return no;
  const Shape &dst = ShapeOf("dst"), &shape = call_.inputs.back().shape;
  // The axis that a broadcast operand may keep: the channels, or the columns of a matmul.
  const size_t kept = call_.op == "matmul" || dst.size() < 2 ? dst.size() - 1 : 1;
  bool whole = shape.size() == dst.size(), channels = shape.size() <= dst.size();
  for (size_t d = 0; d < shape.size() && (whole || channels); ++d) {
    const size_t at = dst.size() - shape.size() + d;
    whole &= shape[d] == dst[at];
    channels &= shape[d] == 1 || (at == kept && shape[d] == dst[at]);
  }
  // Behind a pool of plain operands the library reads a whole one at wrong places; behind a binary
  // operation, where nothing lies within a channel, the first channel's value for all of them.
  const bool alone =
      std::all_of(dst.begin() + static_cast<std::ptrdiff_t>(std::min(kept + 1, dst.size())),
                  dst.end(), [](int64_t extent) { return extent == 1; });
  const bool misread = call_.op == "pooling"  ? !channels
                       : call_.op == "binary" ? channels && alone && dst.size() > 2
                                              : false;
  if (misread || (!channels && !whole)) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} of {} broadcast to {}", graph_[other].name,
                  weft::Print(shape), weft::Print(dst));
  }
  if (!whole && !call_.inputs.back().layout.IsPlain()) {
    return Refuse(Reason::kLayoutUnknownToLibrary, "{} in {}", graph_[other].name,
                  Print(call_.inputs.back().layout));
  }
  call_.post_ops.push_back({.kind = std::string(kind)});
  return std::nullopt;
}

No CallMatcher::PostBinary(const graph::Node& node, std::string_view kind) {
  const graph::ValueId a = graph::InputAt(node, 0), b = graph::InputAt(node, 1);
  const bool commutes = node.op == Op::kAdd || node.op == Op::kMul;
  const graph::ValueId other = a == result_ ? b : a;
  if (!other.valid() || other == result_ || (a != result_ && !commutes)) {
    return Refuse(Reason::kPatternUnknownToLibrary, "{} of these operands", graph::OpName(node.op));
  }
  const auto scalar = ConstantScalar(graph_, other);
  if (scalar && (node.op == Op::kAdd || node.op == Op::kSub)) {  // x * 1 + c rounds as x + c does
    call_.post_ops.push_back(
        {.kind = "linear", .alpha = 1, .beta = node.op == Op::kAdd ? *scalar : -*scalar});
    return std::nullopt;
  }
  if (node.op == Op::kAdd && TakesAsBias(other)) return Input("bias", other);
  return PostOperand(other, kind);
}

// Its maxima and minima on x86 give the number where the other operand is a NaN.
No CallMatcher::KeepsNan() const {
  // A gelu makes NaN of infinity, a maximum of pooled -inf the lowest number.
  constexpr std::string_view kLosing[] = {"relu",     "clip",      "hardsigmoid", "exp",
                                          "gelu_erf", "gelu_tanh", "max"};
  const bool contracts =
      call_.op == "convolution" || call_.op == "deconvolution" || call_.op == "matmul";
  if (can_.loses_nan || call_.library != Library::kOnednn || contracts) return std::nullopt;
  const auto loses = [&](std::string_view kind) { return std::ranges::count(kLosing, kind) > 0; };
  if (call_.op == "softmax" || loses(StringAttr(call_, "algorithm", "")) ||
      std::ranges::any_of(call_.post_ops, loses, &PostOp::kind)) {
    return Refuse(Reason::kLosesNanInLibrary, "{}", call_.op);
  }
  return std::nullopt;
}

No CallMatcher::Epilogue(graph::NodeId id) {
  const graph::Node& node = graph_[id];
  constexpr size_t kMost = 8;  // the library takes 32; longer chains gain nothing
  // No kernel of eltwise takes post-ops, only the reference behind them, one element at a time.
  const bool fuses = IsFloat(dtype_) && call_.op != "softmax" &&
                     call_.op != "layer_normalization" && call_.op != "reorder" &&
                     call_.op != "eltwise";
  if (!fuses || call_.post_ops.size() >= kMost) {
    return Refuse(Reason::kPatternUnknownToLibrary, "{} fuses nothing more", call_.op);
  }
  bool reads = false;
  for (graph::ValueId input : node.inputs) reads |= input.valid() && input == result_;
  const auto unary = UnaryPostOp(graph_, node);
  const std::string_view kind = BinaryKind(node.op);
  if (!reads || (!unary && kind.empty()) || (unary && node.inputs[0] != result_)) {
    return Refuse(Reason::kPatternUnknownToLibrary, "{} behind {}", graph::OpName(node.op),
                  call_.op);
  }
  if (unary) {
    call_.post_ops.push_back(*unary);
  } else if (auto no = PostBinary(node, kind)) {
    return no;
  }
  const Shape before = ShapeOf("dst");
  if (auto no = Output(node.outputs.empty() ? graph::ValueId() : node.outputs[0])) return no;
  if (ShapeOf("dst") != before) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} grows to {}", weft::Print(before),
                  weft::Print(ShapeOf("dst")));
  }
  call_.origins.push_back(Origin(graph_, id));
  return std::nullopt;
}

}  // namespace weft::fallback
