// Elements of small tensors, so that arithmetic on shapes comes out exact, with symbols where there
// are any.

#include <algorithm>
#include <cmath>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

struct Shaped {
  const Facts* facts;
  Shape shape;
};

std::optional<Shape> Static(const Extents* extents) {
  if (!extents) return std::nullopt;
  Shape shape;
  for (const Extent& extent : *extents) {
    if (!extent.IsConstant()) return std::nullopt;
    shape.push_back(extent.value());
  }
  return shape;
}

int64_t Count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) {
    if (extent == 0) return 0;
    if (n > kMaxFacts) return n;
    n *= std::min<int64_t>(extent, kMaxFacts + 1);
  }
  return n;
}

// The place in a broadcast operand of place `flat` in the result.
size_t BroadcastPlace(size_t flat, const Shape& out, const Shape& in) {
  size_t place = 0, stride = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t axis = out.size() - 1 - i;
    const auto extent = static_cast<size_t>(out[axis]);
    const size_t index = flat % extent;
    flat /= extent;
    if (i >= in.size()) continue;
    const auto have = static_cast<size_t>(in[in.size() - 1 - i]);
    place += (have == 1 ? 0 : index) * stride;
    stride *= have;
  }
  return place;
}

Elem OfBool(bool value) { return Elem::Of(value ? 1 : 0); }

Elem Divide(Context& c, const Elem& a, const Elem& b, bool floats) {
  if (!b.IsConstant())
    return a.kind == Elem::kInteger && b.kind == Elem::kInteger && a.integer == b.integer && !floats
               ? Elem::Of(1)
               : Elem();
  if (floats) {
    if (a.IsConstant()) return Elem::OfReal(a.AsDouble() / b.AsDouble());
    return b.kind == Elem::kInteger && b.integer == Affine(1) ? a : Elem();
  }
  const int64_t divisor = b.integer.constant();
  if (divisor == 0) return {};
  if (a.IsConstant()) {
    if (divisor == -1)
      return a.integer.constant() == INT64_MIN ? Elem() : Elem::Of(-a.integer.constant());
    return Elem::Of(a.integer.constant() / divisor);
  }
  // Div rounds towards zero.
  return divisor > 0 && c.Range(a.integer).lo >= 0 ? Elem::Of(FloorDiv(a.integer, divisor))
                                                   : Elem();
}

// By fmod the sign is the dividend's.
Elem Modulo(Context& c, const Elem& a, const Elem& b) {
  if (a.kind != Elem::kInteger || b.kind != Elem::kInteger || !b.IsConstant() ||
      b.integer.constant() <= 0)
    return {};
  const int64_t divisor = b.integer.constant(), offset = a.integer.constant();
  const bool fmod = c.Int("fmod", 0) != 0;
  if (a.IsConstant()) return Elem::Of(fmod ? offset % divisor : FloorMod(offset, divisor));
  if (fmod && c.Range(a.integer).lo < 0) return {};
  // Of extents, which are added up without leaving int64.
  if (divisor > INT32_MAX || offset > INT32_MAX || offset < INT32_MIN) return {};
  return Elem::Of(Mod(a.integer, divisor));
}

// Equal, or apart whatever the symbols are; symbols are only compared with what they can't be.
std::optional<int> Compare(Context& c, const Elem& a, const Elem& b) {
  if (a.IsConstant() && b.IsConstant()) {
    if (a.kind == Elem::kInteger && b.kind == Elem::kInteger) {
      const int64_t x = a.integer.constant(), y = b.integer.constant();
      return x < y ? -1 : x > y ? 1 : 0;
    }
    const double x = a.AsDouble(), y = b.AsDouble();
    if (std::isnan(x) || std::isnan(y)) return std::nullopt;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.kind != Elem::kInteger || b.kind != Elem::kInteger) return std::nullopt;
  const auto difference = AddScaled(a.integer, b.integer, -1);
  if (!difference) return std::nullopt;
  const Interval range = c.Range(*difference);
  if (range.lo > 0) return 1;
  if (range.hi < 0) return -1;
  if (range.lo == 0 && range.hi == 0) return 0;
  return std::nullopt;
}

