#include "base/resample.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace weft {
namespace {

// The input coordinate of output i. In doubles it is exact when the scale is out / in: then the
// quotient of integers.
template <typename Real>
Real Coordinate(const ResampleRule& rule, int64_t in, int64_t out, Real scale, Real lo, Real hi,
                int64_t i) {
  constexpr bool kInDoubles = std::is_same_v<Real, double>;
  const auto n = static_cast<Real>(in), m = static_cast<Real>(out), k = static_cast<Real>(i);
  const Real half = Real{1} / 2;
  const bool exact = std::fabs(scale * n - m) < (kInDoubles ? Real(1e-9) : Real(1e-6)) * m;
  const Real length = exact ? m : scale * n;
  const Real centre = exact && kInDoubles ? (2 * k + 1) * n / (2 * m) : (k + half) / scale;
  if (rule.coordinates == "align_corners")
    return length == 1 || out == 1 ? 0 : k * (n - 1) / (length - 1);
  if (rule.coordinates == "asymmetric") return exact && kInDoubles ? k * n / m : k / scale;
  if (rule.coordinates == "pytorch_half_pixel") return out == 1 ? 0 : centre - half;
  if (rule.coordinates == "tf_half_pixel_for_nn") return centre;
  if (rule.coordinates == "half_pixel_symmetric")
    return n / 2 * (1 - m / (kInDoubles ? length : scale * n)) + (centre - half);
  if (rule.coordinates == "tf_crop_and_resize") {
    if (out == 1) return half * (lo + hi) * (n - 1);
    return lo * (n - 1) + k * (hi - lo) * (n - 1) / (m - 1);
  }
  return centre - half;
}

int64_t Nearest(std::string_view mode, double x, double scale) {
  if (mode == "ceil_when_shrinking") mode = scale < 1 ? "ceil" : "floor";
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                          : std::ceil(x - 0.5));
}

// The hat, or Keys' cubic ("Cubic convolution interpolation", 1981, equation 15 with a free a).
double Kernel(const ResampleRule& rule, double x) {
  x = std::fabs(x);
  if (rule.mode == "linear") return std::max(0.0, 1 - x);
  const double a = rule.cubic_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

std::optional<Resample> MakeResample(const ResampleRule& rule, int64_t in, int64_t out,
                                     double scale, double lo, double hi) {
  constexpr double kMostElems = 1 << 24, kFar = 1 << 30;
  if (in > kFar) return std::nullopt;
  Resample r{.in = in, .out = out, .taps = 1};
  const bool crop = rule.coordinates == "tf_crop_and_resize";
  const double narrow =
      rule.antialias ? std::min(scale, 1.0) : 1.0;  // the kernel widens when shrinking
  const double reach = rule.mode == "cubic" ? 2 : 1;
  const double before = std::floor(-reach / narrow) + 1;
  const double taps = rule.mode == "nearest" ? 1 : 2 - 2 * before;
  if (!(taps * static_cast<double>(out) <= kMostElems)) return std::nullopt;  // nor if it is NaN
  r.taps = static_cast<int64_t>(taps);
  const auto first = static_cast<int64_t>(before);
  // A quotient of integers says which coordinates lie half-way between two places. Otherwise which
  // place one at the edge of two belongs to, and whether one at the edge of a crop is inside, is
  // what f32 makes of it, in which others compute.
  const auto quotient = static_cast<double>(out) / static_cast<double>(in);
  const bool has_ties = rule.mode == "nearest" && rule.nearest_mode.starts_with("round") && !crop &&
                        std::fabs(scale / quotient - 1) < 1e-6;
  const double exact = has_ties ? quotient : scale;
  for (int64_t i = 0; i < out; ++i) {
    double x = Coordinate<double>(rule, in, out, exact, lo, hi, i);
    const double rounded = Coordinate<float>(rule, in, out, static_cast<float>(scale),
                                             static_cast<float>(lo), static_cast<float>(hi), i);
    if (!(std::fabs(x) < kFar && std::fabs(rounded) < kFar)) return std::nullopt;
    if (crop) r.outside.push_back(rounded < 0 || rounded > static_cast<double>(in - 1));
    if (rule.mode == "nearest") {
      r.base.push_back(Nearest(rule.nearest_mode, has_ties ? x : rounded, scale));
      continue;
    }
    if (std::fabs(x - std::round(x)) < 1e-9) x = std::round(x);
    const auto floor = static_cast<int64_t>(std::floor(x));
    r.base.push_back(floor + first);
    double sum = 0;
    std::vector<double> weights;
    for (int64_t t = 0; t < r.taps; ++t) {
      const int64_t place = floor + first + t;
      const bool skipped = rule.exclude_outside && (place < 0 || place >= in);
      weights.push_back(skipped ? 0 : Kernel(rule, (static_cast<double>(place) - x) * narrow));
      sum += weights.back();
    }
    for (double weight : weights) r.weights.push_back(weight / sum);
  }
  if (std::find(r.outside.begin(), r.outside.end(), true) == r.outside.end()) r.outside.clear();
  return r;
}

}  // namespace weft
