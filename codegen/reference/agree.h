// Another way to run a nest, judged by its interpreter.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

using RunNest = std::function<Status(std::span<void* const> operands, KernelFault* fault)>;

// The interpreter runs the nest on `operands`, then `other` runs on outputs of its own: kInternal
// if the interpreter finds a defect, if a bit differs but for those of NaNs, if the faults differ,
// or if `other` writes next to an output. What the outputs hold where neither writes is not said.
Status Agree(const loops::LoopNest& nest, std::span<void* const> operands,
             std::span<const int64_t> params, KernelFault* fault, const RunNest& other);

}  // namespace weft::codegen
