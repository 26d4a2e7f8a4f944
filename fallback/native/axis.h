// A spatial axis that a window slides over.
#pragma once

#include <cstdint>

namespace weft::fallback::native {

struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // pads; those of a transposed convolution may be negative
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

}  // namespace weft::fallback::native
