// Which of the schedules that can be thought of runs a comprehension fastest here, by measuring.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/comprehension.h"

namespace weft::driver {

struct TunedGroup {
  std::string name;
  std::string choice;                // its line, to be forced another time
  int64_t trials = 0;                // schedules that were run
  double best_us = 0, start_us = 0;  // medians of the group's step; before: that of the estimate
};

// Runs the analytic proposals for each kernel of the def, interleaved, on these inputs (plain
// memory, in order) for about `budget_s` seconds in all, and makes the def use the fastest for
// these sizes from now on. One that gives other results than the first, beyond the rounding of
// another order of sums, is left out. kUnsupported for an engine that is not timed.
Result<std::vector<TunedGroup>> TuneComprehension(Comprehension& def,
                                                  std::span<const int64_t> sizes,
                                                  std::span<const void* const> inputs,
                                                  double budget_s);

}  // namespace weft::driver
