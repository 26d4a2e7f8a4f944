// A bounded conversation with isl: one context, a quota of operations and a stop watch.
//
// isl's worst cases take hours, and its quota counts operations, not time, so both are bounded: a
// thread of the session aborts the context when time is up, which isl notices within a millisecond.
// After any failure the context is poor company: the session says why and is thrown away.
//
// isl reports by null objects; the wrappers of set.h keep null as a state, and who asks a question
// checks `failure()` before believing the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/verdict.h"

struct isl_ctx;

namespace weft::affine {

class Session {
 public:
  explicit Session(int64_t operations = 300'000, int32_t milliseconds = 150);
  ~Session();  // objects of the context must be gone
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  isl_ctx* ctx() const { return ctx_; }
  // kIslQuota, kIslTimeout or kIslError once something went wrong.
  std::optional<Refusal> failure() const;
  double elapsed_ms() const;

 private:
  class Watchdog;
  isl_ctx* ctx_ = nullptr;
  int64_t operations_ = 0;
  int32_t milliseconds_ = 0;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace weft::affine
