// Plans that are built while others run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace weft::driver {

// Builds one plan at a time on a thread of its own, the one that was asked for last before those
// that wait.
class BackgroundBuilds {
 public:
  // Returns soon, whatever, once `is_abandoned` gives true.
  using Build = std::function<Result<plan::Plan>(const std::function<bool()>& is_abandoned)>;

  // A plan on its way. Whoever lets go of `wanted` before it is there abandons it.
  struct Promised {
    std::shared_future<Result<plan::Plan>> plan;  // not valid if no thread could be started
    std::shared_ptr<const void> wanted;
  };

  BackgroundBuilds() = default;
  BackgroundBuilds(const BackgroundBuilds&) = delete;
  BackgroundBuilds& operator=(const BackgroundBuilds&) = delete;
  ~BackgroundBuilds();  // abandons all

  Promised Add(Build build);

 private:
  struct Job {
    Build build;
    std::promise<Result<plan::Plan>> promise;
    std::atomic<bool> is_abandoned = false;
  };
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Job>> waiting_;  // the last one is next
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace weft::driver