Elem Binary(Context& c, const Elem& a, const Elem& b, bool floats) {
  if (!a.known() || !b.known()) return {};
  const bool integers = a.kind == Elem::kInteger && b.kind == Elem::kInteger;
  const auto order = Compare(c, a, b);
  switch (c.node.op) {
    case Op::kEqual:
      return order ? OfBool(*order == 0) : Elem();
    case Op::kLess:
      return order ? OfBool(*order < 0) : Elem();
    case Op::kLessOrEqual:
      return order ? OfBool(*order <= 0) : Elem();
    case Op::kGreater:
      return order ? OfBool(*order > 0) : Elem();
    case Op::kGreaterOrEqual:
      return order ? OfBool(*order >= 0) : Elem();
    case Op::kMin:
      return order ? (*order <= 0 ? a : b) : Elem();
    case Op::kMax:
      return order ? (*order >= 0 ? a : b) : Elem();
    case Op::kDiv:
      return Divide(c, a, b, floats);
    case Op::kMod:
      return floats ? Elem() : Modulo(c, a, b);
    case Op::kAnd:
      return a.IsConstant() && b.IsConstant() ? OfBool(a.AsDouble() != 0 && b.AsDouble() != 0)
                                              : Elem();
    case Op::kOr:
      return a.IsConstant() && b.IsConstant() ? OfBool(a.AsDouble() != 0 || b.AsDouble() != 0)
                                              : Elem();
    case Op::kXor:
      return a.IsConstant() && b.IsConstant() ? OfBool((a.AsDouble() != 0) != (b.AsDouble() != 0))
                                              : Elem();
    default:
      break;
  }
  if (integers && !(floats && a.IsConstant() && b.IsConstant())) {  // floats have a zero below 0
    std::optional<Affine> result;
    if (c.node.op == Op::kAdd) result = Plus(a.integer, b.integer);
    if (c.node.op == Op::kSub) result = AddScaled(a.integer, b.integer, -1);
    if (c.node.op == Op::kMul) result = Times(a.integer, b.integer);
    if (result) return Elem::Of(std::move(*result));
    if (c.node.op == Op::kMul && !a.IsConstant() && !b.IsConstant()) {
      const auto x = c.ToExtent(a.integer, ""), y = c.ToExtent(b.integer, "");
      if (!x.ok() || !y.ok()) return {};
      const Extent both[] = {*x, *y};
      return Elem::Of(c.Meaning(c.Product(both)));
    }
  }
  if (!floats || !a.IsConstant() || !b.IsConstant()) return {};
  const double x = a.AsDouble(), y = b.AsDouble();
  switch (c.node.op) {
    case Op::kAdd:
      return Elem::OfReal(x + y);
    case Op::kSub:
      return Elem::OfReal(x - y);
    case Op::kMul:
      return Elem::OfReal(x * y);
    case Op::kPow:
      return Elem::OfReal(std::pow(x, y));
    default:
      return {};
  }
}

Elem Negated(const Elem& a) {
  if (a.kind != Elem::kInteger) return {};
  auto negative = AddScaled(0, a.integer, -1);
  return negative ? Elem::Of(*std::move(negative)) : Elem();
}

Elem One(Context& c, const Elem& a, bool floats) {
  if (!a.known()) return {};
  switch (c.node.op) {
    case Op::kIdentity:
      return a;
    case Op::kNeg:
      if (floats && a.IsConstant()) return Elem::OfReal(-a.AsDouble());
      return Negated(a);
    case Op::kNot:
      return a.IsConstant() ? OfBool(a.AsDouble() == 0) : Elem();
    case Op::kFloor:
      return a.kind == Elem::kReal ? Elem::OfReal(std::floor(a.real)) : a;
    case Op::kCeil:
      return a.kind == Elem::kReal ? Elem::OfReal(std::ceil(a.real)) : a;
    case Op::kRound:
      return a.kind == Elem::kReal ? Elem::OfReal(std::nearbyint(a.real)) : a;
    case Op::kAbs:
      if (!a.IsConstant()) return {};
      if (a.kind == Elem::kReal) return Elem::OfReal(std::abs(a.real));
      return a.integer.constant() < 0 ? Negated(a) : a;
    case Op::kSqrt:
      return a.IsConstant() ? Elem::OfReal(std::sqrt(a.AsDouble())) : Elem();
    default:
      return {};
  }
}

