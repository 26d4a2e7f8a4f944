// Machine code of a nest, called by hand: what the executor does, without one.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/target.h"
#include "codegen/llvm/load_for_test.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::oracle {

class Machine {
 public:
  static Result<Machine> Make(const loops::LoopNest& nest, const Target& target);
  // Runs on `team` threads of its own.
  void Run(void* const* buffers, const int64_t* params, uint32_t team) const;

 private:
  codegen::LoadedKernel kernel_;
  int64_t rank_scratch_ = 0, team_scratch_ = 0;
};

}  // namespace weft::oracle
