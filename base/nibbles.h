// Elements of four bits as arrays elsewhere have them. NumPy has no type for them: they are int8 or
// uint8 there, one in a byte.
#pragma once

#include "base/status.h"
#include "base/tensor.h"

namespace weft {

Dtype WidenedType(Dtype dtype);  // others as they are
Tensor Widened(Tensor tensor);   // the same
// The inverse; an error if a number does not fit.
Result<Tensor> Narrowed(const Tensor& tensor, Dtype dtype);

}  // namespace weft
