// How long each step of several plans takes, in whole runs that take turns.
//
// In whole runs, because a step alone finds its operands in the cache and its neighbours' data
// gone; in turns, because machines drift (see measure.h).
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/status.h"
#include "executor/bound_run.h"

namespace weft::tuner {

struct TurnOptions {
  double seconds = 10;  // at most, but each runs at least once
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // as in MeasureOptions
};

// Microseconds: [run][step][round]. The first round is not counted, if there is time for another.
Result<std::vector<std::vector<std::vector<double>>>> TimeSteps(
    std::span<executor::BoundRun* const> runs, const TurnOptions& options);

// As a whole, not step by step: [run][round]. Those that may be the fastest go on, without the
// others between them, until their medians are known to a hundredth or half a second has passed;
// but only if that is more rounds than all have had.
Result<std::vector<std::vector<double>>> TimeRuns(std::span<executor::BoundRun* const> runs,
                                                  const TurnOptions& options);

}  // namespace weft::tuner
