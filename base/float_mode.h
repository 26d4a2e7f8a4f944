// The floating point mode that kernels run in, and that constants are folded in.
#pragma once

#include <cfenv>

namespace weft {

// While one lives its thread rounds to nearest and keeps subnormals, whatever the caller set it to;
// that mode is back afterwards.
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

}  // namespace weft
