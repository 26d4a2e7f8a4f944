#include "driver/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::driver {
namespace {

// Distance of neighbouring numbers of the type around `value`.
double Spacing(Dtype dtype, double value) {
  const int bits = dtype == Dtype::kF64   ? 52
                   : dtype == Dtype::kF32 ? 23
                   : dtype == Dtype::kF16 ? 10
                                          : 7;
  const int least = dtype == Dtype::kF64 ? -1022 : dtype == Dtype::kF16 ? -14 : -126;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, least) - bits);
}

bool IsNear(double difference, double reference, const Tolerance& t) {
  return difference <= t.atol.value_or(0) + t.rtol.value_or(0) * std::abs(reference);
}

void CompareFloats(const Tensor& y, const Tensor& ref, const Tolerance& tolerance, Accuracy& a) {
  double scale = 0, worst = 0;
  for (int64_t i = 0; i < y.elems(); ++i)
    if (const double r = ElemAsDouble(ref, i); std::isfinite(r))
      scale = std::max(scale, std::abs(r));
  for (int64_t i = 0; i < y.elems(); ++i) {
    const double v = ElemAsDouble(y, i), r = ElemAsDouble(ref, i);
    if (std::isnan(v) && std::isnan(r)) continue;
    if (v == r) continue;
    if (!std::isfinite(v) || !std::isfinite(r)) {
      a.within = false;
      worst = a.max_ulp = std::numeric_limits<double>::infinity();
      continue;
    }
    worst = std::max(worst, std::abs(v - r));
    if (tolerance.by_element()) a.within = a.within && IsNear(std::abs(v - r), r, tolerance);
    a.max_ulp = std::max(a.max_ulp, std::abs(v - r) / Spacing(y.dtype(), r));
  }
  a.max_abs = std::max(a.max_abs, worst);
  const double relative =
      worst == 0 ? 0 : worst / std::max(scale, std::numeric_limits<double>::min());
  a.max_rel = std::max(a.max_rel, relative);
  // Half a unit in the last place of the largest is what the type itself rounds off.
  const double near = tolerance.of_scale * scale + Spacing(y.dtype(), scale) / 2;
  if (!tolerance.by_element()) a.within = a.within && (worst == 0 || (scale > 0 && worst <= near));
}

}  // namespace

Accuracy CompareOutputs(std::span<const Tensor> outputs, std::span<const Tensor> reference,
                        const Tolerance& tolerance) {
  Accuracy a;
  if (outputs.size() != reference.size()) a.within = false;
  for (size_t k = 0; k < std::min(outputs.size(), reference.size()); ++k) {
    const Tensor &y = outputs[k], &ref = reference[k];
    if (y.shape() != ref.shape()) {
      a.within = false;
    } else if (y.dtype() == Dtype::kString || ref.dtype() == Dtype::kString) {
      a.exact += y.elems();
      a.within = a.within && y == ref;
      if (y.dtype() != ref.dtype()) continue;
      for (size_t i = 0; i < y.strings().size(); ++i)
        a.differing += y.strings()[i] != ref.strings()[i];
    } else if (IsFloat(y.dtype())) {
      CompareFloats(y, ref, tolerance, a);
    } else {
      for (int64_t i = 0; i < y.elems(); ++i) {
        const double r = ElemAsDouble(ref, i), difference = std::abs(ElemAsDouble(y, i) - r);
        a.max_abs = std::max(a.max_abs, difference);
        a.exact += 1;
        if (ElemAsInt(y, i) == ElemAsInt(ref, i)) continue;
        a.differing += 1;
        a.within = a.within && tolerance.by_element() && IsNear(difference, r, tolerance);
      }
    }
  }
  return a;
}

}  // namespace weft::driver
