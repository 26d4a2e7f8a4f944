#include "cli/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration Seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

struct Run {
  int64_t number = 0;  // in the order of arrival
  Clock::time_point arrival, end;
};

class Crowd {
 public:
  explicit Crowd(const LoadOptions& options) : options_(options) {}

  Result<Load> Work(std::span<const std::unique_ptr<executor::BoundRun>> workers) {
    std::vector<std::vector<Run>> done(workers.size());
    std::vector<Status> ends(workers.size());
    begin_ = Clock::now();
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < workers.size(); ++i)
      threads.emplace_back([this, &worker = *workers[i], &mine = done[i], &end = ends[i]] {
        end = WorkAlone(worker, mine);
        if (!end.ok()) failed_ = true;
      });
    threads.clear();  // joins
    std::vector<Run> all;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (!ends[i].ok()) return std::move(ends[i]);
      all.insert(all.end(), done[i].begin(), done[i].end());
    }
    std::ranges::sort(all, {}, &Run::number);
    Load load;
    Clock::time_point last = begin_;
    for (const Run& run : all) {
      load.latency_us.push_back(
          std::chrono::duration<double, std::micro>(run.end - run.arrival).count());
      last = std::max(last, run.end);
    }
    load.seconds = std::chrono::duration<double>(last - begin_).count();
    return load;
  }

 private:
  bool IsOver(int64_t number, Clock::time_point now) const {
    if (options_.runs > 0) return number >= options_.runs;
    return number > 0 && now > begin_ + Seconds(options_.seconds);
  }

  // Takes the next run until there is none.
  Status WorkAlone(executor::BoundRun& worker, std::vector<Run>& done) {
    while (!failed_) {
      Run run{.number = next_++, .arrival = Clock::now()};
      if (options_.rate > 0) {
        run.arrival = begin_ + Seconds(static_cast<double>(run.number) / options_.rate);
        if (IsOver(run.number, run.arrival)) break;
        std::this_thread::sleep_until(run.arrival);
      }
      if (IsOver(run.number, Clock::now())) break;
      WEFT_TRY(worker());
      run.end = Clock::now();
      done.push_back(run);
    }
    return {};
  }

  const LoadOptions& options_;
  Clock::time_point begin_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace

Result<Load> RunUnderLoad(std::span<const std::unique_ptr<executor::BoundRun>> workers,
                          const LoadOptions& options) {
  for (const auto& worker : workers)
    for (int64_t i = 0; i < options.warmup; ++i) WEFT_TRY((*worker)());
  return Crowd(options).Work(workers);
}

}  // namespace weft::cli
