// Where the buffers of a kernel lie on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen::cuda {

enum class Place : uint8_t { kOperand, kShared, kScratch, kGrid, kThread, kNowhere };

struct Places {
  std::vector<Place> of;         // by buffer
  std::vector<int64_t> offsets;  // kScratch: in the block's slice; kGrid: in that of all
  int64_t shared_bytes = 0, scratch_bytes = 0, local_bytes = 0;
  int64_t grid_bytes = 0;  // of all launches of the nest
};

// Of a nest that is one launch. What it does not name lies nowhere. In shared memory are slices of
// buffers in cluster space, then small shared buffers first, until what a block has by default is
// full; the rest is scratch, but no slices: kLimit.
Result<Places> PlaceBuffers(const loops::LoopNest& nest);

}  // namespace weft::codegen::cuda
