// The windows that a pooling slides over its input.
#pragma once

#include <cstdint>
#include <vector>

#include "fallback/native/args.h"
#include "fallback/native/axis.h"

namespace weft::fallback::native {

// Taps first, …, last - 1 of a window.
struct Taps {
  int64_t first = 0, last = 0;
};

// Windows over the axes from 2 on. All numbers are below 2^31 but the extents, so sums and
// products of two fit.
struct Windows {
  std::vector<Axis> axes;
  int64_t in = 1, out = 1;              // elements of a plane
  std::vector<std::vector<Taps>> taps;  // by axis and window, those in the input
};

// By the attributes of the call, checked, and the shape of operand 0; without the taps.
Result<Windows> WindowsOf(const Args& args);
// The shape of the output.
Shape ShapeOf(const Shape& in, const Windows& w);
// Once it is known that the output has elements, and so how many windows there are at most.
void FindTaps(Windows& w);
// By axis and window, how many taps count in an average.
std::vector<std::vector<double>> CountsOf(const Windows& w, bool with_pads);

}  // namespace weft::fallback::native
