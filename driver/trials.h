// Trials of choices for one group, in a process of its own: a choice that a search came upon may
// make a kernel that crashes, hangs or takes all memory, and that is nothing but a bad choice.
//
// Requests and answers are text. "open PATH" names a module at Form::kGroups, as OneGroup makes it,
// its big constants in PATH.blobs; the answer is empty or says what is wrong. "time ROUNDS",
// a line break and choices is answered by a line for each: its outcome, then microseconds or why
// not.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/module.h"
#include "driver/options.h"
#include "tuner/search.h"
#include "tuner/worker.h"

namespace weft::driver {

// The worker's side: a program that answers requests on its standard input until it ends.
Status ServeTrials();

// The asking side, for one group. A worker that ended is started again.
class TrialMeasurer : public tuner::Measurer {
 public:
  // `worker` is a command that calls ServeTrials; `stop` may be null. The module is written to a
  // directory of its own until this ends.
  static Result<std::unique_ptr<TrialMeasurer>> Open(const Module& one_group,
                                                     std::vector<std::string> worker,
                                                     const std::atomic<bool>* stop);
  ~TrialMeasurer() override;

  Result<std::vector<tuner::Timing>> Measure(std::span<const polyhedral::Choice> choices,
                                             int64_t rounds) override;

 private:
  TrialMeasurer(std::vector<std::string> worker, const std::atomic<bool>* stop)
      : command_(std::move(worker)), stop_(stop) {}
  Result<std::string> Ask(const std::string& request);

  std::vector<std::string> command_;
  const std::atomic<bool>* stop_;
  std::string directory_;
  std::unique_ptr<tuner::Worker> worker_;
  double longest_s_ = 0;  // of the answers so far
};

}  // namespace weft::driver
