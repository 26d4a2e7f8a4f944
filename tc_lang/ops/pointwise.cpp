// Operators that compute each element from the elements at the same place, with broadcasting.
#include <algorithm>
#include <cmath>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

using graph::Op;

struct Form {
  Op op;
  std::string_view text;  // of the operands {x} and {y}, with typed constants {zero} and {one}
};

constexpr Form kUnary[] = {{Op::kAbs, "abs({x})"},
                           {Op::kAcos, "acos({x})"},
                           {Op::kAcosh, "acosh({x})"},
                           {Op::kAsin, "asin({x})"},
                           {Op::kAsinh, "asinh({x})"},
                           {Op::kAtan, "atan({x})"},
                           {Op::kAtanh, "atanh({x})"},
                           {Op::kBitwiseNot, "bit_not({x})"},
                           {Op::kCeil, "ceil({x})"},
                           {Op::kCos, "cos({x})"},
                           {Op::kCosh, "cosh({x})"},
                           {Op::kErf, "erf({x})"},
                           {Op::kExp, "exp({x})"},
                           {Op::kFloor, "floor({x})"},
                           {Op::kIsNaN, "isnan({x})"},
                           {Op::kLog, "log({x})"},
                           {Op::kNeg, "-{x}"},
                           {Op::kNot, "!{x}"},
                           {Op::kReciprocal, "{one} / {x}"},
                           {Op::kRound, "round({x})"},
                           {Op::kSigmoid, "sigmoid({x})"},
                           // Zero, of either sign, and NaN are their own sign.
                           {Op::kSign, "{x} > {zero} ? {one} : ({x} < {zero} ? -{one} : {x})"},
                           {Op::kSin, "sin({x})"},
                           {Op::kSinh, "sinh({x})"},
                           {Op::kSqrt, "sqrt({x})"},
                           {Op::kTan, "tan({x})"},
                           {Op::kTanh, "tanh({x})"}};

constexpr Form kBinary[] = {{Op::kAdd, "{x} + {y}"},
                            {Op::kAnd, "{x} && {y}"},
                            {Op::kBitwiseAnd, "bit_and({x}, {y})"},
                            {Op::kBitwiseOr, "bit_or({x}, {y})"},
                            {Op::kBitwiseXor, "bit_xor({x}, {y})"},
                            {Op::kEqual, "{x} == {y}"},
                            {Op::kGreater, "{x} > {y}"},
                            {Op::kGreaterOrEqual, "{x} >= {y}"},
                            {Op::kLess, "{x} < {y}"},
                            {Op::kLessOrEqual, "{x} <= {y}"},
                            {Op::kMul, "{x} * {y}"},
                            {Op::kOr, "{x} || {y}"},
                            {Op::kSub, "{x} - {y}"},
                            {Op::kXor, "{x} != {y}"}};

std::string_view FormOf(std::span<const Form> forms, Op op) {
  for (const Form& form : forms) {
    if (form.op == op) return form.text;
  }
  return "";
}

std::string Fill(std::string_view form, Dtype dtype, const std::string& x, const std::string& y) {
  using fmt::arg;
  return fmt::format(fmt::runtime(form), arg("x", x), arg("y", y), arg("zero", Lit(dtype, 0)),
                     arg("one", Lit(dtype, 1)));
}

struct Pair {
  Operand x, y, out;
  Subs i;
  std::string a, b;  // the operands' elements
};

Pair Operands(Writer& w) {
  Pair p{w.Arg(0), w.Arg(1), w.Out(), {}, "", ""};
  p.i = w.Indices("i", p.out.dims);
  p.a = w.AtAligned(p.x, p.i, p.out.dims);
  p.b = w.AtAligned(p.y, p.i, p.out.dims);
  return p;
}

}  // namespace

void Unary(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  w.Set("pointwise", y, i, Fill(FormOf(kUnary, w.node.op), x.dtype, w.AtAligned(x, i, y.dims), ""));
}

void Binary(Writer& w) {
  const Pair p = Operands(w);
  w.Set("pointwise", p.out, p.i, Fill(FormOf(kBinary, w.node.op), p.x.dtype, p.a, p.b));
}

// Max, Min, Sum, Mean of any number of operands: by halves, so that many don't nest deeply.
void Variadic(Writer& w) {
  const Operand y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const Op op = w.node.op;
  Subs parts;
  for (size_t k = 0; k < w.node.inputs.size(); ++k)
    parts.push_back(w.AtAligned(w.Arg(k), i, y.dims));
  const size_t count = parts.size();
  while (parts.size() > 1) {
    Subs pairs;
    for (size_t k = 0; k < parts.size(); k += 2) {
      if (k + 1 == parts.size())
        pairs.push_back(parts[k]);
      else if (op == Op::kMax || op == Op::kMin)
        pairs.push_back(
            fmt::format("{}({}, {})", op == Op::kMax ? "max" : "min", parts[k], parts[k + 1]));
      else
        pairs.push_back(fmt::format("({} + {})", parts[k], parts[k + 1]));
    }
    parts = std::move(pairs);
  }
  std::string value = parts.front();
  if (op == Op::kMean)
    value = fmt::format("{} / {}", value, Lit(y.dtype, static_cast<double>(count)));
  w.Set("pointwise", y, i, value);
}

