// Machine code of a nest, called by hand: what the executor does, without one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::oracle {

// A loaded kernel; unloaded at the end of its life.
class LoadedKernel {
 public:
  static Result<LoadedKernel> Make(const loops::LoopNest& nest, const Target& target);
  LoadedKernel(LoadedKernel&& other) noexcept;
  ~LoadedKernel();

  // Runs on `team` threads of its own.
  void Run(void* const* buffers, const int64_t* params, uint32_t team) const;

 private:
  LoadedKernel() = default;
  void* handle_ = nullptr;
  KernelFunction function_ = nullptr;
  int64_t rank_scratch_ = 0, team_scratch_ = 0;
};

// false: this build has no code generator.
Result<bool> RunMachineCode(const loops::LoopNest& nest, const Target& target, const std::vector<void*>& buffers,
                            const std::vector<int64_t>& params, uint32_t team);

}  // namespace weft::oracle
