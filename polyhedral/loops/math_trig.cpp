// Trigonometric functions and erf. sin, cos and tan reduce by multiples of pi/2 in three parts with
// fma, which holds for |x| < 2^52; beyond, where the spacing of f64 is a good part of a period,
// they give NaN.
#include <array>
#include <limits>
#include <vector>

#include "polyhedral/loops/math_parts.h"

namespace weft::loops {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
constexpr double kHalfPi = 1.57079637050628662109375, kHalfPiRest = -4.3711390001862430e-08;  // f32

// x = quadrant * pi/2 + r, |r| <= pi/4; the quadrant modulo 4 as a float.
struct Reduced {
  Value r, quadrant;
};

Reduced ReduceQuadrant(Value x) {
  constexpr double kHalfPi[] = {1.5707963267948965580, 6.1232339957367660e-17,
                                -1.4973849048591833e-33};
  const Value n = Round(x * 0.63661977236758134308);
  Value r = x;
  for (double part : kHalfPi) r = Fma(n, -part, r);
  const Value quarters = (n * 0.25).Op(ScalarOp::kFloor, n.dtype(), {});
  const Value beyond = Abs(x) >= 0x1p52;
  const Value in_range = Select(x == 0.0, x, r);  // -0
  return {Select(beyond, x.Of(kNan), in_range), Fma(quarters, -4.0, n)};
}

// sin(r) = r + r^3 (-1/3! + r^2/5! ...), cos(r) = 1 - r^2/2 + r^4 (1/4! - ...) on |r| <= pi/4.
Value SinKernel(Value r) {
  const Value z = r * r;
  std::vector<double> c;
  double term = -1.0 / 6;
  for (int k = 5; k <= 21; k += 2) {
    c.push_back(term);
    term /= -static_cast<double>(k * (k - 1));
  }
  return Select(r == 0.0, r, Fma(r * z, Polynomial(z, c), r));  // -0
}

Value CosKernel(Value r) {
  const Value z = r * r;
  std::vector<double> c;
  double term = 1.0 / 24;
  for (int k = 6; k <= 22; k += 2) {
    c.push_back(term);
    term /= -static_cast<double>(k * (k - 1));
  }
  const Value half = z * 0.5, one = r.Of(1.0), w = one - half;
  return w + (((one - w) - half) + z * z * Polynomial(z, c));
}

// erf(x) = x + x P(x^2) on [0, 1]: Taylor's series 2/sqrt(pi) sum (-z)^k / (k! (2k+1)).
Value ErfSmall(Value x) {
  const Value z = x * x;
  std::vector<double> c;
  double term = 1.12837916709551257390;
  for (int k = 0; k <= 20; ++k) {
    c.push_back(term / (2 * k + 1));
    term /= -static_cast<double>(k + 1);
  }
  c[0] = 0.12837916709551257390;  // 2/sqrt(pi) - 1
  return Fma(x, Polynomial(z, c), x);
}

// erf(a) = 1 - exp(-a^2) G(a) from 1 on; G is minimax for the error of the whole.
Value ErfLarge(Value a) {
  constexpr double kC[] = {
      2.553956763105057441e-1,  -4.271858474139583633e-1, 2.416581942424664814e-1,
      -7.897858101575091534e-2, 3.732892404147327527e-3,  6.997461740720096674e-3,
      -8.471432245765652013e-4, -9.819769908992390481e-4, 4.355459695012392288e-5,
      1.743564235972259e-4,     2.753307024454183951e-5,  -2.748351747455825915e-5,
      -1.382491699157391799e-5, 9.356825539224652318e-7,  2.203372482170820257e-6};
  const Value x = AtMost(6.0, a);
  return Fma(-Exp(-(x * x)), Polynomial((x - 2.0) / (x + 2.0), kC), 1.0);
}

// erf(x) = x P(x^2), one polynomial for all x: minimax on [0, 3.7^2], in a variable that goes from
// -1 to 1, as a power series about 0 would cancel. Beyond, the product is more than 1. 3.4 ulp.
Value SingleErf(Value x) {
  constexpr double kC[] = {3.8213748e-1, -1.9046801e-1, 1.4079536e-1, -1.1263779e-1,
                           9.052298e-2,  -7.04897e-2,   5.2139014e-2, -3.6095347e-2,
                           2.31006e-2,   -1.404605e-2,  8.442636e-3,  -4.2605824e-3,
                           1.4264338e-3, -7.787101e-4,  7.6018827e-4, -2.7827188e-4};
  const Value u = Fma(AtMost(13.69, x * x), 0.14609204, x.Of(-1.0));
  return AtLeast(-1.0, AtMost(1.0, x * Polynomial(u, kC)));
}

// Of an f32, by way of f64, where one polynomial does: sin(r) = r (1 + r^2 S(r^2)), S minimax
// (7e-12) for |r| <= 2.2. x = n pi + r, or (n + 1/2) pi + r for the cosine, and an odd n changes
// the sign. |r| <= pi/2, and a little more where x is so large that x / pi is not known to half a
// unit.
Value SingleSinCos(Value single, bool cosine) {
  constexpr double kPiParts[] = {3.1415926535897931160, 1.2246467991473531772e-16};
  constexpr double kC[] = {-0.166666666574,  0.00833333297355,  -0.00019841223105,
                           2.75545247948e-6, -2.49674242098e-8, 1.47884704122e-10};
  const Value x = single.Cast(Dtype::kF64);
  const double magic = FormatOf(x).magic, half = cosine ? 0.5 : 0.0;
  const Value shifted = Fma(x, 0.31830988618379067154, x.Of(-half)) + magic;
  const Value bits = shifted.Bits(), n = shifted - magic + half;
  const Value r = Fma(n, -kPiParts[1], Fma(n, -kPiParts[0], x));
  const Value z = r * r, magnitude = r * Fma(z, Polynomial(z, kC), 1.0);
  const Value odd = Shl(cosine ? bits + IntLiteral(bits, 1) : bits, 63);
  const Value sine = Xor(magnitude.Bits(), odd).Real().Cast(Dtype::kF32);
  return Select(Abs(single) >= 0x1p52, single.Of(kNan), sine);
}

// atan(t) = t + t^3 P(t^2) on [0, 1], P minimax (2e-8 of the result).
Value SingleAtan(Value x) {
  constexpr double kC[] = {-0.333331527331,  0.199937727644,  -0.142110547273, 0.106660023373,
                           -0.0755220933771, 0.0432118020844, -0.016367891764, 0.00292068315524};
  const Value a = Abs(x), one = a.Of(1.0), inverted = a > 1.0;
  const Value t = Select(inverted, one, a) / Select(inverted, a, one), z = t * t;
  const Value angle = Fma(t * z, Polynomial(z, kC), t);
  return WithSign(Select(inverted, a.Of(kHalfPi) - (angle - kHalfPiRest), angle), x);
}

// asin(s) = s + s^3 Q(s^2) on [0, 1/2], Q minimax (5e-9 of the result); beyond,
// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
struct HalfAsin {
  Value beyond;  // whether |x| > 1/2
  Value angle;   // asin(|x|), or asin(sqrt((1 - |x|) / 2)) if beyond
};
HalfAsin SplitAsin(Value x) {
  constexpr double kC[] = {0.166667524816, 0.0749529766206, 0.0454703741326, 0.0241795205245,
                           0.0421663028014};
  const Value a = Abs(x), beyond = a > 0.5;
  const Value z = Select(beyond, Fma(a, -0.5, x.Of(0.5)), a * a), s = Select(beyond, Sqrt(z), a);
  return {beyond, Fma(s * z, Polynomial(z, kC), s)};
}

Value SingleAsin(Value x) {
  const HalfAsin h = SplitAsin(x);
  const Value far = Fma(h.angle, -2.0, x.Of(kHalfPiRest)) + kHalfPi;
  return WithSign(Select(h.beyond, far, h.angle), x);
}

Value SingleAcos(Value x) {
  const HalfAsin h = SplitAsin(x);
  const Value near = x.Of(kHalfPi) - (WithSign(h.angle, x) - kHalfPiRest), twice = h.angle * 2.0;
  const Value far = Select(x < 0.0, x.Of(2 * kHalfPi) - (twice - 2 * kHalfPiRest), twice);
  return Select(h.beyond, far, near);
}

}  // namespace

