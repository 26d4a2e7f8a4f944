#include "base/threads/team.h"

#include <fmt/format.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <vector>

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
constexpr auto kLinger = std::chrono::microseconds(50);  // of workers, for the next run
// What a run must take the caller alone for two threads to be faster, if the second is there, and
// if it has to be woken.
constexpr double kWorthReadyUs = 2, kWorthWakingUs = 80;

// Keeps the threads of an arena apart. The kernel tends to wake a thread on the processor of
// whoever wakes it, busy as that is, and to move it milliseconds later: until then two ranks would
// take turns on one processor while another idles.
class Places : tbb::task_scheduler_observer {
 public:
  explicit Places(tbb::task_arena& arena)
      : tbb::task_scheduler_observer(arena), cpus_(static_cast<size_t>(arena.max_concurrency())) {
    for (std::atomic<int>& cpu : cpus_) cpu = -1;
    observe(true);
  }

  // A thread that finds itself where one of a lower slot is moves, and stays away from there. It
  // takes some 40 us, but a sleeper that stays away is not woken there again.
  void Take(size_t slot) {
    thread_local const std::optional<cpu_set_t> allowed = Allowed();
    int cpu = ::sched_getcpu();
    const auto taken = std::span(cpus_).first(slot);
    const auto is_here = [cpu](const std::atomic<int>& other) { return other == cpu; };
    if (allowed && std::ranges::any_of(taken, is_here)) {
      cpu_set_t free = *allowed;
      for (const int other : taken)
        if (other >= 0) CPU_CLR(static_cast<size_t>(other), &free);
      if (CPU_COUNT(&free) > 0 && ::sched_setaffinity(0, sizeof free, &free) == 0)
        cpu = ::sched_getcpu();
    }
    cpus_[slot].store(cpu, std::memory_order_relaxed);
  }

 private:
  // Where this thread may run, as whoever made it wanted.
  static std::optional<cpu_set_t> Allowed() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return set;
    return std::nullopt;
  }

  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) Take(static_cast<size_t>(tbb::this_task_arena::current_thread_index()));
  }

  std::vector<std::atomic<int>> cpus_;  // by slot of the arena, where its thread was seen last
};

// An arena of TBB and the workers that are in it, used by one run at a time.
class Crew {
 public:
  explicit Crew(uint32_t size)
      : size_(size), arena_(static_cast<int>(size), 1), places_(Initialized(arena_)) {}

  uint32_t size() const { return size_; }

  void Run(const Team::Body& body, Barrier& barrier, double alone_us);

  // Workers leave, so that TBB has them for something else.
  void Dismiss() { is_dismissed_.store(true, std::memory_order_relaxed); }

  void InArena(const std::function<void()>& body) {
    Dismiss();
    places_.Take(0);
    arena_.execute([&]() noexcept { body(); });
    ended_ = Clock::now();
  }

 private:
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
  static tbb::task_arena& Initialized(tbb::task_arena& arena) {
    arena.initialize();
    return arena;
  }

  // What workers wait for between runs; on another line than what is written in a run.
  alignas(kLineBytes) std::atomic<uint64_t> gate_ = kClosed;  // round | closed | joined
  std::atomic<bool> is_dismissed_ = false;
  const uint32_t size_;
  tbb::task_arena arena_;
  Places places_;
  // By the caller only, but for the body.
  uint64_t round_ = 0;
  const Team::Body* body_ = nullptr;  // of the round
  Clock::duration wait_ = kLongestWait;
  Clock::time_point ended_;            // of the last run
  bool is_soon_ = true;                // the next run is likely to come while workers stay
  bool has_called_ = false;            // workers, for the next run
  std::atomic<uint64_t> opened_ = 0;   // round | size
  std::atomic<uint32_t> working_ = 0;  // joined, and not through yet
  std::atomic<uint32_t> called_ = 0;   // workers that are here or on their way
  std::atomic<uint32_t> here_ = 0;
};

// A single short run is left to the caller, who calls the workers meanwhile for the one after it.
// If that does not come while they stay, none is called again until runs follow each other.
bool Crew::IsWorthTheOthers(double alone_us) {
  if (size_ == 1) return false;
  const bool follows = Clock::now() - ended_ < kLinger;
  if (follows || has_called_) is_soon_ = follows;
  has_called_ = false;
  if (AreAll(here_, size_)) return alone_us > kWorthReadyUs;
  if (alone_us > kWorthWakingUs) return true;
  if (alone_us > kWorthReadyUs && is_soon_) {
    has_called_ = true;
    Summon();
  }
  return false;
}

void Crew::Run(const Team::Body& body, Barrier& barrier, double alone_us) {
  if (is_dismissed_.load(std::memory_order_relaxed)) is_dismissed_ = false;
  uint32_t size = 1;
  if (IsWorthTheOthers(alone_us)) {
    places_.Take(0);
    body_ = &body;
    gate_.store(++round_ * kOneRound, std::memory_order_release);
    size = Close(alone_us) + 1;
    working_.store(size - 1, std::memory_order_relaxed);
  }
  barrier.SetSize(size);
  if (size > 1) opened_.store(round_ * kOneRound + size, std::memory_order_release);
  body(0, size);
  if (size > 1)
    for (Spinner spinner; working_.load(std::memory_order_acquire) != 0;) spinner.Once();
  ended_ = Clock::now();
}

