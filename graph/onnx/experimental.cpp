// Operators that ONNX had on trial up to version 1.4 and dropped with opset 10, and the first forms
// of two that stayed. Converters of the time, above all those from Core ML, wrote them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

constexpr std::string_view kFloats = "T=f16|f32|f64";

// That input 0 is [n, c, h, w], if its rank is known.
Status IsImages(Expansion& e) {
  if (const auto rank = e.RankOf(e.In(0)); rank && rank != 4)
    return Invalid(fmt::format("input 0 has rank {}, expected 4", *rank));
  return {};
}

// alpha * x + beta
Status ExpandAffine(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", kFloats, "alpha:f beta:f"));
  Formula f(e);
  const ValueId x = e.In(0);
  return f.Finish(f.Add(f.Mul(x, f.Number(FloatAttr(e.node(), "alpha", 1), x)),
                        f.Number(FloatAttr(e.node(), "beta", 0), x)));
}

// A number, or numbers of a list or the shape of a tensor, say how large the tensor of one value
// is.
Status ExpandConstantFill(Expansion& e) {
  WEFT_TRY(e.Obeys("input?:T1", "output:T2", "T1=f32|i32|i64|bool T2=f32|i32|i64|bool",
                   "dtype:i extra_shape:I input_as_shape:i shape:I value:f"));
  const Node& node = e.node();
  const int64_t type = IntAttr(node, "dtype", DtypeToOnnx(Dtype::kF32));
  const auto types = {Dtype::kF32, Dtype::kI32, Dtype::kI64, Dtype::kBool};
  const auto dtype =
      std::ranges::find(types, type, [](Dtype one) { return int64_t{DtypeToOnnx(one)}; });
  if (dtype == types.end())
    return Invalid(fmt::format("attribute \"dtype\" is {}, no type of a constant", type));
  const bool has_shape = FindAttribute(node, "shape") != nullptr;
  if (has_shape == e.Has(0)) return Invalid("expected an input or the attribute \"shape\"");
  if (has_shape && (FindAttribute(node, "extra_shape") || IntAttr(node, "input_as_shape", 0) != 0))
    return Invalid("attributes of a shape that an input says, but there is no input");
  Formula f(e);
  ValueId shape;
  if (has_shape) {
    shape = e.Ints("shape", IntsAttr(node, "shape"));
  } else if (IntAttr(node, "input_as_shape", 0) != 0) {
    shape = f.Cast(e.In(0), Dtype::kI64);
  } else {
    shape = f.Do(Op::kShape, {e.In(0)});
  }
  shape = f.Do(Op::kConcat, {shape, e.Ints("extra", IntsAttr(node, "extra_shape"))},
               {{"axis", int64_t{0}}});
  Tensor value(*dtype, {1});
  SetElem(value, 0, FloatAttr(node, "value", 0));
  return f.Finish(f.Do(Op::kConstantOfShape, {shape}, {{"value", std::move(value)}}));
}

// Images less a border at the left, the top, the right and the bottom; or as many rows and columns
// as `scale` says, behind those at the top and the left.
Status ExpandCrop(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", kFloats, "border!:I scale:I"));
  const std::vector<int64_t> border = IntsAttr(e.node(), "border"),
                             size = IntsAttr(e.node(), "scale");
  const auto bad = [](int64_t n) { return n < 0 || n > INT32_MAX; };
  if (border.size() != 4 || std::ranges::any_of(border, bad))
    return Invalid("attribute \"border\" is not 4 widths");
  if (!(size.empty() || size.size() == 2) || std::ranges::any_of(size, bad))
    return Invalid("attribute \"scale\" is not a height and a width");
  WEFT_TRY(IsImages(e));
  for (size_t i = 0; i < 2; ++i) {
    const auto extent = KnownExtent(e, e.In(0), 2 + i, "an image");
    const int64_t before = border[1 - i], behind = border[3 - i];
    if (extent.ok() && *extent < before + (size.empty() ? behind : size[i]))
      return Invalid(fmt::format("found {} at axis {}, too few to crop", *extent, 2 + i));
  }
  const int64_t left = border[0], top = border[1];
  const auto before = [](int64_t n) { return n == 0 ? std::numeric_limits<int64_t>::max() : -n; };
  const std::vector<int64_t> ends = size.empty()
                                        ? std::vector<int64_t>{before(border[3]), before(border[2])}
                                        : std::vector<int64_t>{top + size[0], left + size[1]};
  return e.Finish(Op::kSlice, {e.In(0), e.Ints("starts", {top, left}), e.Ints("ends", ends),
                               e.Ints("axes", {2, 3})});
}

