// The loop-nest interpreter: the meaning of a LoopNest, with checks that hardware does not make.
//
// Runs ranks (CPU) or blocks and threads (CUDA) one after another between barriers, and reports
// reads and writes outside a buffer, reads of elements never written (register, cache, shared
// and cluster space), two ranks or threads that touch one element without a barrier between them
// when one writes (a race), and barriers that not all reach.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/tensor.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct InterpretOptions {
  uint32_t team_size = 2;  // CPU ranks
  bool check = true;       // bounds, initialisation, races
  int64_t max_steps = int64_t{1} << 40;
};

// buffers[k] is the memory of operand k, laid out as the nest says, AllocElems(layout, shape)
// elements. A checked violation is Code::kInternal (a wrong nest); a fault of the data (a gathered
// index out of range) comes back in `fault`, as a kernel would report it.
Status Interpret(const loops::LoopNest& nest, std::span<void* const> buffers,
                 std::span<const int64_t> params, KernelFault* fault,
                 const InterpretOptions& options = {});

}  // namespace weft::codegen
