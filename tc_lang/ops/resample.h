// Where the elements of a resized axis come from, as arithmetic.
#pragma once

#include <optional>
#include <string>

#include "base/resample.h"
#include "tc_lang/ops/writer.h"

namespace weft::tc::ops {

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
