// What a kernel's fault says to people.
#pragma once

#include <string>

#include "base/dtype.h"
#include "base/tensor.h"
#include "plan/kernel_abi.h"

namespace weft::plan {

// "index 9 is outside of "x", which is f32[9]", of the operand's name, type and extents; with
// another name for what is no operand.
std::string DescribeFault(const KernelFault& fault, const std::string& name, Dtype dtype,
                          const Shape& shape);
std::string DescribeFault(const KernelFault& fault);

}  // namespace weft::plan
