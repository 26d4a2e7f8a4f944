// log and its relatives.
#include <array>
#include <limits>

#include "polyhedral/loops/math_parts.h"

namespace weft::loops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool IsDouble(Value x) { return x.dtype() == Dtype::kF64; }

Value SingleLog(Value f, Value k) {
  const FloatFormat& format = FormatOf(f);
  const Value square = f * f;
  // Minimax for (log(1+f) - f + f^2/2) / f^3; 6e-9 of the result.
  constexpr double kC[] = {3.33333311e-1,  -2.500083651e-1, 2.00012969e-1, -1.662281071e-1,
                           1.419965544e-1, -1.316376022e-1, 1.27791514e-1, -7.647139943e-2};
  Value rest = Fma(square, f.Of(-0.5), f * square * Polynomial(f, kC));
  rest = Fma(k, format.ln2_lo, rest);
  return Fma(k, format.ln2_hi, f + rest);
}

// 2/3 + 2/5 t + 2/7 t^2 ...: (log((1+s)/(1-s)) - 2s) / s^3 with t = s^2, |s| < 0.172.
Value AtanhTail(Value t) {
  std::array<double, 12> c;
  for (size_t k = 0; k < c.size(); ++k) c[k] = 2.0 / (2.0 * static_cast<double>(k) + 3.0);
  return Polynomial(t, c);
}

Value DoubleLog(Value f, Value k) {
  const FloatFormat& format = FormatOf(f);
  const Value s = f / (f + 2.0), t = s * s;
  // 2s = f - s f, which keeps f exact.
  const Value rest = s * (t * AtanhTail(t) - f);
  return Fma(k, format.ln2_hi, f + Fma(k, format.ln2_lo, rest));
}

// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)), plus k ln 2.
Value LogOf(Value f, Value k) { return IsDouble(f) ? DoubleLog(f, k) : SingleLog(f, k); }

// Right for zero, negative, infinite and NaN arguments, given the value for the others.
Value LogOfAny(Value x, Value regular) {
  const Value special = Select(x < 0.0, x.Of(kNan), Select(x == 0.0, x.Of(-kInf), x));
  return Select((x > 0.0) && (x < kInf), regular, special);
}

}  // namespace

LogParts SplitLog(Value x) {
  const FloatFormat& format = FormatOf(x);
  const Value tiny = x < format.least_normal;
  const Value bits = Select(tiny, x * format.scale_up, x).Bits();
  const Value k = Shr(bits - IntLiteral(bits, format.sqrt_half_bits), format.fraction_bits);
  const Value f = (bits - Shl(k, format.fraction_bits)).Real();
  return {f, IntToFloat(k) - Select(tiny, x.Of(format.scale_bits), x.Of(0))};
}

// f32: 1.2 ulp.
Value Log(Value x) {
  const LogParts parts = SplitLog(x);
  return LogOfAny(x, LogOf(parts.f - 1.0, parts.k));
}

// log(u) with u = 1 + x = 2^k (1 + f), where f comes from x and not from u, which was rounded; but
// where x is so large that 1 is nothing to it, and 2^-k may be no normal number. f32: 1.5 ulp.
Value Log1p(Value x) {
  constexpr double kLarge = 60;
  const Value u = x + 1.0;
  const LogParts parts = SplitLog(u);
  const Value scale = (x.Of(1.0).Bits() - (u.Bits() - parts.f.Bits())).Real();
  const Value f = Select(parts.k > kLarge, parts.f - 1.0, Fma(x, scale, scale - 1.0));
  return Select(u == 1.0, x, LogOfAny(u, LogOf(f, parts.k)));
}

Value Asinh(Value x) {
  const Value a = Abs(x), square = a * a;
  const Value small = Log1p(a + square / (Sqrt(square + 1.0) + 1.0));
  const Value large = Log(a) + 0.69314718055994530942;
  return WithSign(Select(a > 0x1p28, large, small), x);
}

Value Acosh(Value x) {
  const Value t = x - 1.0;
  const Value small = Log1p(t + Sqrt(Fma(t, t, t * 2.0)));
  const Value large = Log(x) + 0.69314718055994530942;
  return Select(x < 1.0, x.Of(kNan), Select(x > 0x1p28, large, small));
}

Value Atanh(Value x) {
  const Value a = Abs(x);
  return WithSign(Log1p(a * 2.0 / (a.Of(1.0) - a)) * 0.5, x);
}

// exp(y log |x|), the logarithm and the product in two parts each; then the many special cases.
Value Pow(Value x, Value y) {
  const Value a = Abs(x);
  const LogParts parts = SplitLog(a);
  const FloatFormat& format = FormatOf(a);
  const Value f = parts.f - 1.0, d = f + 2.0, s = f / d;
  const Value s_lo = Fma(-s, d, f) - s * (f - (d - 2.0));
  const Value t = s * s;
  const Value k_hi = parts.k * format.ln2_hi, k_lo = Fma(parts.k, format.ln2_hi, -k_hi);
  // k ln 2 + 2s, each sum with its rounding error (the first summand is larger or zero).
  const Value twice = s * 2.0, sum = k_hi + twice;
  const Value sum_lo = Select(parts.k == 0.0, a.Of(0.0), twice - (sum - k_hi));
  const Value tail =
      Fma(parts.k, format.ln2_lo, k_lo) + sum_lo + Fma(s * t, AtanhTail(t), s_lo * 2.0 / d);
  const Value log_hi = sum + tail, log_lo = tail - (log_hi - sum);
  const Value log = LogOfAny(a, log_hi), product = y * log;
  const Value error = Fma(y, log_hi, -product) + y * log_lo;
  const Value finite = Abs(product) < 800.0;
  const ExpParts e =
      SplitExp(AtLeast(-746.0, AtMost(710.0, product)), Select(finite, error, a.Of(0.0)));
  const Value magnitude = Ldexp(e.p + 1.0, IntToFloat(e.n));

  const Value half = y * 0.5;
  const auto floor = [](Value v) { return v.Op(ScalarOp::kFloor, v.dtype(), {}); };
  const auto equal = [](Value p, Value q) { return p.Op(ScalarOp::kEq, Dtype::kBool, {q}); };
  const Value whole = equal(floor(y), y), odd = whole && !equal(floor(half), half);
  const Value with_sign = Select(odd, WithSign(magnitude, x), magnitude);
  const Value undefined = (x < 0.0) && (x > -kInf) && !whole;
  const Value one = (y == 0.0) || (x == 1.0) || ((a == 1.0) && (Abs(y) == kInf));
  const Value nan =
      (a.Op(ScalarOp::kIsNan, Dtype::kBool, {})) || (y.Op(ScalarOp::kIsNan, Dtype::kBool, {}));
  const Value result = Select(undefined || nan, x.Of(kNan), with_sign);
  return Select(one, x.Of(1.0), result);
}

}  // namespace weft::loops
