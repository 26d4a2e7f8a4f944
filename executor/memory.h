// Memory of the executor's own, and the floating point mode that kernels run in.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
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

// Kernels round to nearest and keep subnormals, whatever the caller's thread is set to; its mode is
// back afterwards.
class FloatMode {
 public:
#if defined(__x86_64__)  // MXCSR alone: fesetenv would also reload the x87 unit, which no kernel
                         // uses
  FloatMode() : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(kDefault); }
  ~FloatMode() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // Intel SDM volume 1, 10.2.3: the value after reset
  unsigned saved_;
#else
  FloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
};

}  // namespace weft::executor
