// Winograd's minimal filtering F(m, 3): m + 2 products for m outputs instead of 3 m, along one axis
// of a filter or both, where F(m x m, 3 x 3) takes (m + 2)^2 for m^2.
//
// An output tile is A^T [(G g G^T) o (B^T d B)] A, where d is an input tile and g the filter (Lavin
// and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4.1; the names of the
// matrices are theirs). The matrices are Toom and Cook's: evaluation of polynomials in m + 1 points
// and infinity, and its transpose. Along an axis of one tap each of them is 1.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace weft::tc {

using Matrix = std::vector<std::vector<double>>;  // by row

struct WinogradForm {
  std::string_view alternative;  // of a convolution: "winograd"
  std::string_view key;          // of its filters among the graph's forms
  Matrix input, filter, output;  // B^T [m + 2, m + 2], G [m + 2, 3], A^T [m, m + 2]

  size_t outs() const { return output.size(); }
  size_t ins() const { return input.size(); }
  size_t taps() const { return filter[0].size(); }
};

// F(2, 3), whose error is about that of the direct form, then F(4, 3), which does with 3/4 of its
// products along each axis and rounds several times worse.
std::span<const WinogradForm> WinogradForms();

// How a form does filters [K, C, 3], [K, C, 3, 3], [K, C, 1, 3] or [K, C, 3, 1], or those of
// volumes, with an axis of any taps in front of the last two; `down` of the first is that of one
// tap.
struct TileForms {
  const WinogradForm &down, &across;

  // Along how many axes there are halves in a filter transformed by F(2, 3).
  int Halved() const { return (down.taps() > 1 ? 1 : 0) + (across.taps() > 1 ? 1 : 0); }
};
TileForms FormsAlong(const WinogradForm& form, const Shape& filters);

// [down.ins, across.ins, K, C] of filters, and [down.ins, across.ins, K, C, R] of those with R taps
// in front, in double precision until the end.
Tensor TransformFilters(const WinogradForm& form, const Tensor& filters);

// The same of integers less their zero point (null for 0; one number, or one for each of K) by
// F(2, 3), whose halves are taken twice along each axis: 16 bits, and exact. Nothing where results
// times as much leave 32 bits for some image of bytes less a zero point.
std::optional<Tensor> TransformIntegers(const WinogradForm& form, const Tensor& filters,
                                        const Tensor* zero);

// The error of the form over that of a direct convolution, root mean square, over filters drawn
// evenly (each in units of its own size, so that large ones hide no others) and tiles of random
// inputs: signed ones, and such as follow a ReLU; the worse of the two. Infinite for filters whose
// tiles may overflow where direct sums do not.
double ErrorRatio(const WinogradForm& form, const Tensor& filters, const Tensor& transformed);

}  // namespace weft::tc
