// Which nodes oneDNN can begin with. Attributes of the calls: strides, dilations (1: dense) and
// pads (all begins, then all ends) always explicit; trans_a and trans_b of a matmul; the axis of a
// softmax; tf32 where a device's library may round factors. Those of products of bytes stand in
// match_bytes.cpp.
#include <algorithm>

#include "fallback/match_internal.h"
#include "graph/forms.h"

namespace weft::fallback {
namespace {

using graph::Op;

bool IsOnes(const std::vector<int64_t>& v) {
  return std::ranges::all_of(v, [](int64_t e) { return e == 1; });
}

}  // namespace

void CallMatcher::Set(std::string name, CallAttributeValue value) {
  const auto at = std::ranges::lower_bound(call_.attributes, name, {}, &CallAttribute::name);
  call_.attributes.insert(at, {std::move(name), std::move(value)});
}

No CallMatcher::Input(std::string role, graph::ValueId id, bool packs) {
  const graph::Value& value = graph_[id];
  if (value.dtype != dtype_) {
    return Refuse(Reason::kDtypeUnknownToLibrary, "{} is {}", value.name,
                  value.dtype ? DtypeName(*value.dtype) : "of unknown type");
  }
  const auto shape = graph::StaticShape(value);
  if (!shape) return Refuse(Reason::kShapeUnknownToLibrary, "{} has symbolic extents", value.name);
  const auto elems = CountElems(*shape);
  if (!elems.ok() || *elems == 0 || shape->size() > 6) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} is {}", value.name, weft::Print(*shape));
  }
  CallOperand operand{
      .role = std::move(role), .value = value.name, .dtype = dtype_, .shape = *shape};
  operand.constant = value.kind == graph::ValueKind::kConstant;
  operand.any_layout = packs && operand.constant && call_.library == Library::kOnednn;
  operand.layout = Layout::Plain(shape->size());
  if (layout_ && !operand.constant) operand.layout = layout_(id);
  if (operand.layout.rank() != shape->size()) {
    return Refuse(Reason::kLayoutUnknownToLibrary, "{} of rank {} in {}", value.name, shape->size(),
                  Print(operand.layout));
  }
  const auto blocks =
      std::ranges::count_if(operand.layout.axes, [](auto a) { return a.block > 0; });
  const bool channels =
      blocks == 1 && operand.layout.axes.back().axis == 1 && operand.layout.row_pad_elems == 0;
  if (blocks > 0 && !(channels && (operand.layout.axes.back().block == 8 ||
                                   operand.layout.axes.back().block == 16))) {
    return Refuse(Reason::kLayoutUnknownToLibrary, "{} in {}", value.name, Print(operand.layout));
  }
  call_.inputs.push_back(std::move(operand));
  return std::nullopt;
}

No CallMatcher::Halves(const graph::Node& node) {
  if (graph_[node.inputs[0]].dtype != Dtype::kBF16) return std::nullopt;
  if (!can_.bfloat16) {
    return Refuse(Reason::kDtypeUnknownToLibrary, "{} is bf16, and the target without AVX-512",
                  graph_[node.inputs[0]].name);
  }
  if (!can_.flushes) {
    return Refuse(Reason::kInaccurate, "{} may hold subnormal numbers, which are taken for 0",
                  graph_[node.inputs[0]].name);
  }
  dtype_ = Dtype::kBF16;
  return std::nullopt;
}

No CallMatcher::Factors(const graph::Node& node) {
  if (auto no = Halves(node)) return no;
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Input("weights", node.inputs[1], true)) return no;
  if (node.outputs[0].valid() && graph_[node.outputs[0]].dtype == Dtype::kF32) dtype_ = Dtype::kF32;
  if (can_.tf32 && IsOnDevice(call_.library)) Set("tf32", int64_t{1});
  return std::nullopt;
}

No CallMatcher::Output(graph::ValueId id) {
  if (!id.valid()) return Refuse(Reason::kPatternUnknownToLibrary, "the result has no name");
  if (auto no = Input("dst", id)) return no;
  call_.outputs = {std::move(call_.inputs.back())};
  call_.inputs.pop_back();
  call_.outputs[0].constant = false;
  result_ = id;
  return std::nullopt;
}

