// Ctrl-C, or a request to terminate: what is running ends, and nothing half-written stays behind.
//
// Where there is nothing to keep, the process ends at once with exit code 130. Within
// HoldInterrupt, and while an executor is registered, the first Ctrl-C only asks: Interrupted()
// turns true and registered executors cancel their run, which then fails as kInterrupted. A second
// one ends the process.
#pragma once

#include <atomic>

#include "executor/executor.h"

namespace weft::cli {

// Once, before any verb. With `json` the error document is printed too.
void InstallInterrupt(const bool& json);
const std::atomic<bool>& Interrupted();

class HoldInterrupt {
 public:
  HoldInterrupt();
  ~HoldInterrupt();
  HoldInterrupt(const HoldInterrupt&) = delete;
  HoldInterrupt& operator=(const HoldInterrupt&) = delete;
};

class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(executor::Executor& executor);  // must outlive this
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  HoldInterrupt hold_;
  std::atomic<executor::Executor*>* slot_ = nullptr;
};

}  // namespace weft::cli
