// Sums and their like of rows, for use within Vectorised.
#pragma once

#include <cstdint>

namespace weft::fallback::native {

// join(… join(start, map(0)) …, map(count - 1)) in another order: one result would wait for itself
// at each element, of several the compiler makes vectors.
template <typename Acc, typename Map, typename Join>
Acc Fold(int64_t count, Acc start, Map map, Join join) {
  constexpr int64_t kParts = 32;
  Acc parts[kParts];
  for (Acc& part : parts) part = start;
  int64_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (int64_t k = 0; k < kParts; ++k) parts[k] = join(parts[k], map(i + k));
  }
  for (int64_t k = 0; i + k < count; ++k) parts[k] = join(parts[k], map(i + k));
  for (int64_t half = kParts / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) parts[k] = join(parts[k], parts[k + half]);
  return parts[0];
}

template <typename Map>
double FoldSum(int64_t count, Map map) {
  return Fold(count, 0.0, map, [](double a, double b) { return a + b; });
}

// A NaN wins.
template <typename C>
C Larger(C a, C b) {
  return b > a || b != b ? b : a;
}

}  // namespace weft::fallback::native