void Div(Writer& w) {
  const Pair p = Operands(w);
  const bool integer = IsInteger(p.x.dtype);
  w.Set("pointwise", p.out, p.i,
        fmt::format(fmt::runtime(integer ? "trunc_div({}, {})" : "{} / {}"), p.a, p.b));
}

void Mod(Writer& w) {
  const Pair p = Operands(w);
  const bool c_rule = w.Int("fmod", 0) != 0;  // the sign of the dividend
  w.Set("pointwise", p.out, p.i,
        fmt::format(fmt::runtime(c_rule ? "rem({}, {})" : "{} % {}"), p.a, p.b));
}

// The type in which a power is found: one that holds base and exponent.
Dtype CommonType(Dtype base, Dtype exponent, const Tensor* constant) {
  if (!IsFloat(base)) {
    if (IsFloat(exponent)) return Dtype::kF64;
    if (base == exponent) return base;
    // A power wraps in a narrow type as the low bits of a wide one.
    return KindOf(exponent) == DtypeKind::kSigned ? Dtype::kI64 : Dtype::kU64;
  }
  const Dtype least = Bits(base) < 32 ? Dtype::kF32 : base;
  if (Bits(exponent) < 32 || least == Dtype::kF64 || exponent == Dtype::kF32) return least;
  const auto fits = [&] {
    for (int64_t k = 0; k < constant->elems(); ++k) {
      const double value = ElemAsDouble(*constant, k);
      if (static_cast<float>(value) != value && value == value) return false;
    }
    return true;
  };
  return constant && constant->elems() <= 64 && fits() ? least : Dtype::kF64;
}

// The result has the base's type, whatever the exponent's.
void Pow(Writer& w) {
  const Pair p = Operands(w);
  const Tensor* constant = w.Constant(1);
  const double exponent = constant && constant->elems() == 1 ? ElemAsDouble(*constant, 0) : NAN;
  if (exponent == 1 || exponent == 2 || exponent == 3) {
    const Subs factors(static_cast<size_t>(exponent), p.a);
    return w.Set("pointwise", p.out, p.i, Join(factors, " * "));
  }
  const Dtype own = p.x.dtype, of_exponent = p.y.dtype;
  // Unlike a root, a power of -0 has no sign and one of -inf is positive.
  const std::string power_of_half =
      fmt::format("({0} == {1} ? {2} : sqrt({0}) + {3})", p.a, Lit(own, -INFINITY),
                  Lit(own, INFINITY), Lit(own, 0));
  if (IsFloat(own) && exponent == 0.5) return w.Set("pointwise", p.out, p.i, power_of_half);
  if (IsFloat(own) && exponent == -0.5)
    return w.Set("pointwise", p.out, p.i, fmt::format("{} / {}", Lit(own, 1), power_of_half));
  if (IsFloat(own) && exponent == -1)
    return w.Set("pointwise", p.out, p.i, fmt::format("{} / {}", Lit(own, 1), p.a));
  const Dtype common = CommonType(own, of_exponent, constant);
  const std::string power = fmt::format("{}({}, {})", IsFloat(common) ? "pow" : "int_pow",
                                        Cast(common, own, p.a), Cast(common, of_exponent, p.b));
  w.Set("pointwise", p.out, p.i, Cast(own, common, power));
}

void BitShift(Writer& w) {
  const Pair p = Operands(w);
  const bool left = graph::StringAttr(w.node, "direction", "LEFT") == "LEFT";
  w.Set("pointwise", p.out, p.i, fmt::format("{}({}, {})", left ? "shl" : "shr", p.a, p.b));
}

void IsInf(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const std::string at = w.At(x, i), zero = Lit(x.dtype, 0), top = Lit(x.dtype, INFINITY),
                    low = Lit(x.dtype, -INFINITY);
  Subs tests;
  if (w.Int("detect_positive", 1) != 0) tests.push_back(fmt::format("{} == {}", at, top));
  if (w.Int("detect_negative", 1) != 0) tests.push_back(fmt::format("{} == {}", at, low));
  if (tests.empty()) tests.push_back(fmt::format("{0} == {0} && {0} != {0}", at));  // never
  w.Set("pointwise", y, i, Join(tests, " || "));
}

void Where(Writer& w) {
  const Operand c = w.Arg(0), a = w.Arg(1), b = w.Arg(2), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  w.Set("pointwise", y, i,
        fmt::format("{} ? {} : {}", w.AtAligned(c, i, y.dims), w.AtAligned(a, i, y.dims),
                    w.AtAligned(b, i, y.dims)));
}

void Clip(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  std::string value = w.At(x, i);
  if (w.Has(1)) value = fmt::format("max({}, {})", value, w.At(w.Arg(1), {}));
  if (w.Has(2)) value = fmt::format("min({}, {})", value, w.At(w.Arg(2), {}));
  w.Set("pointwise", y, i, value);
}

// Cast and CastLike: the type is the output's.
void CastTo(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const std::string at = w.AtAligned(x, i, y.dims);
  if (x.dtype == y.dtype) return w.Set("copy", y, i, at);
  // Of what four bits can't hold ONNX's own cases keep the low bits, of numbers of all types.
  const bool wraps = SharesBytes(y.dtype) && IsFloat(x.dtype);
  w.Set("pointwise", y, i, Cast(y.dtype, wraps ? Cast(Dtype::kI32, at) : at));
}

}  // namespace weft::tc::ops
