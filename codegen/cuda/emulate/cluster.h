// The blocks of a cluster on one thread of a CPU: each runs until it ends or stands at a barrier of
// the cluster; then the next one runs.
//
// `__shared__` is one memory, of whichever block runs. What the others have there is kept for them,
// and that is where a block reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "codegen/cuda/emulate/block.h"
#include "codegen/cuda/emulate/words.h"

namespace weft::codegen::cuda {

class Cluster {
 public:
  // `kernel` says of how many blocks; `stack_bytes`: of a thread.
  static Result<std::unique_ptr<Cluster>> Make(const EmulatedKernel& kernel, ThreadState& state,
                                               ThreadState::Dim threads, int64_t stack_bytes);

  // Runs the block that `state` names and those behind it along x. After an error it can't run
  // again.
  Status Run(void* const* arguments);

 private:
  struct Member {
    std::unique_ptr<Block> block;
    std::vector<std::byte> shared;  // while another one runs
    bool is_there = false;          // has begun, and not ended
    int32_t line = 0;               // of the barrier where it waits
  };

  Cluster(const EmulatedKernel& kernel, ThreadState& state) : kernel_(kernel), state_(state) {}
  static const void* OfBlock(void* cluster, const void* own, uint32_t block);
  Status GoOn(Member& member);

  const EmulatedKernel& kernel_;
  ThreadState& state_;
  std::vector<Member> members_;
  uint32_t current_ = 0;
  bool astray_ = false;  // some block has read of one that was not there
};

}  // namespace weft::codegen::cuda
