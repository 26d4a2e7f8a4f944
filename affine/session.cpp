#include "affine/session.h"

#include <fmt/format.h>
#include <isl/ctx.h>
#include <isl/options.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace weft::affine {

using Clock = std::chrono::steady_clock;

class Session::Watchdog {
 public:
  Watchdog(isl_ctx* ctx, int32_t milliseconds)
      : thread_([this, ctx, milliseconds] {
          std::unique_lock lock(mutex_);
          const auto deadline = started_ + std::chrono::milliseconds(milliseconds);
          if (!wake_.wait_until(lock, deadline, [this] { return over_; })) {
            fired_ = true;
            isl_ctx_abort(ctx);
          }
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  bool fired() const { return fired_; }
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - started_).count();
  }

 private:
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::atomic<bool> fired_ = false;
  std::thread thread_;  // last: it uses all of the above
};

Session::Session(int64_t operations, int32_t milliseconds)
    : ctx_(isl_ctx_alloc()), operations_(operations), milliseconds_(milliseconds) {
  isl_options_set_on_error(ctx_, ISL_ON_ERROR_CONTINUE);
  isl_ctx_set_max_operations(ctx_, static_cast<unsigned long>(operations));
  watchdog_ = std::make_unique<Watchdog>(ctx_, milliseconds);
}

// After an error isl may still hold references, and then declines to free the context: a leak of a
// few kilobytes, bounded by the number of refusals.
Session::~Session() {
  watchdog_.reset();
  isl_ctx_free(ctx_);
}

std::optional<Refusal> Session::failure() const {
  if (watchdog_->fired()) {
    return Refusal{Reason::kIslTimeout, fmt::format("stopped after {} ms", milliseconds_)};
  }
  switch (isl_ctx_last_error(ctx_)) {
    case isl_error_none:
      return std::nullopt;
    case isl_error_quota:
      return Refusal{Reason::kIslQuota, fmt::format("{} operations", operations_)};
    default:
      break;
  }
  const char* message = isl_ctx_last_error_msg(ctx_);
  return Refusal{Reason::kIslError, message ? message : "unknown error"};
}

double Session::elapsed_ms() const { return watchdog_->elapsed_ms(); }

}  // namespace weft::affine
