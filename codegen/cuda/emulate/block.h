// The threads of a block on one thread of a CPU: each is a fiber, which runs until it ends or
// stands at a barrier; then the next one runs.
//
// Threads of a warp that exchange values wait for each other in the same way, and so do blocks of a
// cluster (cluster.h).
//
// That is one of the orders that hardware may take. It shows a barrier that not all threads reach,
// and some races by their values, but proves none absent: the loop-nest interpreter does.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace weft::codegen::cuda {

using KernelEntry = void(void* const* arguments);  // pointers to the arguments, as cuLaunchKernel's

// What a running kernel sees; the text's words for it read this very object.
struct ThreadState {
  struct Dim {
    uint32_t x = 1, y = 1, z = 1;
  };
  Dim block_index, thread_index, grid_dim, block_dim;
  void (*barrier)(void* block, int32_t line) = nullptr;
  void* block = nullptr;
  // What the thread whose number differs by `across` brings to the same line.
  uint64_t (*exchange)(void* block, int32_t line, uint64_t word, int32_t across) = nullptr;
  void (*cluster_barrier)(void* block, int32_t line) = nullptr;
  void* cluster = nullptr;
  // Where a block of the cluster has what this one has there, in shared memory.
  const void* (*of_block)(void* cluster, const void* own, uint32_t block) = nullptr;
};

class Block {
 public:
  // `stack_bytes`: of a thread.
  static Result<std::unique_ptr<Block>> Make(ThreadState& state, ThreadState::Dim threads,
                                             int64_t stack_bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // The threads that GoOn runs, of the block that `state` names then.
  void Start(KernelEntry* kernel, void* const* arguments);
  // Runs all threads until they end, which is 0, or wait for other blocks of their cluster, which
  // is the line of that barrier: they go on from there. After an error the block can't run again.
  Result<int32_t> GoOn();

 private:
  struct Fiber {
    ucontext_t context{};
    uint32_t thread = 0;   // that it runs, until that ends
    int32_t line = 0;      // of the barrier or exchange where it waits
    int32_t across = 0;    // an exchange; 0: a barrier
    bool cluster = false;  // a barrier of the cluster
    uint64_t word = 0;     // what it brings there, and then what it gets
  };

  Block(ThreadState& state, ThreadState::Dim threads, int64_t stack_bytes);
  uint32_t Threads() const { return threads_.x * threads_.y * threads_.z; }
  static void Enter(unsigned high, unsigned low);  // a fiber's first function
  static void Barrier(void* block, int32_t line);
  static void ClusterBarrier(void* block, int32_t line);
  static uint64_t Exchange(void* block, int32_t line, uint64_t word, int32_t across);
  void Wait(Fiber& self);
  void Work();
  void Resume(Fiber& fiber);
  Fiber& IdleFiber();
  void AddFiber();
  Status CheckBarrier() const;
  std::vector<Fiber*> ReadyWarps();  // whose threads have exchanged; they wait no longer
  void Name(uint32_t thread);        // which thread runs

  ThreadState& state_;
  ThreadState::Dim threads_;
  size_t stack_bytes_;
  std::byte* stacks_ = nullptr;  // one for each fiber that may be
  ucontext_t main_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_, waiting_;
  Fiber* current_ = nullptr;
  uint32_t next_ = 0;  // thread that has not begun
  KernelEntry* kernel_ = nullptr;
  void* const* arguments_ = nullptr;
};

}  // namespace weft::codegen::cuda
