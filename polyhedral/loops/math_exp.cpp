// exp and its relatives. Range reduction by Cody and Waite's two-part ln 2 with fma.
#include <cmath>
#include <limits>
#include <vector>

#include "polyhedral/loops/math_parts.h"

namespace weft::loops {

const FloatFormat& FormatOf(Value x) {
  static constexpr FloatFormat kSingle = {.fraction_bits = 23,
                                          .bias = 127,
                                          .magic = 0x1.8p23,
                                          .magic_bits = 0x4b400000,
                                          .ln2_hi = 0.693147182464599609375,
                                          .ln2_lo = -1.9046542999577680e-09,
                                          .sqrt_half_bits = 0x3f3504f3,
                                          .least_normal = 0x1p-126,
                                          .scale_up = 0x1p25,
                                          .scale_bits = 25};
  static constexpr FloatFormat kDouble = {.fraction_bits = 52,
                                          .bias = 1023,
                                          .magic = 0x1.8p52,
                                          .magic_bits = 0x4338000000000000,
                                          .ln2_hi = 0.69314718055994528623,
                                          .ln2_lo = 2.3190468138462995584e-17,
                                          .sqrt_half_bits = 0x3fe6a09e667f3bcd,
                                          .least_normal = 0x1p-1022,
                                          .scale_up = 0x1p54,
                                          .scale_bits = 54};
  return SizeBytes(x.dtype()) == 4 ? kSingle : kDouble;
}

bool GoesByPieces(Value x) { return x.dtype() == Dtype::kF32 && x.nest().has_pick; }

namespace {

constexpr double kLn2 = 0.69314718055994531;

bool IsDouble(Value x) { return x.dtype() == Dtype::kF64; }

// (exp(r) - 1 - r) / r^2 = 1/2! + r/3! + ... for |r| <= ln 2 / 2: in f64 Taylor's polynomial, in
// f32 the one whose largest relative error in exp(r) is least (Lawson's iteration); either is off
// by less than a tenth of an ulp.
Value ExpTail(Value r) {
  std::vector<double> c = {0.49999993447417057, 0.16666520631376225, 0.041668388118484445,
                           0.00836871685004728, 0.0013814595004591635};
  if (IsDouble(r)) {
    c = {0.5};
    for (int k = 3; k < 15; ++k) c.push_back(c.back() / k);
  }
  return Polynomial(r, c);
}

struct Magnitude {
  Value em1;  // exp(a) - 1 for 0 <= a, infinite if large
  Value big;  // exp(a) / 2, infinite only if it must be
};

Magnitude SplitMagnitude(Value a) {
  const FloatFormat& f = FormatOf(a);
  const ExpParts e = SplitExp(AtMost(IsDouble(a) ? 720.0 : 92.0, a));
  const Value one = IntLiteral(e.n, 1), most = IntLiteral(e.n, f.bias - 1);
  // 2^n in range for em1, which is not used where it is not.
  const Value n = e.n.Op(ScalarOp::kMin, e.n.dtype(), {most});
  const Value scale = PowerOfTwo(n);
  return {Fma(scale, e.p, scale - 1.0), Ldexp(e.p + 1.0, IntToFloat(e.n - one))};
}

}  // namespace

Value IntToFloat(Value n) {
  const FloatFormat& f = FormatOf(n);
  const Value shifted = (n + IntLiteral(n, f.magic_bits)).Real();
  return shifted - f.magic;
}

Value WithSign(Value magnitude, Value sign) {
  const Value bits = sign.Bits();
  const int64_t sign_bit = IsDouble(sign) ? std::numeric_limits<int64_t>::min() : INT32_MIN;
  return Or(magnitude.Bits(), And(bits, IntLiteral(bits, sign_bit))).Real();
}

namespace {

// x = n ln 2 + r, |r| <= ln 2 / 2, and n plus an offset in the low bits of `shifted`.
struct Reduced {
  Value shifted, n, r;
};

Value Magic(Value x, int64_t offset) {
  return x.Of(FormatOf(x).magic + static_cast<double>(offset));
}

Reduced Reduce(Value x, Value magic) {
  const FloatFormat& f = FormatOf(x);
  const Value shifted = Fma(x, 1.4426950408889634, magic), n = shifted - magic;
  return {shifted, n, Fma(n, -f.ln2_lo, Fma(n, -f.ln2_hi, x))};
}

// 2^(n + offset), whose exponent's field the offset of the magic number makes of n: 0 if the field
// is 0, infinite if it is the largest.
Value PowerOf(const Reduced& reduced) {
  return Shl(reduced.shifted.Bits(), FormatOf(reduced.n).fraction_bits).Real();
}

// exp(r), in a form that loses nothing to the last addition.
Value ExpOf(Value r) { return Fma(Fma(ExpTail(r), r, r.Of(1.0)), r, r.Of(1.0)); }

ExpParts PartsOf(const Reduced& reduced) {
  const FloatFormat& f = FormatOf(reduced.n);
  const Value bits = reduced.shifted.Bits(), r = reduced.r;
  return {bits - IntLiteral(bits, f.magic_bits + f.bias), Fma(r * r, ExpTail(r), r)};
}

}  // namespace

// With the bias in the magic number, PowerOfTwo has nothing to add.
ExpParts SplitExp(Value x) { return PartsOf(Reduce(x, Magic(x, FormatOf(x).bias))); }

ExpParts SplitExp(Value x, Value tail) {
  Reduced reduced = Reduce(x, Magic(x, FormatOf(x).bias));
  reduced.r = reduced.r + tail;
  return PartsOf(reduced);
}

Value PowerOfTwo(Value n) {
  const FloatFormat& f = FormatOf(n);
  return Shl(n + IntLiteral(n, f.bias), f.fraction_bits).Real();
}

Value Vanishes(Value x) { return x < (IsDouble(x) ? -1022 * kLn2 : -87.33654F); }

namespace {

// By kLdexp, where that is one instruction.
Value ExpByLdexp(Value x, bool at_most_zero) {
  const Value vanishes = Vanishes(x), zero = x.Of(0.0);
  const Value bounded = at_most_zero ? x : AtMost(IsDouble(x) ? 710.0 : 89.0, x);
  const Reduced reduced = Reduce(Select(vanishes, zero, bounded), Magic(x, 0));
  return Select(vanishes, zero, Ldexp(ExpOf(reduced.r), reduced.n));
}

// By 2^n, which is 0 for the n of what vanishes; above 0 by 2^(n - 1) and 2, since 2^128 is
// no f32.
Value ExpByShift(Value x, bool at_most_zero) {
  const FloatFormat& f = FormatOf(x);
  const Value kept = Select(Vanishes(x), x.Of(-static_cast<double>(f.bias) * kLn2), x);
  if (at_most_zero) {
    const Reduced reduced = Reduce(kept, Magic(x, f.bias));
    return ExpOf(reduced.r) * PowerOf(reduced);
  }
  const Value bits = x.Bits(), below = bits < IntLiteral(bits, 0);
  const Reduced reduced = Reduce(AtMost(IsDouble(x) ? 710.0 : 89.0, kept),
                                 Select(below, Magic(x, f.bias), Magic(x, f.bias - 1)));
  return ExpOf(reduced.r) * PowerOf(reduced) * Select(below, x.Of(1.0), x.Of(2.0));
}

}  // namespace

// A result that would be subnormal is 0. Keys that a mask hides by -100 have such ones, and a
// processor that leaves them to its microcode takes six times as long for a softmax, and seventy
// times for the product behind it. f32: 0.9 ulp.
Value Exp(Value x, bool at_most_zero) {
  if (GoesByPieces(x)) return ExpByPieces(x, at_most_zero);
  return x.nest().has_ldexp ? ExpByLdexp(x, at_most_zero) : ExpByShift(x, at_most_zero);
}

Value Expm1(Value x) {
  const double high = IsDouble(x) ? 710.0 : 89.0, enough = IsDouble(x) ? 60.0 : 40.0;
  const ExpParts e = SplitExp(AtLeast(-enough, AtMost(high, x)));
  // As 2^(n-1), since 2^n may be beyond the range although the result is not.
  const Value half = PowerOfTwo(e.n - IntLiteral(e.n, 1));
  const Value result = Fma(half, e.p, half - 0.5) * 2.0;
  return Select(x == 0.0, x, result);  // -0
}

// s / (s + s exp(-x)) with s = 2^-fraction_bits, so that s exp(-x) is infinite where the result is
// 0, and nothing but the quotient is subnormal where that is. f32: 2.0 ulp.
Value Sigmoid(Value x) {
  if (GoesByPieces(x)) return SigmoidByPieces(x);
  const FloatFormat& f = FormatOf(x);
  const auto k = static_cast<double>(f.fraction_bits), bias = static_cast<double>(f.bias);
  // From where the exponent's field is 0, that of a factor 0, to where it is the largest.
  const Value kept = AtLeast(-(bias + 1 + k) * kLn2, AtMost((bias - k) * kLn2, x));
  const Reduced reduced = Reduce(-kept, Magic(x, f.bias - f.fraction_bits));
  const Value s = x.Of(std::ldexp(1.0, -static_cast<int>(f.fraction_bits)));
  return s / Fma(ExpOf(reduced.r), PowerOf(reduced), s);
}

// em / (em + 2) with em = exp(2|x|) - 1. f32: 2.2 ulp.
Value Tanh(Value x) {
  if (GoesByPieces(x)) return TanhByPieces(x);
  const ExpParts e = SplitExp(AtMost(IsDouble(x) ? 44.0 : 20.0, Abs(x) * 2.0));
  const Value scale = PowerOfTwo(e.n);
  const Value em1 = Fma(scale, e.p, scale - 1.0);
  return WithSign(em1 / (em1 + 2.0), x);
}

// (em + em / (em + 1)) / 2, and exp(|x|) / 2 where the rest no longer shows.
Value Sinh(Value x) {
  const Value a = Abs(x);
  const Magnitude m = SplitMagnitude(a);
  const Value small = (m.em1 + m.em1 / (m.em1 + 1.0)) * 0.5;
  return WithSign(Select(a > 22.0, m.big, small), x);
}

// 1 + em^2 / (2 (em + 1))
Value Cosh(Value x) {
  const Value a = Abs(x);
  const Magnitude m = SplitMagnitude(a);
  const Value small = m.em1 * m.em1 / (m.em1 * 2.0 + 2.0) + 1.0;
  return Select(a > 22.0, m.big, small);
}

}  // namespace weft::loops
