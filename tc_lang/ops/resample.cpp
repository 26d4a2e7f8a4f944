#include "tc_lang/ops/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weft::tc::ops {
std::optional<Line> LineOf(const ResampleRule& rule, const Resample& r, double scale) {
  constexpr int64_t kMostSlope = int64_t{1} << 31, kMost = int64_t{1} << 40;
  if (rule.mode != "linear" || r.taps != 2 || !r.outside.empty() || r.out < 2) return std::nullopt;
  // `outs` outputs span `ins` inputs: all of them, or as the scale, a binary fraction, says.
  int64_t outs = r.out, ins = r.in;
  const bool exact = std::fabs(scale * static_cast<double>(r.in) - static_cast<double>(r.out)) <
                     1e-9 * static_cast<double>(r.out);
  if (!exact) {
    ins = 1;
    while (scale != std::floor(scale) && ins < kMost) {
      scale *= 2;
      ins *= 2;
    }
    if (!(scale >= 1 && scale < static_cast<double>(kMost)) || ins >= kMost) return std::nullopt;
    outs = static_cast<int64_t>(scale);
  }
  Line line;
  if (rule.coordinates == "half_pixel" || rule.coordinates == "pytorch_half_pixel") {
    line = {2 * ins, ins - outs, 2 * outs};
  } else if (rule.coordinates == "asymmetric") {
    line = {ins, 0, outs};
  } else if (rule.coordinates == "align_corners" && exact) {
    line = {r.in - 1, 0, r.out - 1};
  } else {
    return std::nullopt;
  }
  if (line.a > kMostSlope || line.d > kMost) return std::nullopt;
  for (int64_t k = 0; k < r.out; ++k) {
    const auto at = static_cast<size_t>(k);
    if (r.base[at] < 0 || r.base[at] + 1 >= r.in) continue;
    const int64_t place = line.a * k + line.b - line.d * r.base[at];
    const double fraction = static_cast<double>(place) / static_cast<double>(line.d);
    if (std::fabs(fraction - r.weights[2 * at + 1]) > 1e-7) return std::nullopt;
  }
  return line;
}

Periodic PeriodOf(const Resample& r) {
  const auto taps = static_cast<size_t>(r.taps), rows = static_cast<size_t>(r.out);
  const auto same_weights = [&](size_t p) {
    for (size_t k = 0; !r.weights.empty() && k + p * taps < rows * taps; ++k) {
      if (std::fabs(r.weights[k + p * taps] - r.weights[k]) > 1e-12) return false;
    }
    return true;
  };
  // Of each start of the list of steps between places: the length of its longest end that is its
  // start too, as in the search of Knuth, Morris and Pratt.
  const auto step = [&](size_t i) { return r.base[i + 1] - r.base[i]; };
  const size_t steps = rows - 1;
  std::vector<size_t> border(steps + 1, 0);
  for (size_t i = 1, length = 0; i < steps; border[++i] = length) {
    while (length > 0 && step(i) != step(length)) length = border[length];
    if (step(i) == step(length)) ++length;
  }
  for (size_t length = steps; length > 0;) {
    length = border[length];
    const size_t period = steps - length;
    if (same_weights(period)) return {static_cast<int64_t>(period), r.base[period] - r.base[0]};
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
    // floor((a * k + b) / d) is base[k] for the b from `low` to before `high`.
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int64_t k = 0; k < r.out; ++k) {
      const int64_t place = d * r.base[static_cast<size_t>(k)] - a * k;
      low = std::max(low, place);
      high = std::min(high, place + d);
    }
    if (low >= high) continue;
    const std::string e = Sum({{a, i}}, low);
    if (d == 1 || a == 0) return a == 0 ? std::to_string(r.base[0]) : e;
    return e == i ? fmt::format("{} / {}", i, d) : fmt::format("({}) / {}", e, d);
  }
  return "";
}

}  // namespace weft::tc::ops