No CallMatcher::Anchor(graph::NodeId id) {
  const graph::Node& node = graph_[id];
  call_.origins = {Origin(graph_, id)};
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) {
      return Refuse(Reason::kPatternUnknownToLibrary, "{} with {} results", graph::OpName(node.op),
                    node.outputs.size());
    }
  }
  if (node.op != Op::kUnknown && graph::InputAt(node, 0).valid()) {
    switch (node.op) {
      case Op::kConv:
        return Convolution(node);
      case Op::kConvTranspose:
        return Deconvolution(node);
      case Op::kGemm:
        return Gemm(node);
      case Op::kMatMul:
        return MatMul(node);
      case Op::kDequantizeMatMul:
        return FoldedProduct(node);
      case Op::kMatMulInteger:
      case Op::kConvInteger:
      case Op::kQLinearMatMul:
      case Op::kQLinearConv:
        return Bytes(node);
      case Op::kMaxPool:
      case Op::kAveragePool:
      case Op::kGlobalMaxPool:
      case Op::kGlobalAveragePool:
        return Pooling(node);
      case Op::kSoftmax:  // not LogSoftmax, whose logarithms are off by 3e-6 near 1
        return Softmax(node);
      case Op::kLayerNormalization:
        return LayerNorm(node);
      case Op::kTranspose:
        return Transpose(node);
      default:
        if (!BinaryKind(node.op).empty()) return Binary(node);
        if (UnaryPostOp(graph_, node)) return Eltwise(node);
    }
  }
  return Refuse(Reason::kOpUnknownToLibrary, "{}",
                node.op_name.empty() ? graph::OpName(node.op) : node.op_name);
}

No CallMatcher::SetWindow(const std::vector<int64_t>& strides,
                          const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads) {
  for (const auto* list : {&strides, &dilations, &pads}) {
    const auto most = std::ranges::max_element(*list);
    if (most != list->end() && *most >= kMostInWindow)
      return Refuse(Reason::kShapeUnknownToLibrary, "{} in a window", *most);
  }
  Set("strides", strides);
  Set("dilations", dilations);
  Set("pads", pads);
  return std::nullopt;
}

No CallMatcher::Window(const graph::Node& node, std::span<const int64_t> kernel) {
  const Shape &src = ShapeOf("src"), &dst = ShapeOf("dst");
  const size_t n = kernel.size();
  if (src.size() != n + 2 || dst.size() != n + 2 || n < 1 || n > 3) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} spatial axes of {}", n, weft::Print(src));
  }
  std::vector<int64_t> strides = graph::IntsAttr(node, "strides"),
                       dilations = graph::IntsAttr(node, "dilations");
  std::vector<int64_t> pads = graph::IntsAttr(node, "pads");
  strides.resize(n, 1);
  dilations.resize(n, 1);
  pads.resize(2 * n, 0);
  const std::string mode = graph::StringAttr(node, "auto_pad", "NOTSET");
  if (mode != "NOTSET") std::ranges::fill(pads, 0);
  for (size_t d = 0; d < n; ++d) {
    const int64_t reach = (kernel[d] - 1) * dilations[d] + 1, in = src[d + 2], out = dst[d + 2];
    // What the last window needs behind the input: more than the pads under ceil_mode.
    const int64_t total = std::max<int64_t>((out - 1) * strides[d] + reach - in, 0);
    if (mode.starts_with("SAME")) {
      pads[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[n + d] = total - pads[d];
    }
    const int64_t more = total - pads[d] - pads[n + d];
    if (more > 0) {
      if (StringAttr(call_, "algorithm", "max") == "avg_include_padding") {
        return Refuse(Reason::kShapeUnknownToLibrary,
                      "a window beyond the padding, whose average counts it");
      }
      pads[n + d] += more;
    }
    // The library refuses to average where padding is all that a window may see, and whatever is
    // dilated that far.
    const bool may_be_empty = std::max(pads[d], pads[n + d]) >= reach || dilations[d] > in;
    if (may_be_empty && StringAttr(call_, "algorithm", "max") == "avg_exclude_padding") {
      return Refuse(Reason::kShapeUnknownToLibrary, "an average of padding alone");
    }
    if ((in + pads[d] + pads[n + d] - reach) / strides[d] + 1 != out || pads[d] < 0 ||
        pads[n + d] < 0) {
      return Refuse(Reason::kShapeUnknownToLibrary, "extent {} gives {} with pads {} and {}", in,
                    out, pads[d], pads[n + d]);
    }
  }
  return SetWindow(strides, dilations, pads);
}

