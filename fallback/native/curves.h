// Functions that elementwise and recurrent operators have in common, for loops in vectors.
#pragma once

#include <algorithm>
#include <cmath>

namespace weft::fallback::native {

// No overflow on either side.
inline double Sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}
inline double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double HardSigmoid(double x, double a, double b) {
  const double y = a * x + b;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
// Both sides are computed, so that branches become selections.
inline double Elu(double x, double a) {
  const double below = a * std::expm1(x);
  return x < 0 ? below : x;
}

}  // namespace weft::fallback::native
