// A team of threads that runs a plan: entered once a run, synchronised by a spinning barrier.
//
// The threads are TBB workers, so that a library step (oneDNN on TBB) uses the same pool: between
// own steps the team spins at its barrier (bounded, then yields), after a run its workers stay for
// some ten microseconds, as the next may be near, and for a library step they return to TBB at
// once. Measured: a barrier costs 0.05-0.15 us, a run whose workers are there 0.3, one that finds
// them in TBB's pool 2, one that wakes them 30 to 50. All teams of a process share the workers that
// stay: TBB moves one from arena to arena in 30 to 400 us.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "base/status.h"
#include "base/threads/barrier.h"

namespace weft {

class Team {
 public:
  // A team of 1 to 4096 threads, the caller's among them. Its TBB arena is limited to `size`.
  static Result<std::unique_ptr<Team>> Create(uint32_t size);
  ~Team();
  uint32_t size() const;
  // For the ranks of the current Run, as many as it really got.
  Barrier& barrier();

  using Body = std::function<void(uint32_t rank, uint32_t size)>;
  // Runs body(rank, size) on every rank at once, rank 0 on the caller; returns when all have. If
  // TBB can't supply all threads within a short wait, the missing ranks never start and body is
  // told the size it really got. Never deadlocks on a busy machine. What takes the caller alone
  // less time, by the estimate `alone_us`, than the others need to come runs as body(0, 1).
  void Run(const Body& body, double alone_us = std::numeric_limits<double>::infinity());
  // Runs body alone, inside the team's arena: a library call may spread over its threads.
  void RunInArena(const std::function<void()>& body);

 private:
  struct State;
  explicit Team(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
