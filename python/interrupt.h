// Ctrl-C during a run that Python's main thread waits for.
#pragma once

#include "executor/executor.h"

namespace weft::python {

// While one lives on the main thread, Ctrl-C cancels the run, besides what the interpreter's own
// handler does: that only notes the signal until the interpreter goes on, which is after the run.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(executor::Executor& executor);  // must outlive this
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  bool is_installed_ = false;
};

}  // namespace weft::python
