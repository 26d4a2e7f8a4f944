// How far outputs are from the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/tensor.h"

namespace weft::driver {

// What is near enough. By default an error is a part of the output's scale, max |ref|, beside what
// the output's type rounds off there (half a unit in the last place; 16 bits hold no 1e-4). With
// rtol or atol each element counts alone, as in numpy.allclose: |y - ref| <= atol + rtol * |ref|;
// one not given is 0. Integers must agree exactly unless rtol or atol is given: where they round
// real numbers, as in quantized networks, a neighbour is as right.
struct Tolerance {
  // NOLINTNEXTLINE(google-explicit-constructor): a number alone is the part of the scale
  Tolerance(double of_scale = 1e-4, std::optional<double> rtol = {},
            std::optional<double> atol = {})
      : of_scale(of_scale), rtol(rtol), atol(atol) {}
  double of_scale;
  std::optional<double> rtol, atol;
  bool by_element() const { return rtol || atol; }
};

struct Accuracy {
  double max_abs = 0;  // max |y - ref|
  double max_rel = 0;  // max |y - ref| / max |ref|, the measure that --tolerance is about
  double max_ulp = 0;  // in units of the output type's spacing at ref; 0 for integers that agree
  int64_t differing = 0, exact = 0;  // elements that are no floats: those that differ, all of them
  bool within = true;  // shapes agree, NaN and infinities stand in the same places, no error leaves
                       // the tolerance
};

// Over all outputs, the worst of each. References are f64, or of the output's type for integers.
Accuracy CompareOutputs(std::span<const Tensor> outputs, std::span<const Tensor> reference,
                        const Tolerance& tolerance);

}  // namespace weft::driver
