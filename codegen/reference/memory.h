// The buffers of a run, and beside each element (when checks are on) who touched it last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

// Whoever runs: a rank on a CPU; on CUDA a thread, of a block. `phase` counts barriers: accesses of
// two actors of one block in different phases are ordered.
struct Actor {
  int64_t block = 0;
  int32_t thread = 0;
  uint32_t phase = 1;
};

class CheckedMemory {
 public:
  // Operands are the caller's; the rest is allocated here, register and cache space once per actor.
  CheckedMemory(const loops::LoopNest& nest, std::span<void* const> operands,
                std::span<const int64_t> params, int32_t actors, bool check);

  void* Base(loops::BufferId id, int32_t actor) const {
    const Block& b = blocks_[id.index];
    return b.data + actor * b.actor_bytes;
  }
  // A new block starts: what is shared, cached or in registers holds nothing yet.
  void ForgetLocals();
  // A new launch: what was written so far is there for all.
  void NextLaunch();

  // The checks: an error names the buffer and the element.
  Status Read(loops::BufferId id, std::span<const int64_t> index, int64_t offset,
              const Actor& actor);
  Status Write(loops::BufferId id, std::span<const int64_t> index, int64_t offset,
               const Actor& actor);

 private:
  static constexpr int64_t kSeveral = -1;
  struct Touch {                              // the last write and the last read
    int64_t write_block = 0, read_block = 0;  // kSeveral: of blocks, which nothing orders
    int32_t writer = -1, reader = -1;         // -1 none; reader -2: several
    uint32_t write_phase = 0, read_phase = 0;
    bool written = false;  // by an earlier launch
  };
  struct Block {
    std::byte* data = nullptr;
    int64_t actor_bytes = 0;  // 0: one for all
    int64_t elems = 0;
    std::vector<int64_t> shape;
    bool initialised = false;                   // by the caller
    bool is_private = false, is_local = false;  // local: of a block or a thread
    std::vector<std::byte> owned;
    std::vector<Touch> touches;
  };
  Status Inside(const Block& b, const loops::Buffer& buffer, std::span<const int64_t> index) const;
  Touch& TouchOf(Block& b, int64_t offset, const Actor& actor) const {
    return b.touches[static_cast<size_t>(offset + (b.is_private ? actor.thread * b.elems : 0))];
  }

  const loops::LoopNest& nest_;
  std::vector<Block> blocks_;
};

}  // namespace weft::codegen
