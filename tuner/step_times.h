// How long each step of several plans takes, in whole runs that take turns.
//
// In whole runs, because a step alone finds its operands in the cache and its neighbours' data
// gone; in turns, because machines drift (see measure.h).
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "executor/executor.h"

namespace weft::tuner {

struct Contestant {
  executor::Executor* executor = nullptr;  // specialization 0 is run
  std::vector<Tensor> outputs;             // of the last run
};

struct StepTimeOptions {
  double seconds = 10;  // at most, but each contestant runs at least once
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // as in MeasureOptions
};

// Microseconds: [contestant][step][round]. The first run of each is not counted, if there is time.
Result<std::vector<std::vector<std::vector<double>>>> TimeSteps(std::span<Contestant> contestants,
                                                                std::span<const Tensor> inputs,
                                                                const StepTimeOptions& options);

// As one run each in turns, not step by step: [contestant][round].
Result<std::vector<std::vector<double>>> TimeRuns(std::span<Contestant> contestants,
                                                  std::span<const Tensor> inputs,
                                                  const StepTimeOptions& options);

}  // namespace weft::tuner
