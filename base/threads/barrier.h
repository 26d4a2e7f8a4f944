// Where the threads of a team wait for each other between steps.
#pragma once

#include <cstdint>
#include <memory>

namespace weft {

// Sense-reversing barrier for a fixed number of threads; also usable through a plain C function
// pointer by compiled kernels.
class Barrier {
 public:
  explicit Barrier(uint32_t size);
  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  void Wait();
  static void WaitOn(void* barrier) { static_cast<Barrier*>(barrier)->Wait(); }
  void SetSize(uint32_t size);  // while nobody waits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
