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
  return {Select(beyond, x.Of(kNan), r), Fma(quarters, -4.0, n)};
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
  return Fma(r * z, Polynomial(z, c), r);
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

// erf(x) = x + x P(x^2) on [0, 1]: Taylor's series 2/sqrt(pi) sum (-z)^k / (k! (2k+1)) in f64,
// minimax in f32.
Value ErfSmall(Value x) {
  const Value z = x * x;
  if (x.dtype() == Dtype::kF32) {
    constexpr double kC[] = {1.28379166e-1,  -3.761262582e-1, 1.128358515e-1, -2.685381194e-2,
                             5.188327694e-3, -8.010193752e-4, 7.853861925e-5};
    return Fma(x, Polynomial(z, kC), x);
  }
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
  if (a.dtype() == Dtype::kF32) {
    constexpr double kC[] = {9.861269469e-1, -1.048209231,    7.925922202e-1, -4.316770321e-1,
                             1.641321286e-1, -4.099764317e-2, 6.005026693e-3, -3.888762356e-4};
    const Value x = AtMost(4.0, a);
    return Fma(-ExpNear(-(x * x)), Polynomial(x, kC), 1.0);
  }
  constexpr double kC[] = {
      2.553956763105057441e-1,  -4.271858474139583633e-1, 2.416581942424664814e-1,
      -7.897858101575091534e-2, 3.732892404147327527e-3,  6.997461740720096674e-3,
      -8.471432245765652013e-4, -9.819769908992390481e-4, 4.355459695012392288e-5,
      1.743564235972259e-4,     2.753307024454183951e-5,  -2.748351747455825915e-5,
      -1.382491699157391799e-5, 9.356825539224652318e-7,  2.203372482170820257e-6};
  const Value x = AtMost(6.0, a);
  return Fma(-Exp(-(x * x)), Polynomial((x - 2.0) / (x + 2.0), kC), 1.0);
}

}  // namespace

Value SinCos(Value x, bool cosine) {
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
  const Value one = x.Of(1.0);
  return Atan(x / Sqrt((one - x) * (one + x)));
}

Value Acos(Value x) {
  const Value one = x.Of(1.0);
  return Atan(Sqrt((one - x) / (one + x))) * 2.0;
}

// f32: 1.5 ulp.
Value Erf(Value x) {
  const Value a = Abs(x);
  return WithSign(Select(a < 1.0, ErfSmall(a), ErfLarge(a)), x);
}

}  // namespace weft::loops
