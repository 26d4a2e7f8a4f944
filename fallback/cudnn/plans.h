// Execution plans: what cuDNN has to do a graph of operations, on a device or for one.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "fallback/cudnn/descriptor.h"

namespace weft::fallback::cudnn {

struct ExecutionPlan {
  Descriptor plan;
  int64_t workspace = 0;  // bytes
  int64_t engine = 0;     // as the library counts them
};

// For which device: that of a handle, or one that is described.
struct Where {
  Handle handle = nullptr;
  Descriptor device;
};

// A device of this ISA that is not here. What NVIDIA sells has more or fewer multiprocessors; which
// engines there are depends on the architecture.
Result<Where> Elsewhere(const Library& library, Isa isa);

// At most `most`, what the library expects to be fastest first, of engines that compute in f32
// without further notes on how, or, with `tf32`, of factors rounded to that. kUnsupported if there
// are none.
Result<std::vector<ExecutionPlan>> PlansFor(const Library& library, const Descriptor& graph,
                                            const Where& where, bool tf32, size_t most);

}  // namespace weft::fallback::cudnn
