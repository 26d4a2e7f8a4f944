// Where the elements of a resized axis come from, as a table, and the table as arithmetic.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tc_lang/ops/writer.h"

namespace weft::tc::ops {

// How one axis is resampled: output i is the sum over taps t of weights[i * taps + t] * x(base[i] +
// t), places outside [0, in) meaning the nearest element inside.
struct Resample {
  int64_t in = 1, out = 1, taps = 1;
  Ints base;
  std::vector<double> weights;  // empty for one tap of weight 1
  std::vector<bool> outside;    // output is the extrapolation value; empty if none is
};

struct ResampleRule {
  std::string mode, coordinates, nearest_mode;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
};

// `scale` is out / in as the node has it, roi_lo and roi_hi the crop in [0, 1]. Null if the tables
// were longer than 4 million elements or an output came from no place.
std::optional<Resample> MakeResample(const ResampleRule& rule, int64_t in, int64_t out,
                                     double scale, double roi_lo, double roi_hi);

// Output i lies at (a * i + b) / d among the inputs.
struct Line {
  int64_t a = 0, b = 0, d = 1;
};
// That of a linear interpolation, if the tables say the same for what lies between inputs.
std::optional<Line> LineOf(const ResampleRule& rule, const Resample& r, double scale);

// The same sampling again after `period` outputs, `advance` inputs further.
struct Periodic {
  int64_t period = 1, advance = 0;
};
Periodic PeriodOf(const Resample& r);
// base as an expression of index i, "(2*i + 1) / 3", without a clamp; empty if it has no such form.
std::string BaseText(const Resample& r, const Periodic& p, const std::string& i);

}  // namespace weft::tc::ops
