// Waiting for another thread without sleeping.
#pragma once

#include <sched.h>

namespace weft {

// Spins for some ten microseconds, then lets others run: what is waited for may need this
// processor.
class Spinner {
 public:
  void Once() {
    if (is_yielding()) {
      ::sched_yield();
      return;
    }
    ++spins_;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  bool is_yielding() const { return spins_ == kSpins; }

 private:
  static constexpr int kSpins = 256;
  int spins_ = 0;
};

}  // namespace weft
