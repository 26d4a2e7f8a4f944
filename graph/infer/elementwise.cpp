#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {

Status Unary(Context& c) {
  if (const Extents* in = c.In(0)) c.Out(0, *in);
  return {};
}

// Any number of operands, broadcast as NumPy does.
Status Elementwise(Context& c) {
  Extents out;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Extents* in = c.In(i);
    if (!in) return {};
    if (i == 0) {
      out = *in;
      continue;
    }
    WEFT_TRY(out, c.Broadcast(out, *in));
  }
  if (c.node.op == Op::kPRelu && out.size() != c.In(0)->size()) {
    return Invalid(
        fmt::format("the slope {} does not broadcast to {}", c.Text(*c.In(1)), c.Text(*c.In(0))));
  }
  c.Out(0, std::move(out));
  return {};
}

Status WhereRule(Context& c) { return Elementwise(c); }

Status GeluRule(Context& c) {
  WEFT_TRY(c.OneOf("approximate", "none", {"none", "tanh"}));
  return Unary(c);
}

Status BitShiftRule(Context& c) {
  WEFT_TRY(c.OneOf("direction", "", {"LEFT", "RIGHT"}));
  return Elementwise(c);
}

Status CastRule(Context& c) {
  WEFT_TRY(c.OneOf("round_mode", "up", {"up", "down", "nearest"}));
  const int64_t to = c.Int("to", 0);
  const auto dtype = to > 0 && to < 1000 ? DtypeFromOnnx(static_cast<int32_t>(to)) : std::nullopt;
  if (!dtype)
    return Unsupported(
        fmt::format("attribute \"to\" is {}, which is no element type that weft has", to));
  c.OutType(0, *dtype);
  return Unary(c);
}

Status BitCastRule(Context& c) {
  WEFT_TRY(CastRule(c));
  const auto from = c.Type(0), to = DtypeFromOnnx(static_cast<int32_t>(c.Int("to", 0)));
  if (!from || !to || CodeBits(*from) == CodeBits(*to)) return {};
  return Invalid(fmt::format("found {} and {}, whose elements have {} and {} bits",
                             DtypeName(*from), DtypeName(*to), CodeBits(*from), CodeBits(*to)));
}

// graph/codes.h
Status FloatCodeRule(Context& c) {
  const bool decodes = c.node.op == Op::kDecodeFloat;
  const Dtype in = decodes ? Dtype::kU8 : Dtype::kF32;
  if (const auto found = c.Type(0); found && *found != in)
    return Invalid(fmt::format("input 0 is {}, expected {}", DtypeName(*found), DtypeName(in)));
  const int64_t format = c.Int("format", 0);
  const auto code =
      format > 0 && format < 1000 ? DtypeFromOnnx(static_cast<int32_t>(format)) : std::nullopt;
  if (!code || !IsCode(*code) || CodeStorage(*code) != Dtype::kU8 || *code == Dtype::kU2)
    return Invalid(fmt::format("attribute \"format\" is {}, expected a float of few bits", format));
  c.OutType(0, decodes ? Dtype::kF32 : Dtype::kU8);
  return Unary(c);
}

Status ClipRule(Context& c) {
  for (size_t i = 1; i < 3; ++i) {
    const Extents* bound = c.In(i);
    if (bound && !MayBeScalar(*bound)) {
      return Invalid(
          fmt::format("input {} has the shape {}, expected a scalar", i, c.Text(*bound)));
    }
  }
  return Unary(c);
}

Status DropoutRule(Context& c) {
  if (const Extents* in = c.In(0)) {
    c.Out(0, *in);
    c.Out(1, *in);
  }
  c.OutType(1, Dtype::kBool);
  return {};
}

// Input i is one number for all of x, one for each element of an axis, or one for each block of
// them. What symbols stand for a run says.
Status CheckScales(Context& c, size_t i) {
  const Extents* x = c.In(0);
  const Extents* scales = c.In(i);
  const int64_t block = c.Int("block_size", 0);
  if (block < 0 || block > INT32_MAX)
    return Invalid(
        fmt::format("attribute \"block_size\" is {}, expected 0 to {}", block, INT32_MAX));
  if (!x || !scales || std::ranges::all_of(*scales, [](Extent e) { return e == Extent(1); }))
    return {};
  if (block == 0 && MayBeScalar(*scales)) return {};
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 1), std::ssize(*x)));
  const Extent along = (*x)[static_cast<size_t>(axis)];
  Extents expected = block == 0 ? Extents{along} : *x;
  if (block > 0 && along.IsConstant())
    expected[static_cast<size_t>(axis)] = Extent(CeilDiv(Affine(along.value()), block).constant());
  const auto fits = [](Extent have, Extent want) {
    return have == want || !have.IsConstant() || !want.IsConstant();
  };
  if (std::ranges::equal(*scales, expected, fits)) return {};
  return Invalid(fmt::format("input {} is {}, expected a scalar or {}: one for each {} of axis {}",
                             i, c.Text(*scales), c.Text(expected), block == 0 ? "element" : "block",
                             axis));
}

Status QuantizeRule(Context& c) {
  for (const size_t i : {1, 2}) WEFT_TRY(CheckScales(c, i));
  const bool decodes = c.node.op == Op::kDequantizeLinear;
  const int64_t wanted = c.Int("output_dtype", 0);
  std::optional<Dtype> dtype = Dtype::kU8;
  if (decodes) {
    dtype = c.Type(1);  // of the scale
  } else if (c.Has(2)) {
    dtype = c.Type(2);
  }
  if (wanted > 0 && wanted < 1000 && (decodes || !c.Has(2))) {
    dtype = DtypeFromOnnx(static_cast<int32_t>(wanted));
    if (!dtype)
      return Unsupported(
          fmt::format("attribute \"output_dtype\" is {}, which weft does not have", wanted));
  }
  if (decodes && dtype && !IsFloat(*dtype))
    return Invalid(fmt::format("the result is {}, expected a float by attribute \"output_dtype\"",
                               DtypeName(*dtype)));
  if (dtype) c.OutType(0, *dtype);
  return Unary(c);
}

Status DynamicQuantizeRule(Context& c) {
  c.Out(1, {});
  c.Out(2, {});
  return Unary(c);
}

}  // namespace weft::graph::infer
