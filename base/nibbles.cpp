#include "base/nibbles.h"

#include <fmt/format.h>

namespace weft {

Dtype WidenedType(Dtype dtype) {
  if (dtype == Dtype::kI4) return Dtype::kI8;
  return dtype == Dtype::kU4 ? Dtype::kU8 : dtype;
}

Tensor Widened(Tensor tensor) {
  if (!SharesBytes(tensor.dtype())) return tensor;
  Tensor wide(WidenedType(tensor.dtype()), tensor.shape());
  for (int64_t i = 0; i < wide.elems(); ++i) SetElemInt(wide, i, ElemAsInt(tensor, i));
  return wide;
}

Result<Tensor> Narrowed(const Tensor& tensor, Dtype dtype) {
  WEFT_TRY(Tensor small, Tensor::Allocate(dtype, tensor.shape()));
  for (int64_t i = 0; i < small.elems(); ++i) {
    const int64_t value = ElemAsInt(tensor, i);
    SetElemInt(small, i, value);
    if (ElemAsInt(small, i) != value)
      return Usage(
          fmt::format("element {} is {}, which {} can't hold", i, value, DtypeName(dtype)));
  }
  return small;
}

}  // namespace weft
