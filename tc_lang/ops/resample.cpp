#include "tc_lang/ops/resample.h"

#include <algorithm>
#include <cmath>

#include "base/affine.h"

namespace weft::tc::ops {
namespace {

// The input coordinate of output i. Exact when the scale is out / in: then the quotient of
// integers.
double Coordinate(const ResampleRule& rule, int64_t in, int64_t out, double scale, double lo,
                  double hi, int64_t i) {
  const double length = scale * static_cast<double>(in);
  const auto n = static_cast<double>(in), m = static_cast<double>(out), k = static_cast<double>(i);
  const bool exact = std::fabs(length - m) < 1e-9 * m;
  const double half = exact ? ((2 * k + 1) * n - m) / (2 * m) : (k + 0.5) / scale - 0.5;
  if (rule.coordinates == "align_corners")
    return length == 1 || out == 1 ? 0 : k * (n - 1) / ((exact ? m : length) - 1);
  if (rule.coordinates == "asymmetric") return exact ? k * n / m : k / scale;
  if (rule.coordinates == "pytorch_half_pixel") return out == 1 ? 0 : half;
  if (rule.coordinates == "tf_half_pixel_for_nn") return half + 0.5;
  if (rule.coordinates == "half_pixel_symmetric") return n / 2 * (1 - m / length) + half;
  if (rule.coordinates == "tf_crop_and_resize") {
    return lo * (n - 1) + (out == 1 ? (hi - lo) * (n - 1) / 2 : k * (hi - lo) * (n - 1) / (m - 1));
  }
  return half;
}

int64_t Nearest(const std::string& mode, double x) {
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
  constexpr double kMostElems = 8192, kFar = 1LL << 52;
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
  for (int64_t i = 0; i < out; ++i) {
    double x = Coordinate(rule, in, out, scale, lo, hi, i);
    if (!(std::fabs(x) < kFar)) return std::nullopt;
    if (crop) r.outside.push_back(x < 0 || x > static_cast<double>(in - 1));
    if (rule.mode == "nearest") {
      r.base.push_back(Nearest(rule.nearest_mode, x));
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

Periodic PeriodOf(const Resample& r) {
  const auto repeats = [&](int64_t p) {
    const int64_t advance = r.base[static_cast<size_t>(p)] - r.base[0];
    for (int64_t i = 0; i + p < r.out; ++i) {
      const auto at = static_cast<size_t>(i), next = static_cast<size_t>(i + p);
      if (r.base[next] != r.base[at] + advance) return false;
      for (int64_t t = 0; t < r.taps && !r.weights.empty(); ++t) {
        const auto k = static_cast<size_t>(t), taps = static_cast<size_t>(r.taps);
        if (std::fabs(r.weights[next * taps + k] - r.weights[at * taps + k]) > 1e-12) return false;
      }
    }
    return true;
  };
  for (int64_t p = 1; p < r.out; ++p) {
    if (repeats(p)) return {p, r.base[static_cast<size_t>(p)] - r.base[0]};
  }
  return {r.out, 0};
}

std::string BaseText(const Resample& r, const Periodic& p, const std::string& i) {
  const std::pair<int64_t, int64_t> slopes[] = {// multiplier, divisor
                                                {p.advance, p.period},
                                                {r.in, r.out},
                                                {r.in - 1, r.out - 1},
                                                {2 * r.in, 2 * r.out}};
  for (const auto& [a, d] : slopes) {
    if (d < 1) continue;
    for (int64_t b = d * r.base[0]; b < d * (r.base[0] + 1); ++b) {
      int64_t k = 0;
      while (k < r.out && FloorDiv(a * k + b, d) == r.base[static_cast<size_t>(k)]) ++k;
      if (k < r.out) continue;
      const std::string e = Sum({{a, i}}, b);
      if (d == 1 || a == 0) return a == 0 ? std::to_string(r.base[0]) : e;
      return e == i ? fmt::format("{} / {}", i, d) : fmt::format("({}) / {}", e, d);
    }
  }
  return "";
}

}  // namespace weft::tc::ops