No CallMatcher::Convolution(const graph::Node& node) {
  call_.op = "convolution";
  if (auto no = Factors(node)) return no;
  if (graph::InputAt(node, 2).valid()) {
    if (auto no = Input("bias", node.inputs[2])) return no;
  }
  if (auto no = Output(node.outputs[0])) return no;
  return Convolved(node);
}

No CallMatcher::Convolved(const graph::Node& node) {
  const Shape& weights = ShapeOf("weights");
  const int64_t group = graph::IntAttr(node, "group", 1);
  if (weights.size() < 3 || group < 1 || weights[0] % group != 0 ||
      ShapeOf("src")[1] != weights[1] * group) {
    return Refuse(Reason::kShapeUnknownToLibrary, "weights {} in {} groups", weft::Print(weights),
                  group);
  }
  Set("group", group);
  return Window(node, std::span(weights).subspan(2));
}

// A transposed window: total = reach of all windows - output, of which output_padding is no
// padding.
No CallMatcher::Deconvolved(const graph::Node& node, std::span<const int64_t> kernel) {
  const Shape &src = ShapeOf("src"), &dst = ShapeOf("dst");
  const size_t n = kernel.size();
  std::vector<int64_t> strides = graph::IntsAttr(node, "strides"),
                       dilations = graph::IntsAttr(node, "dilations");
  std::vector<int64_t> pads = graph::IntsAttr(node, "pads"),
                       extra = graph::IntsAttr(node, "output_padding");
  const std::string mode = graph::StringAttr(node, "auto_pad", "NOTSET");
  const bool is_same = mode.starts_with("SAME");
  if (!is_same && graph::FindAttribute(node, "output_shape"))
    return Refuse(Reason::kShapeUnknownToLibrary, "output_shape without pads that are the same");
  strides.resize(n, 1);
  dilations.resize(n, 1);
  pads.resize(2 * n, 0);
  extra.resize(n, 0);
  for (size_t d = 0; d < n; ++d) {
    const int64_t reach = (src[d + 2] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1;
    const int64_t total = reach - dst[d + 2];  // what the library must cut
    if (is_same) {
      const int64_t both = total + extra[d], half = FloorDiv(both, 2);
      pads[d] = mode == "SAME_UPPER" ? half : both - half;
    } else if (mode == "VALID") {
      pads[d] = 0;
    }
    pads[n + d] = total - pads[d];
    if (pads[d] < 0 || pads[n + d] < 0) {
      return Refuse(Reason::kShapeUnknownToLibrary, "pads {} and {}", pads[d], pads[n + d]);
    }
  }
  return SetWindow(strides, dilations, pads);
}

No CallMatcher::Deconvolution(const graph::Node& node) {
  call_.op = "deconvolution";
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Input("weights", node.inputs[1], true)) return no;
  if (graph::InputAt(node, 2).valid()) {
    if (auto no = Input("bias", node.inputs[2])) return no;
  }
  if (auto no = Output(node.outputs[0])) return no;
  const Shape &src = ShapeOf("src"), &weights = ShapeOf("weights");
  const int64_t group = graph::IntAttr(node, "group", 1);
  if (weights.size() < 3 || weights.size() > 5 || weights.size() != src.size() || group < 1 ||
      src[1] % group != 0 || weights[0] != src[1]) {
    return Refuse(Reason::kShapeUnknownToLibrary, "weights {} in {} groups", weft::Print(weights),
                  group);
  }
  Set("group", group);
  return Deconvolved(node, std::span(weights).subspan(2));
}