// As many workers as a run needs are here or on their way, if there is memory for their tasks.
void Crew::Summon() {
  while (!AreAll(called_, size_)) {
    called_.fetch_add(1, std::memory_order_relaxed);
    try {
      arena_.enqueue([this]() noexcept { Work(); });
    } catch (const std::bad_alloc&) {
      called_.fetch_sub(1, std::memory_order_relaxed);
      wait_ = kShortestWait;
      return;
    }
  }
}

// Waits until all others joined, or the time is over; returns how many did. One that was about to
// leave when the gate opened is called again.
uint32_t Crew::Close(double alone_us) {
  const auto wait = std::chrono::duration<double, std::micro>(
      std::min(alone_us, std::chrono::duration<double, std::micro>(wait_).count()));
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
  for (Spinner spinner; CountOf(gate_.load(std::memory_order_relaxed)) + 1 < size_;
       spinner.Once()) {
    if (!AreAll(called_, size_)) Summon();
    if (spinner.is_yielding() && Clock::now() >= deadline) break;
  }
  const uint32_t joined = CountOf(gate_.fetch_or(kClosed, std::memory_order_relaxed));
  // Where the pool is busy with something else, waiting long again would be in vain.
  wait_ = joined + 1 == size_ ? kLongestWait : std::max<Clock::duration>(wait_ / 2, kShortestWait);
  return joined;
}

// The rank of a worker that joined in time.
std::optional<uint32_t> Crew::Join(uint32_t round) {
  uint64_t word = gate_.load(std::memory_order_relaxed);
  while (RoundOf(word) == round && !(word & kClosed)) {
    if (gate_.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return CountOf(word) + 1;
  }
  return std::nullopt;
}

uint32_t Crew::AwaitSize(uint32_t round) const {
  uint64_t word = 0;
  for (Spinner spinner; RoundOf(word = opened_.load(std::memory_order_acquire)) != round;)
    spinner.Once();
  return CountOf(word);
}

void Crew::Work() {
  here_.fetch_add(1, std::memory_order_relaxed);
  const auto slot = static_cast<size_t>(tbb::this_task_arena::current_thread_index());
  uint32_t seen = 0;  // the round that this worker has taken part in, or came too late for
  Spinner spinner;
  for (Clock::time_point until = Clock::now() + kLinger; Clock::now() < until; spinner.Once()) {
    const uint32_t round = RoundOf(gate_.load(std::memory_order_relaxed));
    if (round == seen) {
      if (is_dismissed_.load(std::memory_order_relaxed)) break;
      continue;
    }
    seen = round;
    if (const std::optional<uint32_t> rank = Join(round)) {
      places_.Take(slot);
      (*body_)(*rank, AwaitSize(round));
      working_.fetch_sub(1, std::memory_order_release);
      until = Clock::now() + kLinger;
      spinner = {};
    }
  }
  here_.fetch_sub(1, std::memory_order_relaxed);
  called_.fetch_sub(1, std::memory_order_relaxed);
}

// Crews that no run uses, those given back last at the end: their workers may still be there. As
// many are made as there ever were runs at once.
class Crews {
 public:
  Crew* Take(uint32_t size) {
    {
      const std::scoped_lock lock(mutex_);
      for (size_t i = idle_.size(); i > 0; --i) {
        Crew* const crew = idle_[i - 1];
        if (crew->size() != size) {
          crew->Dismiss();
          continue;
        }
        idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i - 1));
        return crew;
      }
    }
    return new Crew(size);  // workers may come to it as long as the process lives
  }

  void Give(Crew* crew) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(crew);
  }

 private:
  std::mutex mutex_;
  std::vector<Crew*> idle_;
};

Crews& IdleCrews() {
  static Crews* const crews = new Crews;
  return *crews;
}

// A crew for the time of a run.
class Borrowed {
 public:
  explicit Borrowed(uint32_t size) : crew_(IdleCrews().Take(size)) {}
  ~Borrowed() { IdleCrews().Give(crew_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Crew* operator->() const { return crew_; }

 private:
  Crew* crew_;
};

}  // namespace

struct Team::State {
  explicit State(uint32_t size) : size(size), barrier(size) {}

  uint32_t size;
  Barrier barrier;
  std::mutex run_mutex;  // two callers' runs would share the barrier
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
    const Borrowed made(size);  // what can't be had is known now
    return std::unique_ptr<Team>(new Team(std::make_unique<State>(size)));
  } catch (const std::exception& error) {
    return Limit(fmt::format("can't make a team of {} threads: {}", size, error.what()));
  }
}

void Team::Run(const Body& body, double alone_us) {
  const std::lock_guard lock(state_->run_mutex);
  Borrowed(state_->size)->Run(body, state_->barrier, alone_us);
}

void Team::RunInArena(const std::function<void()>& body) { Borrowed(state_->size)->InArena(body); }

}  // namespace weft
