// Fourier transforms, filters of their spectra, losses.
#include <fmt/format.h>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// Input i as one whole number from `low` on, if it is known.
Result<std::optional<int64_t>> Number(Context& c, size_t i, int64_t low) {
  if (!c.Has(i)) return std::optional<int64_t>();
  const auto list = c.Ints(i);
  if (!list) return std::optional<int64_t>();
  if (list->size() != 1)
    return Invalid(fmt::format("input {} has {} elements, expected 1", i, list->size()));
  if (list->front() < low || list->front() > INT32_MAX)
    return Invalid(
        fmt::format("input {} is {}, expected {} to {}", i, list->front(), low, INT32_MAX));
  return std::optional<int64_t>(list->front());
}

// The last axis has one part, or two of a complex number.
Status CheckParts(Context& c, Extent parts) {
  if (!parts.IsConstant() || parts.value() == 1 || parts.value() == 2) return {};
  return Invalid(fmt::format("the last axis of {} has {}, expected 1 (real) or 2 (complex)",
                             c.Text(*c.In(0)), parts.value()));
}

}  // namespace

Status DftRule(Context& c) {
  const Extents* x = c.In(0);
  WEFT_TRY(c.MinRank(0, 2));
  WEFT_TRY(const auto length, Number(c, 1, 1));
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  int64_t axis = rank - 2;
  if (c.Has(2)) {
    const auto given = c.Ints(2);
    if (!given) return {};
    if (given->size() != 1)
      return Invalid(fmt::format("input 2 has {} elements, expected 1", given->size()));
    WEFT_TRY(axis, c.Axis(given->front(), rank));
  }
  if (axis == rank - 1) return Invalid("the axis is that of the parts, expected another");
  const Extent parts = x->back();
  WEFT_TRY(CheckParts(c, parts));
  const bool onesided = c.Int("onesided", 0) != 0, inverse = c.Int("inverse", 0) != 0;
  if (onesided && parts == Extent(inverse ? 1 : 2))
    return Invalid(fmt::format("one side is that of real numbers, the input has {} part{}",
                               parts.value(), inverse ? "" : "s"));
  if (c.Has(1) && !length) return {};
  const Affine have = c.Meaning((*x)[static_cast<size_t>(axis)]);
  Affine size = length ? Affine(*length) : have;
  if (onesided && inverse && !length) size = (have + -1) * 2;
  if (onesided && !inverse) size = FloorDiv(size, 2) + 1;
  Extents out = *x;
  WEFT_TRY(out[static_cast<size_t>(axis)], c.ToExtent(size, "the length of the transform"));
  out.back() = onesided && inverse ? 1 : 2;
  c.Out(0, std::move(out));
  return {};
}

Status StftRule(Context& c) {
  // [batch, length, parts]; onnxruntime takes [batch, length] for real numbers, and exporters write
  // it.
  const Extents* x = c.In(0);
  if (x && x->size() != 2) WEFT_TRY(c.Rank(0, 3));
  WEFT_TRY(c.Rank(2, 1));
  WEFT_TRY(const auto step, Number(c, 1, 1));
  WEFT_TRY(const auto length, Number(c, 3, 1));
  if (!x) return {};
  const Extent parts = x->size() == 2 ? Extent(1) : x->back();
  WEFT_TRY(CheckParts(c, parts));
  const bool onesided = c.Int("onesided", 1) != 0;
  if (onesided && parts == Extent(2))
    return Invalid("one side is that of real numbers, the input has 2 parts");
  Extent frame = (*x)[1];
  if (length) frame = *length;
  if (const Extents* window = c.In(2)) {
    if (length) WEFT_TRY(c.Same((*window)[0], frame, "the window and the frame"));
    frame = (*window)[0];
  }
  if (!step || !frame.IsConstant() || (c.Has(3) && !length)) return {};
  if ((*x)[1].IsConstant() && (*x)[1].value() < frame.value())
    return Invalid(fmt::format("a frame of {} is longer than the signal of {}", frame.value(),
                               (*x)[1].value()));
  const Affine frames = FloorDiv(c.Meaning((*x)[1]) + -frame.value(), *step) + 1;
  WEFT_TRY(const Extent count, c.ToExtent(frames, "the number of frames"));
  c.Out(0, {(*x)[0], count, onesided ? frame.value() / 2 + 1 : frame.value(), 2});
  return {};
}

Status MelWeightRule(Context& c) {
  WEFT_TRY(const auto bands, Number(c, 0, 1));
  WEFT_TRY(const auto length, Number(c, 1, 1));
  WEFT_TRY(const auto rate, Number(c, 2, 1));
  (void)rate;
  const int64_t type = c.Int("output_datatype", 1);
  const auto dtype =
      type > 0 && type < 1000 ? DtypeFromOnnx(static_cast<int32_t>(type)) : std::nullopt;
  if (!dtype)
    return Unsupported(fmt::format(
        "attribute \"output_datatype\" is {}, which is no element type that weft has", type));
  c.OutType(0, *dtype);
  if (bands && length) c.Out(0, {*length / 2 + 1, *bands});
  return {};
}

// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
Status LossRule(Context& c) {
  WEFT_TRY(c.OneOf("reduction", "mean", {"none", "sum", "mean"}));
  const Extents* x = c.In(0);  // [N, C, ...]
  WEFT_TRY(c.MinRank(0, 2));
  WEFT_TRY(c.Rank(2, 1));
  if (!x) return {};
  Extents places = *x;
  places.erase(places.begin() + 1);
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(places.size())));
  if (const Extents* target = c.In(1)) {
    for (size_t i = 0; i < places.size(); ++i)
      WEFT_TRY(c.Same((*target)[i], places[i], fmt::format("axis {} of the target", i)));
  }
  if (const Extents* weight = c.In(2))
    WEFT_TRY(c.Same((*weight)[0], (*x)[1], "the weights and the classes"));
  const bool each = StringAttr(c.node, "reduction", "mean") == "none";
  c.Out(0, each ? places : Extents{});
  c.Out(1, *x);
  return {};
}

}  // namespace weft::graph::infer