Value SinCos(Value x, bool cosine) {
  if (x.dtype() == Dtype::kF32) return SingleSinCos(x, cosine);
  const Reduced reduced = ReduceQuadrant(x);
  const Value sin = SinKernel(reduced.r), cos = CosKernel(reduced.r);
  const Value q = reduced.quadrant;  // 0, 1, 2 or 3
  const Value swapped = (q == 1.0) || (q == 3.0);
  const Value value = cosine ? Select(swapped, sin, cos) : Select(swapped, cos, sin);
  const Value negative = cosine ? (q == 1.0) || (q == 2.0) : q >= 2.0;
  return Select(negative, -value, value);
}

Value Tan(Value x) {
  const Reduced reduced = ReduceQuadrant(x);
  const Value sin = SinKernel(reduced.r), cos = CosKernel(reduced.r);
  const Value swapped = (reduced.quadrant == 1.0) || (reduced.quadrant == 3.0);
  return Select(swapped, -cos, sin) / Select(swapped, sin, cos);
}

// |x| to [0, 1] by 1/x, then to |t| <= tan(pi/8) by (x - 1) / (x + 1); there the series.
Value Atan(Value x) {
  if (x.dtype() == Dtype::kF32) return SingleAtan(x);
  const Value a = Abs(x), inverted = a > 1.0, one = a.Of(1.0);
  const Value b = Select(inverted, one / a, a);
  const Value shifted = b > 0.41421356237309504880;
  const Value t = Select(shifted, (b - 1.0) / (b + 1.0), b), z = t * t;
  std::array<double, 21> c;
  for (size_t k = 0; k < c.size(); ++k)
    c[k] = (k % 2 == 0 ? -1.0 : 1.0) / (2.0 * static_cast<double>(k) + 3.0);
  const Value series = Fma(t * z, Polynomial(z, c), t);
  const Value angle = Select(shifted, series + kPi / 4, series);
  return WithSign(Select(inverted, a.Of(kPi / 2) - angle, angle), x);
}

Value Asin(Value x) {
  if (x.dtype() == Dtype::kF32) return SingleAsin(x);
  const Value one = x.Of(1.0);
  return Atan(x / Sqrt((one - x) * (one + x)));
}

Value Acos(Value x) {
  if (x.dtype() == Dtype::kF32) return SingleAcos(x);
  const Value one = x.Of(1.0);
  return Atan(Sqrt((one - x) / (one + x))) * 2.0;
}

Value Erf(Value x) {
  if (GoesByPieces(x)) return ErfByPieces(x);
  if (x.dtype() == Dtype::kF32) return SingleErf(x);
  const Value a = Abs(x);
  return WithSign(Select(a < 1.0, ErfSmall(a), ErfLarge(a)), x);
}

}  // namespace weft::loops
