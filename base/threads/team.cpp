#include "base/threads/team.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/info.h>

#include <mutex>

#include "base/threads/crew.h"

namespace weft {
namespace {

constexpr uint32_t kMostThreads = 4096;

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
    const BorrowedCrew made(size);  // what can't be had is known now
    return std::unique_ptr<Team>(new Team(std::make_unique<State>(size)));
  } catch (const std::exception& error) {
    return Limit(fmt::format("can't make a team of {} threads: {}", size, error.what()));
  }
}

void Team::Run(const Body& body, double alone_us) {
  const std::lock_guard lock(state_->run_mutex);
  BorrowedCrew(state_->size)->Run(body, state_->barrier, alone_us);
}

void Team::RunInArena(const std::function<void()>& body) {
  BorrowedCrew(state_->size)->InArena(body);
}

}  // namespace weft