// A number after a cast: floats are rounded, once; integers truncate. What does not fit is left
// unknown, and so are sizes in types of which few are exact.
Elem Casted(const Elem& a, Dtype to) {
  if (!a.IsConstant()) {
    const bool exact =
        to == Dtype::kI64 || to == Dtype::kI32 || to == Dtype::kF64 || to == Dtype::kF32;
    return exact ? a : Elem();
  }
  const double value = a.AsDouble();
  if (to == Dtype::kBool) return OfBool(value != 0);
  if (to == Dtype::kF64 || to == Dtype::kF32 || to == Dtype::kF16 || to == Dtype::kBF16) {
    Tensor rounded(to, {});
    a.kind == Elem::kInteger ? SetElemInt(rounded, 0, a.integer.constant())
                             : SetElem(rounded, 0, value);
    return Elem::OfReal(ElemAsDouble(rounded, 0));
  }
  if (to == Dtype::kI64 && a.kind == Elem::kInteger) return a;
  const double whole = std::trunc(value);
  const double limit = to == Dtype::kI32 ? 2147483647.0 : to == Dtype::kI64 ? 9e15 : 0;
  return std::abs(whole) <= limit ? Elem::Of(static_cast<int64_t>(whole)) : Elem();
}

// What an element of this type is then: floats are rounded; integers that it does not hold would
// wrap, and are left unknown.
Elem Held(const Elem& a, Dtype type) {
  if (!a.IsConstant()) return a;
  if (IsFloat(type)) return Casted(a, type);
  if (a.kind != Elem::kInteger) return a;
  const bool is_signed = KindOf(type) == DtypeKind::kSigned;
  if (Bits(type) >= 64) return is_signed || a.integer.constant() >= 0 ? a : Elem();
  const int64_t reach = int64_t{1} << (Bits(type) - (is_signed ? 1 : 0)),
                value = a.integer.constant();
  return (is_signed ? -reach : 0) <= value && value < reach ? a : Elem();
}

void Broadcasting(Context& c, const Shape& out) {
  std::vector<Shaped> operands;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Facts* facts = c.FactsIn(i);
    const auto shape = Static(c.In(i));
    if (!facts || !shape) return;
    operands.push_back({facts, *shape});
  }
  const auto type = c.Type(c.node.op == Op::kWhere ? 1 : 0);
  const bool floats = type && IsFloat(*type);
  Facts result;
  for (size_t flat = 0; flat < static_cast<size_t>(Count(out)); ++flat) {
    auto at = [&](size_t i) {
      return (*operands[i].facts)[BroadcastPlace(flat, out, operands[i].shape)];
    };
    if (c.node.op == Op::kWhere) {
      const Elem condition = at(0);
      result.push_back(!condition.IsConstant()     ? Elem()
                       : condition.AsDouble() != 0 ? at(1)
                                                   : at(2));
      continue;
    }
    Elem value = at(0);
    for (size_t i = 1; i < operands.size(); ++i) value = Binary(c, value, at(i), floats);
    result.push_back(type ? Held(value, *type) : value);
  }
  c.OutFacts(0, std::move(result));
}

