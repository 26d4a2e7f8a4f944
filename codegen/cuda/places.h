// Where the buffers of a kernel lie on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen::cuda {

enum class Place : uint8_t { kOperand, kShared, kScratch, kThread };

struct Places {
  std::vector<Place> of;         // by buffer
  std::vector<int64_t> offsets;  // kScratch: in the block's slice
  int64_t shared_bytes = 0, scratch_bytes = 0, local_bytes = 0;
};

// Small shared buffers first, until what a block has by default is full; the rest is scratch.
Result<Places> PlaceBuffers(const loops::LoopNest& nest);

}  // namespace weft::codegen::cuda
