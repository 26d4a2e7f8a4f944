// Windows that slide over spatial axes: convolutions and pools.
#pragma once

#include "graph/infer/engine.h"

namespace weft::graph::infer {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: all begins, then all ends
  std::string auto_pad;                                   // NOTSET, VALID, SAME_UPPER, SAME_LOWER
  bool ceil = false;
};

// Attributes of a node with `rank` spatial axes, checked; the kernel from `weights` if it is not
// one.
Result<Window> WindowOf(Context& c, size_t rank, std::vector<int64_t> weights);
// The output's extent on spatial axis `i`.
Result<Extent> SlideOver(Context& c, const Window& window, size_t i, Extent in);

}  // namespace weft::graph::infer
