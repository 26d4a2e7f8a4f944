// How operands are indexed: sliding windows, the channels of groups, matrix products.
#pragma once

#include <string>
#include <vector>

#include "tc_lang/ops/writer.h"

namespace weft::tc::ops {

// One spatial axis: the window of output o covers input o * stride - pad_lo + tap * dilation.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_lo = 0, pad_hi = 0;
};

struct Windows {
  std::vector<WindowAxis> axes;
  Subs out;     // indices of the output: h, w
  Subs tap;     // of the window: r, s; "0" where it has extent 1
  Subs at;      // of the input: 2*h + r - 1
  Subs guards;  // conditions under which `at` lies inside, as far as they can fail
};

// The axes after the first two of x and y; strides, dilations and pads are the node's attributes.
Windows MakeWindows(Writer& w, const Operand& x, const Operand& y, const Ints& kernel);
// The indices and taps alone, with their ranges.
Subs OutIndices(Writer& w, const std::vector<WindowAxis>& axes);
Subs TapIndices(Writer& w, const std::vector<WindowAxis>& axes);

// "a && b ? inside : otherwise"; inside alone when nothing guards it.
std::string Guarded(const Subs& guards, const std::string& inside, const std::string& otherwise);

// How the channels of a grouped convolution are indexed. Plain where they can be: one group, and
// depthwise. Else by group g and place in the group, as k and c.
struct Channels {
  std::string out, in;  // subscripts of y and x
  Subs filter;          // subscripts 0 and 1 of the filter
};
// The filter is [outs, ins / groups] for Conv, [ins, outs / groups] when transposed.
Channels MakeChannels(Writer& w, int64_t ins, int64_t outs, bool transposed);

// y(n, k, …) = sum of `product`, plus the bias of k, which is input `bias` if the node has it.
void SumWithBias(Writer& w, std::string_view tag, const Operand& y, const Subs& at,
                 const std::string& product, size_t bias = 2);

// A convolution whose input x and filter are inputs of the node.
struct Convolution {
  Operand x, filter, y;
  Windows win;
  Channels c;
};
Convolution MakeConvolution(Writer& w, size_t x, size_t filter);

// Subscripts of an image whose channels lie innermost.
Subs ChannelsLast(Subs i);

// Where an image that was copied with its padding is written and read.
struct PaddedImage {
  Subs at;      // its elements, as x's axes lie
  Subs inside;  // what they are of x
  Subs guards;  // if they are in it
  Subs taps;    // what a product reads of it
};
// `places`: along the last axis, 0 for as many as its windows take.
PaddedImage PadImage(Writer& w, const Convolution& conv, int64_t places = 0);

// y(…, m, n) from a(…, m, k) and b(…, k, n), as MatMul has them.
struct MatrixProduct {
  Operand a, b, y;
  Subs at, at_a, at_b;
};
MatrixProduct MakeProduct(Writer& w, const Operand& a, const Operand& b, const Operand& y);

}  // namespace weft::tc::ops
