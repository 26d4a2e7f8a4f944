// Convolutions by Winograd's tiles, for operators that differ in what they multiply.
#pragma once

#include <functional>
#include <string>

#include "tc_lang/ops/indexing.h"
#include "tc_lang/ops/winograd_form.h"

namespace weft::tc::ops {

// Whether a convolution may be done by tiles: its filter, the node's input `filter`, is constant,
// with three taps along an axis or two that tiles have, moves by one, and has one group and no
// dilation; and the image's extents are known.
bool HasTiles(const graph::Graph& graph, const graph::Node& node, size_t filter);

// A filter's shape with the axes of its tiles last. One that moves has a single tap: elements stay
// in order.
Shape TilesLast(Shape filter);

// What tiles are of: types of their inputs transformed and of sums of products, and what the
// image's element at n, c and its place is in them.
struct TiledNumbers {
  Dtype tiles, sums;
  std::function<std::string(const Subs&)> element;
};

// An output of the convolution before anything is added to it, in an expression of n, k and its
// places. `filters`: the filter's shape as the node has it; `prepared`: that filter transformed.
std::string TiledSum(Writer& w, const Convolution& conv, const Shape& filters,
                     graph::ValueId prepared, const WinogradForm& form,
                     const TiledNumbers& numbers);

}  // namespace weft::tc::ops
