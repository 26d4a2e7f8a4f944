// What graphs of operations are made of, and a call that is one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "fallback/cudnn/plans.h"
#include "fallback/device.h"

namespace weft::fallback::cudnn {

// In rows, aligned to 16 bytes. A virtual one stays on the chip.
Result<Descriptor> NewTensor(const Library& library, int64_t id, const Shape& shape,
                             bool is_virtual = false);

// `handle`: null for a device that is described.
Result<Descriptor> NewGraph(const Library& library, Handle handle,
                            const std::vector<Descriptor>& operations);

// A call as a graph; `ids`: of its tensors that are not virtual, by the call's inputs and then its
// result.
struct CallGraph {
  std::vector<Descriptor> operations;
  std::vector<int64_t> ids;
  bool tf32 = false;  // factors may be rounded to that
};

Result<std::unique_ptr<DeviceCall>> PrepareGraph(const Library& library, const CallGraph& call,
                                                 const void* context);
Status CheckGraph(const Library& library, const CallGraph& call, Isa isa);  // without a device

}  // namespace weft::fallback::cudnn