No CallMatcher::Gemm(const graph::Node& node) {
  call_.op = "matmul";
  if (auto no = Factors(node)) return no;
  const graph::ValueId c = graph::InputAt(node, 2);
  const float alpha = graph::FloatAttr(node, "alpha", 1), beta = graph::FloatAttr(node, "beta", 1);
  if (auto no = Output(node.outputs[0])) return no;
  Set("trans_a", graph::IntAttr(node, "transA", 0));
  Set("trans_b", graph::IntAttr(node, "transB", 0));
  if (c.valid() && beta != 1) return Refuse(Reason::kPatternUnknownToLibrary, "beta is {}", beta);
  if (c.valid() && alpha == 1 && TakesAsBias(c)) return Input("bias", c);
  if (alpha != 1) call_.post_ops.push_back({.kind = "linear", .alpha = alpha});
  return c.valid() ? PostOperand(c, "binary_add") : std::nullopt;
}

No CallMatcher::MatMul(const graph::Node& node) {
  call_.op = "matmul";
  if (auto no = Factors(node)) return no;
  if (auto no = Output(node.outputs[0])) return no;
  return Multiplied();
}

// With weights that were made float32 when the plan was built, if they were.
No CallMatcher::FoldedProduct(const graph::Node& node) {
  call_.op = "matmul";
  const auto form = graph_.forms.find(graph::FoldedWeights(node));
  if (form == graph_.forms.end())
    return Refuse(Reason::kDtypeUnknownToLibrary, "weights of four or eight bits");
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Input("weights", form->second, true)) return no;
  if (auto no = Output(node.outputs[0])) return no;
  return Multiplied();
}

No CallMatcher::Multiplied() {
  const Shape &a = ShapeOf("src"), &b = ShapeOf("weights");
  if (a.size() < 2 || b.size() < 2) {
    return Refuse(Reason::kShapeUnknownToLibrary, "vectors: {} by {}", weft::Print(a),
                  weft::Print(b));
  }
  Set("trans_a", int64_t{0});
  Set("trans_b", int64_t{0});
  return std::nullopt;
}

No CallMatcher::Pooling(const graph::Node& node) {
  call_.op = "pooling";
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Output(node.outputs[0])) return no;
  const Shape src = ShapeOf("src");
  if (src.size() < 3 || src.size() > 5) {
    return Refuse(Reason::kShapeUnknownToLibrary, "pooling of {}", weft::Print(src));
  }
  const bool global = node.op == Op::kGlobalMaxPool || node.op == Op::kGlobalAveragePool;
  const bool is_max = node.op == Op::kMaxPool || node.op == Op::kGlobalMaxPool;
  const bool counts = graph::IntAttr(node, "count_include_pad", 0) != 0;
  Set("algorithm", std::string(is_max   ? "max"
                               : counts ? "avg_include_padding"
                                        : "avg_exclude_padding"));
  std::vector<int64_t> kernel(src.begin() + 2, src.end());
  if (!global) kernel = graph::IntsAttr(node, "kernel_shape");
  Set("kernel", kernel);
  return Window(node, kernel);
}

No CallMatcher::Softmax(const graph::Node& node) {
  call_.op = "softmax";
  if (auto no = Input("src", node.inputs[0])) return no;
  const auto rank = static_cast<int64_t>(ShapeOf("src").size());
  const int64_t axis = graph::IntAttr(node, "axis", -1);
  if (axis < -rank || axis >= rank)
    return Refuse(Reason::kShapeUnknownToLibrary, "axis {} of rank {}", axis, rank);
  Set("axis", axis < 0 ? axis + rank : axis);
  if (auto no = Output(node.outputs[0])) return no;
  // Between two layouts the library takes strides of axes of extent 1 for those of rows, and writes
  // outside of the result.
  if (call_.inputs[0].layout != call_.outputs[0].layout)
    return Refuse(Reason::kLayoutUnknownToLibrary, "{} in another layout than {}",
                  call_.outputs[0].value, call_.inputs[0].value);
  return std::nullopt;
}