void Each(Context& c) {
  const Facts* in = c.FactsIn(0);
  if (!in) return;
  Facts out;
  const Dtype to =
      c.node.op == Op::kCast
          ? DtypeFromOnnx(static_cast<int32_t>(c.Int("to", 1))).value_or(Dtype::kString)
      : c.node.op == Op::kCastLike ? c.Type(1).value_or(Dtype::kString)
                                   : Dtype::kString;
  const bool cast = c.node.op == Op::kCast || c.node.op == Op::kCastLike;
  if (cast && to == Dtype::kString) return;
  const auto type = c.Type(0);
  for (const Elem& elem : *in) {
    const Elem value = cast ? Casted(elem, to) : One(c, elem, type && IsFloat(*type));
    out.push_back(cast || !type ? value : Held(value, *type));
  }
  c.OutFacts(0, std::move(out));
}

void GatherFacts(Context& c) {
  const Facts* x = c.FactsIn(0);
  const auto shape = Static(c.In(0));
  const auto indices = c.Ints(1);
  if (!x || !shape || !indices || shape->size() != 1) return;
  Facts out;
  for (int64_t index : *indices) {
    const int64_t at = index < 0 ? index + (*shape)[0] : index;
    if (at < 0 || at >= (*shape)[0]) return;
    out.push_back((*x)[static_cast<size_t>(at)]);
  }
  c.OutFacts(0, std::move(out));
}

void ConcatFacts(Context& c) {
  Facts out;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Extents* in = c.In(i);
    if (!in || in->size() != 1 || !(*in)[0].IsConstant()) return;
    const Facts* facts = c.FactsIn(i);
    if (facts) {
      out.insert(out.end(), facts->begin(), facts->end());
    } else {
      if ((*in)[0].value() > kMaxFacts) return;
      out.resize(out.size() + static_cast<size_t>((*in)[0].value()));
    }
    if (static_cast<int64_t>(out.size()) > kMaxFacts) return;
  }
  c.OutFacts(0, std::move(out));
}

void SliceFacts(Context& c, const Shape& out) {
  const Facts* x = c.FactsIn(0);
  const auto shape = Static(c.In(0));
  const auto starts = c.Ints(1), steps = c.Ints(4);
  if (!x || !shape || shape->size() != 1 || !starts || starts->size() != 1 || (c.Has(4) && !steps))
    return;
  const int64_t in = (*shape)[0], step = steps ? (*steps)[0] : 1;
  int64_t at = std::max<int64_t>((*starts)[0] < 0 ? (*starts)[0] + in : (*starts)[0], 0);
  at = std::min(at, step > 0 ? in : in - 1);
  Facts result;
  for (int64_t i = 0; i < Count(out); ++i) {
    if (i > 0) at += step;
    if (at < 0 || at >= in) return;
    result.push_back((*x)[static_cast<size_t>(at)]);
  }
  c.OutFacts(0, std::move(result));
}

void SplitFacts(Context& c) {
  const Facts* x = c.FactsIn(0);
  if (!x || !c.In(0) || c.In(0)->size() != 1) return;
  size_t at = 0;
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const auto shape = Static(c.OutShape(i));
    if (!shape || at + static_cast<size_t>((*shape)[0]) > x->size()) return;
    const auto from = x->begin() + static_cast<int64_t>(at);
    Facts part(from, from + (*shape)[0]);
    at += part.size();
    c.OutFacts(i, std::move(part));
    x = c.FactsIn(0);
  }
}

void ReduceFacts(Context& c) {
  const Facts* x = c.FactsIn(0);
  const auto type = c.Type(0);
  if (!x || x->empty() || !type || !IsInteger(*type)) return;
  Elem total = (*x)[0];
  for (size_t i = 1; i < x->size(); ++i) {
    const Elem& next = (*x)[i];
    if (total.kind != Elem::kInteger || next.kind != Elem::kInteger) return;
    const auto order = Compare(c, total, next);
    std::optional<Affine> result;
    if (c.node.op == Op::kReduceSum) result = Plus(total.integer, next.integer);
    if (c.node.op == Op::kReduceProd) result = Times(total.integer, next.integer);
    if (c.node.op == Op::kReduceMax && order) result = *order >= 0 ? total.integer : next.integer;
    if (c.node.op == Op::kReduceMin && order) result = *order <= 0 ? total.integer : next.integer;
    if (c.node.op == Op::kReduceProd && !result) {
      const auto a = c.ToExtent(total.integer, ""), b = c.ToExtent(next.integer, "");
      if (!a.ok() || !b.ok()) return;
      const Extent both[] = {*a, *b};
      result = c.Meaning(c.Product(both));
    }
    if (!result) return;
    total = Elem::Of(std::move(*result));
  }
  c.OutFacts(0, {Held(total, *type)});
}

