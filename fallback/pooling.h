// Pooling as cuDNN takes it, read from a call; see contraction.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/verdict.h"
#include "fallback/call.h"

namespace weft::fallback {

enum class PoolingKind : uint8_t { kMax, kAverageWithPadding, kAverageWithoutPadding };

// All of f32, channels first, one window a channel. One spatial axis becomes two, the first of
// extent 1.
struct Pooling {
  PoolingKind kind = PoolingKind::kMax;
  Shape x, y;                                           // of the same rank, 4 or 5
  std::vector<int64_t> window, strides, before, after;  // by spatial axis
};

Verdict<Pooling> PoolingOf(const LibraryCall& call);

}  // namespace weft::fallback