// The library normalizes the last axis: all axes from `axis` on are one, which only plain layouts
// allow.
No CallMatcher::LayerNorm(const graph::Node& node) {
  call_.op = "layer_normalization";
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Input("scale", graph::InputAt(node, 1))) return no;
  if (graph::InputAt(node, 2).valid()) {
    if (auto no = Input("shift", node.inputs[2])) return no;
  }
  if (auto no = Output(node.outputs[0])) return no;
  const Shape& src = ShapeOf("src");
  const auto rank = static_cast<int64_t>(src.size());
  int64_t axis = graph::IntAttr(node, "axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return Refuse(Reason::kShapeUnknownToLibrary, "axis {} of rank {}", axis, rank);
  for (const CallOperand& operand : call_.inputs) {
    if (!operand.layout.IsPlain())
      return Refuse(Reason::kLayoutUnknownToLibrary, "{} in {}", operand.value,
                    Print(operand.layout));
    const Shape normalized(src.begin() + axis, src.end());
    if (operand.role != "src" && operand.shape != normalized) {
      return Refuse(Reason::kShapeUnknownToLibrary, "{} is {}, expected {}", operand.value,
                    weft::Print(operand.shape), weft::Print(normalized));
    }
  }
  if (!call_.outputs[0].layout.IsPlain()) {
    return Refuse(Reason::kLayoutUnknownToLibrary, "{} in {}", call_.outputs[0].value,
                  Print(call_.outputs[0].layout));
  }
  Set("axis", axis);
  Set("epsilon", graph::FloatAttr(node, "epsilon", 1e-5f));
  return std::nullopt;
}

No CallMatcher::Transpose(const graph::Node& node) {
  call_.op = "reorder";
  if (auto no = Input("src", node.inputs[0])) return no;
  if (auto no = Output(node.outputs[0])) return no;
  const size_t rank = ShapeOf("src").size();
  std::vector<int64_t> perm = graph::IntsAttr(node, "perm");
  if (perm.empty()) {
    for (size_t d = rank; d-- > 0;) perm.push_back(static_cast<int64_t>(d));
  }
  for (const auto* list : {&call_.inputs, &call_.outputs}) {
    const Layout& layout = list->front().layout;
    if (layout.axes.size() != rank)
      return Refuse(Reason::kLayoutUnknownToLibrary, "a transposition of {}", Print(layout));
  }
  if (perm.size() != rank || IsOnes(ShapeOf("src"))) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} axes of {}", perm.size(),
                  weft::Print(ShapeOf("src")));
  }
  Set("perm", perm);
  return std::nullopt;
}

No CallMatcher::Eltwise(const graph::Node& node) {
  call_.op = "eltwise";
  if (auto no = Input("src", node.inputs[0])) return no;
  const PostOp op = *UnaryPostOp(graph_, node);
  Set("algorithm", op.kind);
  Set("alpha", op.alpha);
  Set("beta", op.beta);
  if (ShapeOf("src").empty()) return Refuse(Reason::kShapeUnknownToLibrary, "a scalar");
  return Output(node.outputs[0]);
}

// The first operand has the shape of the result; the second is broadcast.
No CallMatcher::Binary(const graph::Node& node) {
  call_.op = "binary";
  if (!graph::InputAt(node, 1).valid())
    return Refuse(Reason::kPatternUnknownToLibrary, "one operand");
  graph::ValueId first = node.inputs[0], second = node.inputs[1];
  const bool commutes = node.op == Op::kAdd || node.op == Op::kMul;
  if (commutes && graph_[first].shape != graph_[node.outputs[0]].shape) std::swap(first, second);
  if (auto no = Input("src", first)) return no;
  if (auto no = Output(node.outputs[0])) return no;
  if (ShapeOf("src") != ShapeOf("dst") || ShapeOf("dst").empty()) {
    return Refuse(Reason::kShapeUnknownToLibrary, "{} is stretched to {}",
                  weft::Print(ShapeOf("src")), weft::Print(ShapeOf("dst")));
  }
  Set("algorithm", std::string(BinaryKind(node.op)));
  if (auto no = PostOperand(second, "binary_add")) return no;  // the same rules of broadcasting
  call_.post_ops.clear();
  call_.inputs.back().role = "src1";
  return std::nullopt;
}

}  // namespace weft::fallback
