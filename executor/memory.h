// Memory of the executor's own.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/memory.h"
#include "base/status.h"

namespace weft::executor {

inline constexpr size_t kAlign = 64;

using Bytes = std::shared_ptr<void>;

// At least one byte, so that the address of nothing is an address too.
inline Result<Bytes> Allocate(int64_t bytes, const char* what) {
  Bytes memory = AllocateZeroed(std::max<int64_t>(bytes, 1));
  if (!memory) return Limit(fmt::format("no memory for {} of {} bytes", what, bytes));
  return memory;
}

inline bool IsAligned(const void* p, size_t to = kAlign) {
  return reinterpret_cast<uintptr_t>(p) % to == 0;
}

// Whether two stretches of one memory, by their addresses, have a byte in common.
inline bool Overlap(uint64_t a, int64_t a_bytes, uint64_t b, int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + static_cast<uint64_t>(b_bytes) &&
         b < a + static_cast<uint64_t>(a_bytes);
}

}  // namespace weft::executor
