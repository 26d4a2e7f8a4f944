// How far outputs are from the reference.
#pragma once

#include <span>

#include "base/tensor.h"

namespace weft::driver {

struct Accuracy {
  double max_abs = 0;    // max |y - ref|
  double max_rel = 0;    // max |y - ref| / max |ref|, the measure that --tolerance is about
  double max_ulp = 0;    // in units of the output type's spacing at ref; 0 for integers that agree
  bool within = true;    // shapes agree, NaN and infinities stand in the same places, max_rel <= tolerance
};

// Over all outputs, the worst of each. References are f64 (or of the output's type for integers, which
// must agree exactly).
Accuracy CompareOutputs(std::span<const Tensor> outputs, std::span<const Tensor> reference, double tolerance);

}  // namespace weft::driver
