// The buffers of a run, and beside each element (when checks are on) who touched it last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

// Whoever runs: a rank on a CPU; on CUDA a thread, of a block, of a cluster (of one block, unless
// the nest says otherwise). `phase` counts barriers: accesses of two actors of one block in
// different phases are ordered. `round` counts those of the cluster: so are accesses of its blocks
// in different rounds.
struct Actor {
  int64_t cluster = 0;
  int32_t block = 0, thread = 0;  // counted within the cluster
  uint32_t phase = 1, round = 1;
};

// How many there are at once.
struct Actors {
  int32_t threads = 1, blocks = 1;
};

class CheckedMemory {
 public:
  // Operands are the caller's; the rest is allocated here, register and cache space once per actor,
  // shared space once per block.
  CheckedMemory(const loops::LoopNest& nest, std::span<void* const> operands,
                std::span<const int64_t> params, Actors actors, bool check);

  void* Base(loops::BufferId id, const Actor& actor) const {
    const Block& b = blocks_[id.index];
    return b.data + CopyOf(b, actor) * b.copy_bytes;
  }
  // A new cluster starts: what is shared, cached or in registers holds nothing yet.
  void ForgetLocals();
  // A new launch: what was written so far is there for all.
  void NextLaunch();

  // The checks: an error names the buffer and the element.
  Status Read(loops::BufferId id, std::span<const int64_t> index, int64_t offset,
              const Actor& actor);
  Status Write(loops::BufferId id, std::span<const int64_t> index, int64_t offset,
               const Actor& actor);

 private:
  static constexpr int32_t kSeveral = -1;
  static constexpr Actor kNobody = {.phase = 0};
  struct Touch {
    // The last write and the last read. Reads of several clusters, of several blocks of one in a
    // round, of several threads of one in a phase, are one of kSeveral.
    Actor writer = kNobody, reader = kNobody;
    bool written = false;  // by an earlier launch
  };
  enum class Copies : uint8_t { kOne, kPerBlock, kPerThread };
  struct Block {
    std::byte* data = nullptr;
    Copies copies = Copies::kOne;
    int64_t copy_bytes = 0, elems = 0;  // of one copy
    std::vector<int64_t> shape;
    bool initialised = false;  // by the caller
    bool is_local = false;     // of a cluster, a block or a thread
    std::vector<std::byte> owned;
    std::vector<Touch> touches;
  };
  Status Inside(const Block& b, const loops::Buffer& buffer, std::span<const int64_t> index) const;
  static int64_t CopyOf(const Block& b, const Actor& actor) {
    if (b.copies == Copies::kOne) return 0;
    return b.copies == Copies::kPerBlock ? actor.block : actor.thread;
  }
  static Touch& TouchOf(Block& b, int64_t offset, const Actor& actor) {
    return b.touches[static_cast<size_t>(offset + CopyOf(b, actor) * b.elems)];
  }
  // Whether nothing orders what was done before and what `actor` does now.
  static bool IsRace(const Actor& before, const Actor& actor);

  const loops::LoopNest& nest_;
  std::vector<Block> blocks_;
};

}  // namespace weft::codegen
