// Integers that grow by a fixed step along each axis of their array.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace weft {

// Element [i0, i1, ...] is first + i0 * steps[0] + i1 * steps[1] + ...; steps of axes with one
// element are 0.
struct AffineInts {
  int64_t first = 0;
  std::vector<int64_t> steps;
};

// The row-major values of an array as such, if they are: none if it is empty.
std::optional<AffineInts> AffineIntsOf(std::span<const int64_t> values, const Shape& shape);

}  // namespace weft
