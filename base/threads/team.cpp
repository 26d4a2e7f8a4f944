#include "base/threads/team.h"

#include <fmt/format.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>

#include "base/check.h"

namespace weft {
namespace {

constexpr size_t kLineBytes = 64;
constexpr uint32_t kMostThreads = 4096;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins for some ten microseconds, then lets others run: what is waited for may need this
// processor.
class Spinner {
 public:
  void Once() {
    if (spins_ < kSpins) {
      ++spins_;
      Pause();
    } else {
      ::sched_yield();
    }
  }
  bool is_yielding() const { return spins_ == kSpins; }

 private:
  static constexpr int kSpins = 256;
  int spins_ = 0;
};

// TBB makes as many workers as there are processors. A larger team, as in tests, needs more. Of
// several global_controls the least counts, so there is only this one.
void AllowWorkers(uint32_t threads) {
  static std::mutex mutex;
  static uint32_t allowed = tbb::info::default_concurrency();
  static tbb::global_control* control = nullptr;  // lives as long as TBB
  const std::lock_guard lock(mutex);
  if (threads <= allowed) return;
  auto* const wider =
      new tbb::global_control(tbb::global_control::max_allowed_parallelism, threads);
  delete control;
  control = wider;
  allowed = threads;
}

}  // namespace

// The phase takes the part of the sense: it differs from round to round, and whoever arrives last
// turns it. The two counters lie on lines of their own, so that arriving does not disturb the
// waiting.
struct Barrier::State {
  alignas(kLineBytes) std::atomic<uint32_t> arrived = 0;
  alignas(kLineBytes) std::atomic<uint32_t> phase = 0;
  uint32_t size = 1;
};

Barrier::Barrier(uint32_t size) : state_(std::make_unique<State>()) { SetSize(size); }
Barrier::~Barrier() = default;

void Barrier::SetSize(uint32_t size) {
  WEFT_CHECK(size >= 1, "a barrier for nobody");
  state_->size = size;
}

void Barrier::Wait() {
  State& s = *state_;
  if (s.size == 1) return;
  const uint32_t phase = s.phase.load(std::memory_order_relaxed);
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == s.size) {
    s.arrived.store(0, std::memory_order_relaxed);
    s.phase.store(phase + 1, std::memory_order_release);
    return;
  }
  for (Spinner spinner; s.phase.load(std::memory_order_acquire) == phase;) spinner.Once();
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestWait = std::chrono::microseconds(1000);
constexpr auto kShortestWait = std::chrono::microseconds(50);

// Where the ranks of one run meet before they start. Joining and closing are one atomic counter: a
// thread either joined before the gate closed, and is counted, or never starts.
class Gate {
 public:
  // The rank of a thread that joined in time.
  std::optional<uint32_t> Join() {
    uint32_t joined = joined_.load(std::memory_order_relaxed);
    while (joined < kClosed) {
      if (joined_.compare_exchange_weak(joined, joined + 1, std::memory_order_relaxed))
        return joined + 1;
    }
    return std::nullopt;
  }

  // By rank 0: waits until `wanted` others joined, or the time is over. Returns how many did.
  uint32_t Close(uint32_t wanted, Clock::duration wait) {
    const Clock::time_point deadline = Clock::now() + wait;
    for (Spinner spinner; joined_.load(std::memory_order_relaxed) < wanted; spinner.Once()) {
      if (spinner.is_yielding() && Clock::now() >= deadline) break;
    }
    return joined_.fetch_or(kClosed, std::memory_order_relaxed);
  }

  void Open(uint32_t size) { size_.store(size, std::memory_order_release); }

  // By all others: waits for Open and returns the size of the team.
  uint32_t AwaitSize() const {
    uint32_t size = 0;
    for (Spinner spinner; (size = size_.load(std::memory_order_acquire)) == 0;) spinner.Once();
    return size;
  }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> joined_ = 0;
  std::atomic<uint32_t> size_ = 0;
};

}  // namespace

struct Team::State {
  explicit State(uint32_t size) : size(size), arena(static_cast<int>(size), 1), barrier(size) {}

  uint32_t size;
  tbb::task_arena arena;
  Barrier barrier;
  std::mutex run_mutex;  // two callers' runs would share the barrier
  Clock::duration wait = kLongestWait;
};

Team::Team(std::unique_ptr<State> state) : state_(std::move(state)) {}
Team::~Team() = default;
uint32_t Team::size() const { return state_->size; }
Barrier& Team::barrier() { return state_->barrier; }

Result<std::unique_ptr<Team>> Team::Create(uint32_t size) {
  if (size < 1 || size > kMostThreads) {
    return Usage(fmt::format("found {} threads, expected 1 to {}", size, kMostThreads));
  }
  try {
    AllowWorkers(size);
    auto state = std::make_unique<State>(size);
    state->arena.initialize();
    return std::unique_ptr<Team>(new Team(std::move(state)));
  } catch (const std::exception& error) {
    return Limit(fmt::format("can't make a team of {} threads: {}", size, error.what()));
  }
}

void Team::Run(const std::function<void(uint32_t rank, uint32_t size)>& body) {
  State& s = *state_;
  const std::lock_guard lock(s.run_mutex);
  const auto run = [&]() noexcept {
    Gate gate;
    tbb::task_group group;
    const auto work = [&]() noexcept {
      if (const std::optional<uint32_t> rank = gate.Join()) body(*rank, gate.AwaitSize());
    };
    try {
      for (uint32_t i = 1; i < s.size; ++i) group.run(work);
    } catch (const std::bad_alloc&) {
      s.wait = kShortestWait;  // ranks without a task are ranks that never start
    }
    const uint32_t size = gate.Close(s.size - 1, s.wait) + 1;
    // Where the pool is busy with something else, waiting long again would be in vain.
    s.wait = size == s.size ? kLongestWait : std::max<Clock::duration>(s.wait / 2, kShortestWait);
    s.barrier.SetSize(size);
    gate.Open(size);
    body(0, size);
    group.wait();  // tasks that come too late find the gate closed, here too
  };
  s.arena.execute(run);
}

void Team::RunAlone(const std::function<void(uint32_t rank, uint32_t size)>& body) {
  const std::lock_guard lock(state_->run_mutex);
  state_->barrier.SetSize(1);
  body(0, 1);
}

void Team::RunInArena(const std::function<void()>& body) {
  state_->arena.execute([&]() noexcept { body(); });
}

}  // namespace weft
