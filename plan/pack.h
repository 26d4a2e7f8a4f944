// Constants in the layout that their consumers want.
#pragma once

#include "base/layout.h"
#include "base/tensor.h"

namespace weft::plan {

// The elements of a plain tensor at OffsetOf(layout, …), as a flat tensor of AllocElems elements;
// padding is zero.
Tensor Pack(const Tensor& plain, const Layout& layout);
// The inverse.
Tensor Unpack(const Tensor& packed, const Layout& layout, const Shape& shape);

}  // namespace weft::plan
