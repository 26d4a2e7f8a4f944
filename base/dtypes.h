// All element types, for who asks something of each.
#pragma once

#include "base/dtype.h"

namespace weft {

inline constexpr Dtype kDtypes[] = {
#define WEFT_DTYPE(name, text, bits, kind, onnx) Dtype::k##name,
#include "base/dtype.def"
#undef WEFT_DTYPE
};

}  // namespace weft