// As Slice has been since opset 10.
Status ExpandDynamicSlice(Expansion& e) {
  WEFT_TRY(e.Obeys("data:T starts:I ends:I axes?:I", "output:T",
                   "T=bool|f16|f32|f64|i16|i32|i64|i8|string|u16|u32|u64|u8 I=i32|i64"));
  return e.FinishAll(Op::kSlice, e.node().inputs, e.node().outputs);
}

// scale * x + the bias of its channel
Status ExpandImageScaler(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", kFloats, "bias:F scale:f"));
  WEFT_TRY(IsImages(e));
  const ValueId x = e.In(0);
  const auto count = KnownExtent(e, x, 1, "an image");
  Formula f(e);
  ValueId y = f.Mul(x, f.Number(FloatAttr(e.node(), "scale", 1), x));
  if (const Attribute* bias = FindAttribute(e.node(), "bias")) {
    const auto& list = std::get<std::vector<float>>(bias->value);
    if (count.ok() && *count != std::ssize(list))
      return Invalid(fmt::format("found {} biases for {} channels", list.size(), *count));
    Tensor channels(Dtype::kF32, {std::ssize(list), 1, 1});
    for (size_t c = 0; c < list.size(); ++c) SetElem(channels, static_cast<int64_t>(c), list[c]);
    y = f.Add(y, f.Do(Op::kCastLike, {e.Constant("bias", std::move(channels)), x}));
  }
  return f.Finish(y);
}

// Over the batch and the images, and over the channels if `across_channels` says so.
Status ExpandMeanVariance(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", kFloats, "across_channels:i normalize_variance:i"));
  WEFT_TRY(IsImages(e));
  std::vector<int64_t> axes = {0, 2, 3};
  if (IntAttr(e.node(), "across_channels", 0) != 0) axes.push_back(1);
  if (IntAttr(e.node(), "normalize_variance", 1) != 0)
    return e.Finish(Op::kMeanVarianceNormalization, {e.In(0)}, {{"axes", std::move(axes)}});
  Formula f(e);
  return f.Finish(f.Sub(e.In(0), f.Do(Op::kReduceMean, {e.In(0), e.Ints("axes", axes)})));
}

// alpha * ln(exp(beta * x) + 1), and alpha * tanh(beta * x)
template <Op Curve>
Status ExpandScaled(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", kFloats, "alpha!:f beta!:f"));
  const ValueId x = e.In(0);
  Formula f(e);
  const ValueId y = f.Do(Curve, {f.Mul(x, f.Number(FloatAttr(e.node(), "beta", 1), x))});
  return f.Finish(f.Mul(y, f.Number(FloatAttr(e.node(), "alpha", 1), x)));
}

Status ExpandScale(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", kFloats, "scale:f"));
  Formula f(e);
  return f.Finish(f.Mul(e.In(0), f.Number(FloatAttr(e.node(), "scale", 1), e.In(0))));
}

Status ExpandThresholdedRelu(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", kFloats, "alpha:f"));
  return e.FinishAll(Op::kThresholdedRelu, e.node().inputs, e.node().outputs, e.node().attributes);
}

struct Entry {
  std::string_view op;
  int64_t until;  // the first opset without it
  Expander expand;
};
constexpr Entry kEntries[] = {
    {"Affine", 10, ExpandAffine},
    {"ConstantFill", 10, ExpandConstantFill},
    {"Crop", 10, ExpandCrop},
    {"DynamicSlice", 10, ExpandDynamicSlice},
    {"ImageScaler", 10, ExpandImageScaler},
    {"MeanVarianceNormalization", 9, ExpandMeanVariance},
    {"ParametricSoftplus", 10, ExpandScaled<Op::kSoftplus>},
    {"Scale", 10, ExpandScale},
    {"ScaledTanh", 10, ExpandScaled<Op::kTanh>},
    {"ThresholdedRelu", 10, ExpandThresholdedRelu},
};

}  // namespace

Expander FindExperimental(std::string_view op, int64_t opset) {
  const auto found = std::ranges::find(kEntries, op, &Entry::op);
  return found == std::end(kEntries) || opset >= found->until ? nullptr : found->expand;
}

}  // namespace weft::graph
