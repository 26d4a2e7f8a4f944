// A team of threads that runs a plan: entered once a run, synchronised by a spinning barrier.
//
// The threads are TBB workers, so that a library step (oneDNN on TBB) uses the same pool: between
// own steps the team spins at its barrier (bounded, then yields); for a library step it returns to
// TBB. Measured: a barrier costs 0.05-0.15 us, a TBB region with real work 1-2 us.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"

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

 private:
  friend class Team;
  void SetSize(uint32_t size);  // while nobody waits
  struct State;
  std::unique_ptr<State> state_;
};

class Team {
 public:
  // A team of 1 to 4096 threads, the caller's among them. Its TBB arena is limited to `size`.
  static Result<std::unique_ptr<Team>> Create(uint32_t size);
  ~Team();
  uint32_t size() const;
  // For the ranks of the current Run, as many as it really got.
  Barrier& barrier();

  // Runs body(rank) on every rank at once, rank 0 on the caller, inside the team's arena; returns
  // when all have. If TBB can't supply all threads within a short wait, the missing ranks never
  // start and body is told the size it really got: body(rank, size). Never deadlocks on a busy
  // machine.
  void Run(const std::function<void(uint32_t rank, uint32_t size)>& body);
  // Runs body(0, 1) on the caller: for what is done before the others would have begun.
  void RunAlone(const std::function<void(uint32_t rank, uint32_t size)>& body);
  // Runs body alone, inside the team's arena: a library call may spread over its threads.
  void RunInArena(const std::function<void()>& body);

 private:
  struct State;
  explicit Team(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