void RangeFacts(Context& c, const Shape& out) {
  const Facts* start = c.FactsIn(0);
  const Facts* delta = c.FactsIn(2);
  const auto type = c.Type(0);
  if (!type || !start || !delta || start->size() != 1 || delta->size() != 1) return;
  const Elem from = (*start)[0], step = (*delta)[0];
  if (from.kind != Elem::kInteger || step.kind != Elem::kInteger) return;
  Facts result;
  for (int64_t i = 0; i < Count(out); ++i) {
    const auto offset = Times(step.integer, Affine(i));
    const auto value = offset ? Plus(from.integer, *offset) : std::nullopt;
    if (!value) return;
    result.push_back(Held(Elem::Of(*value), *type));
  }
  c.OutFacts(0, std::move(result));
}

void FillFacts(Context& c, const Shape& out) {
  const Attribute* attribute = FindAttribute(c.node, "value");
  const auto* tensor = attribute ? std::get_if<Tensor>(&attribute->value) : nullptr;
  if (tensor && (tensor->elems() != 1 || tensor->dtype() == Dtype::kString)) return;
  const Elem elem = tensor ? ElemOf(*tensor, 0) : Elem::Of(0);
  c.OutFacts(0, Facts(static_cast<size_t>(Count(out)), elem));
}

void ExpandFacts(Context& c, const Shape& out) {
  const Facts* x = c.FactsIn(0);
  const auto shape = Static(c.In(0));
  if (!x || !shape || (c.node.op == Op::kTile && (shape->size() != 1 || x->empty()))) return;
  Facts result;
  for (size_t flat = 0; flat < static_cast<size_t>(Count(out)); ++flat) {
    result.push_back(
        (*x)[c.node.op == Op::kTile ? flat % x->size() : BroadcastPlace(flat, out, *shape)]);
  }
  c.OutFacts(0, std::move(result));
}

}  // namespace

void PropagateFacts(Context& c) {
  const auto out = Static(c.OutShape(0));
  if (!out || Count(*out) > kMaxFacts) {
    return;
  }
  switch (c.node.op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMod:
    case Op::kMin:
    case Op::kMax:
    case Op::kPow:
    case Op::kEqual:
    case Op::kLess:
    case Op::kLessOrEqual:
    case Op::kGreater:
    case Op::kGreaterOrEqual:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kWhere:
      return Broadcasting(c, *out);
    case Op::kIdentity:
    case Op::kNeg:
    case Op::kNot:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kAbs:
    case Op::kSqrt:
    case Op::kCast:
    case Op::kCastLike:
      return Each(c);
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kFlatten:
      if (const Facts* in = c.FactsIn(0)) c.OutFacts(0, Facts(*in));
      return;
    case Op::kTranspose:
      if (const Facts* in = c.FactsIn(0); in && out->size() <= 1) c.OutFacts(0, Facts(*in));
      return;
    case Op::kGather:
      return GatherFacts(c);
    case Op::kConcat:
      return ConcatFacts(c);
    case Op::kSlice:
      return SliceFacts(c, *out);
    case Op::kSplit:
      return SplitFacts(c);
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kReduceMax:
    case Op::kReduceMin:
      if (Count(*out) == 1 && IntAttr(c.node, "noop_with_empty_axes", 0) == 0) ReduceFacts(c);
      return;
    case Op::kRange:
      return RangeFacts(c, *out);
    case Op::kConstantOfShape:
      return FillFacts(c, *out);
    case Op::kExpand:
    case Op::kTile:
      return ExpandFacts(c, *out);
    default:
      return;
  }
}

}  // namespace weft::graph::infer
