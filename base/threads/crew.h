// What a team runs with: an arena of TBB and the workers in it, lent to one run after another.
//
// The workers that are through with a run spin for some ten microseconds, as the next may be near.
// Crews belong to the process, so that plans that run in turns share those workers
// (docs/decisions/0014).
#pragma once

#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/threads/barrier.h"

namespace weft {

// Keeps the threads of an arena apart. The kernel tends to wake a thread on the processor of
// whoever wakes it, busy as that is, and to move it milliseconds later: until then two ranks would
// take turns on one processor while another idles.
class Places : tbb::task_scheduler_observer {
 public:
  explicit Places(tbb::task_arena& arena);

  // A worker that finds itself where one of a lower slot is moves, and stays away from there. It
  // takes some 40 us, but a sleeper that stays away is not woken there again. The caller, of slot
  // 0, moves off a worker that has yet to wake: it could not run there to find out.
  void Take(size_t slot);

 private:
  void on_scheduler_entry(bool is_worker) override;

  std::vector<std::atomic<int>> cpus_;  // by slot of the arena, where its thread was seen last
};

// An arena of TBB and the workers that are in it, used by one run at a time.
class Crew {
 public:
  using Body = std::function<void(uint32_t rank, uint32_t size)>;

  explicit Crew(uint32_t size);
  uint32_t size() const { return size_; }

  // As of Team, for one caller at a time; sets the barrier to the ranks that there are.
  void Run(const Body& body, Barrier& barrier, double alone_us);
  void InArena(const std::function<void()>& body);
  // Workers leave, so that TBB has them for something else.
  void Dismiss() { is_dismissed_.store(true, std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  // Where the ranks of a run meet before it starts: its number, whether it is too late, and how
  // many have joined are one atomic word. So a worker either joined in time, and is counted, or
  // takes no part.
  static constexpr uint64_t kClosed = uint64_t{1} << 31, kOneRound = uint64_t{1} << 32;
  static uint32_t RoundOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static uint32_t CountOf(uint64_t word) { return static_cast<uint32_t>(word & (kClosed - 1)); }

  static bool AreAll(const std::atomic<uint32_t>& count, uint32_t size) {
    return count.load(std::memory_order_relaxed) + 1 >= size;
  }
  bool IsWorthTheOthers(double alone_us);
  void Summon();
  uint32_t Close(double alone_us);
  void Work();
  std::optional<uint32_t> Join(uint32_t round);
  uint32_t AwaitSize(uint32_t round) const;

  // What workers wait for between runs; on another line than what is written in a run.
  alignas(64) std::atomic<uint64_t> gate_ = kClosed;  // round | closed | joined
  std::atomic<bool> is_dismissed_ = false, is_running_ = false;
  const uint32_t size_;
  tbb::task_arena arena_;
  Places places_;
  // By the caller only, but for the body.
  uint64_t round_ = 0;
  const Body* body_ = nullptr;         // of the round
  Clock::duration wait_;               // at most, for the workers
  Clock::time_point ended_;            // of the last run
  bool is_soon_ = true;                // the next run is likely to come while workers stay
  bool has_called_ = false;            // workers, for the next run
  std::atomic<uint64_t> opened_ = 0;   // round | size
  std::atomic<uint32_t> working_ = 0;  // joined, and not through yet
  std::atomic<uint32_t> called_ = 0;   // workers that are here or on their way
  std::atomic<uint32_t> here_ = 0;
};

// A crew of this size for as long as it is held: one that was given back last, whose workers may
// still be there, or a new one if all are in use. Throws what TBB throws if none can be made.
class BorrowedCrew {
 public:
  explicit BorrowedCrew(uint32_t size);
  ~BorrowedCrew();
  BorrowedCrew(const BorrowedCrew&) = delete;
  BorrowedCrew& operator=(const BorrowedCrew&) = delete;
  Crew* operator->() const { return crew_; }

 private:
  Crew* crew_;
};

}  // namespace weft
