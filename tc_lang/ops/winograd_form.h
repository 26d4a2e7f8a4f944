// Winograd's minimal filtering F(m x m, 3 x 3): (m + 2)^2 products for m^2 outputs instead of 9
// m^2.
//
// An output tile is A^T [(G g G^T) o (B^T d B)] A, where d is an input tile and g the filter (Lavin
// and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4.1; the names of the
// matrices are theirs). The matrices are Toom and Cook's: evaluation of polynomials in m + 1 points
// and infinity, and its transpose.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace weft::tc {

using Matrix = std::vector<std::vector<double>>;  // by row

struct WinogradForm {
  std::string_view alternative;  // of a convolution: "winograd"
  std::string_view key;          // of its filters among the graph's forms
  size_t outs = 0;               // m
  Matrix input, filter, output;  // B^T [m + 2, m + 2], G [m + 2, 3], A^T [m, m + 2]

  size_t ins() const { return outs + 2; }
};

// F(2x2, 3x3), whose error is about that of the direct form, then F(4x4, 3x3), which does with 9/16
// of its products and rounds several times worse.
std::span<const WinogradForm> WinogradForms();

// [m + 2, m + 2, K, C] of filters [K, C, 3, 3], in double precision until the end.
Tensor TransformFilters(const WinogradForm& form, const Tensor& filters);

// The error of the form over that of a direct convolution, root mean square, over filters drawn
// evenly (each in units of its own size, so that large ones hide no others) and tiles of random
// inputs: signed ones, and such as follow a ReLU; the worse of the two. Infinite for filters whose
// tiles may overflow where direct sums do not.
double ErrorRatio(const WinogradForm& form, const Tensor& filters, const Tensor& transformed);

}  // namespace weft::tc
