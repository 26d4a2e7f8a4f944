#include "driver/background.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace weft::driver {

BackgroundBuilds::~BackgroundBuilds() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    waiting_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

BackgroundBuilds::Promised BackgroundBuilds::Add(Build build) {
  auto job = std::make_shared<Job>();
  job->build = std::move(build);
  Promised promised;
  const std::lock_guard lock(mutex_);
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& error) {  // what runs now goes on without
    WEFT_LOG(kWarning, "driver", "no thread to build plans on: {}", error.what());
    return promised;
  }
  promised.plan = job->promise.get_future().share();
  promised.wanted = {static_cast<const void*>(job.get()),
                     [job](const void*) { job->is_abandoned = true; }};
  std::erase_if(waiting_, [](const auto& waiting) { return waiting->is_abandoned.load(); });
  waiting_.push_back(std::move(job));
  changed_.notify_one();
  return promised;
}

void BackgroundBuilds::Work() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      job = std::move(waiting_.back());
      waiting_.pop_back();
    }
    const auto is_abandoned = [&] { return ends_ || job->is_abandoned; };
    Result<plan::Plan> plan = Status(Code::kInterrupted, "nobody wants the plan any more");
    try {
      if (!is_abandoned()) plan = job->build(is_abandoned);
    } catch (const std::bad_alloc&) {
      plan = Limit("no memory");
    }
    job->build = nullptr;
    job->promise.set_value(std::move(plan));
  }
}

}  // namespace weft::driver
