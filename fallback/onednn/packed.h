// Constants in the layouts that primitives want.
#pragma once

#include "base/tensor.h"
#include "fallback/onednn/build.h"

namespace weft::fallback::onednn {

// The bytes of slot.packed, made of a constant as slot.given says. While someone holds the result,
// calls with the same constant (the same memory) get the same bytes: plans of one network for other
// shapes have the weights in common. Thread-safe. Throws dnnl::error.
Result<Tensor> Packed(const Tensor& given, const Slot& slot);

}  // namespace weft::fallback::onednn
