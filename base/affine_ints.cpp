#include "base/affine_ints.h"

namespace weft {

std::optional<AffineInts> AffineIntsOf(std::span<const int64_t> values, const Shape& shape) {
  if (values.empty()) return std::nullopt;
  AffineInts affine{values[0], std::vector<int64_t>(shape.size(), 0)};
  size_t stride = 1;
  for (size_t a = shape.size(); a-- > 0;) {
    if (shape[a] > 1 && __builtin_sub_overflow(values[stride], values[0], &affine.steps[a]))
      return std::nullopt;
    stride *= static_cast<size_t>(shape[a]);
  }
  Shape at(shape.size(), 0);
  for (const int64_t value : values) {
    int64_t expected = affine.first, term = 0;
    for (size_t a = 0; a < at.size(); ++a) {
      if (__builtin_mul_overflow(affine.steps[a], at[a], &term) ||
          __builtin_add_overflow(expected, term, &expected))
        return std::nullopt;
    }
    if (value != expected) return std::nullopt;
    for (size_t a = at.size(); a-- > 0 && ++at[a] == shape[a];) at[a] = 0;
  }
  return affine;
}

}  // namespace weft
