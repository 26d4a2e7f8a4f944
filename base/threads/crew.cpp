#include "base/threads/crew.h"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <span>

#include "base/threads/spinner.h"

namespace weft {
namespace {

constexpr auto kLongestWait = std::chrono::microseconds(1000);
constexpr auto kShortestWait = std::chrono::microseconds(50);
constexpr auto kLinger = std::chrono::microseconds(50);  // of workers, for the next run
// What a run must take the caller alone for two threads to be faster, if the second is there, and
// if it has to be woken.
constexpr double kWorthReadyUs = 2, kWorthWakingUs = 80;

// Where this thread may run, as whoever made it wanted.
std::optional<cpu_set_t> Allowed() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return set;
  return std::nullopt;
}

// Leaves these processors for others that this thread may run on; returns where it is then.
int MoveFrom(std::span<const std::atomic<int>> cpus, cpu_set_t allowed) {
  for (const int cpu : cpus)
    if (cpu >= 0) CPU_CLR(static_cast<size_t>(cpu), &allowed);
  if (CPU_COUNT(&allowed) > 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
  return ::sched_getcpu();
}

// A worker stays away for good.
int Avoid(std::span<const std::atomic<int>> cpus) {
  thread_local const std::optional<cpu_set_t> allowed = Allowed();
  return allowed ? MoveFrom(cpus, *allowed) : ::sched_getcpu();
}

// The caller's thread is not ours: it moves now, and may run afterwards wherever it might before.
int Dodge(std::span<const std::atomic<int>> cpus) {
  const std::optional<cpu_set_t> allowed = Allowed();
  if (!allowed) return ::sched_getcpu();
  const int cpu = MoveFrom(cpus, *allowed);
  ::sched_setaffinity(0, sizeof *allowed, &*allowed);
  return cpu;
}

tbb::task_arena& Initialized(tbb::task_arena& arena) {
  arena.initialize();
  return arena;
}

}  // namespace

Places::Places(tbb::task_arena& arena)
    : tbb::task_scheduler_observer(arena), cpus_(static_cast<size_t>(arena.max_concurrency())) {
  for (std::atomic<int>& cpu : cpus_) cpu = -1;
  observe(true);
}

void Places::Take(size_t slot) {
  const auto others = slot == 0 ? std::span(cpus_).subspan(1) : std::span(cpus_).first(slot);
  int cpu = ::sched_getcpu();
  const auto is_here = [cpu](const std::atomic<int>& other) { return other == cpu; };
  if (std::ranges::any_of(others, is_here)) cpu = slot == 0 ? Dodge(others) : Avoid(others);
  cpus_[slot].store(cpu, std::memory_order_relaxed);
}

void Places::on_scheduler_entry(bool is_worker) {
  if (is_worker) Take(static_cast<size_t>(tbb::this_task_arena::current_thread_index()));
}

Crew::Crew(uint32_t size)
    : size_(size),
      arena_(static_cast<int>(size), 1),
      places_(Initialized(arena_)),
      wait_(kLongestWait) {}

void Crew::InArena(const std::function<void()>& body) {
  Dismiss();
  places_.Take(0);
  arena_.execute([&]() noexcept { body(); });
  ended_ = Clock::now();
}

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

void Crew::Run(const Body& body, Barrier& barrier, double alone_us) {
  if (is_dismissed_.load(std::memory_order_relaxed)) is_dismissed_ = false;
  is_running_.store(true, std::memory_order_relaxed);
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
  is_running_.store(false, std::memory_order_relaxed);
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
    // Whoever comes too late for a run is there for the next.
    if (is_running_.load(std::memory_order_relaxed)) until = Clock::now() + kLinger;
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

namespace {

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

}  // namespace

BorrowedCrew::BorrowedCrew(uint32_t size) : crew_(IdleCrews().Take(size)) {}
BorrowedCrew::~BorrowedCrew() { IdleCrews().Give(crew_); }

}  // namespace weft
