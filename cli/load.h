// Many runs at once: latency and throughput under load.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "cli/subject.h"

namespace weft::cli {

struct LoadOptions {
  double seconds = 3;  // at most
  int64_t runs = 0;    // exactly so many, of all workers together; 0: until time is up
  int64_t warmup = 3;  // by each worker, before the window
  double rate = 0;     // arrivals a second, evenly spaced, whether or not anyone is free; 0: each
                       // worker begins its next run at once. What has not begun when time is up
                       // is not counted.
};

struct Load {
  std::vector<double> latency_us;  // from arrival, in the order in which runs began
  double seconds = 0;              // the window: from the first arrival to the last end
};

// Each worker runs on a thread of its own; the first error ends them all.
Result<Load> RunUnderLoad(std::span<const std::unique_ptr<executor::BoundRun>> workers,
                          const LoadOptions& options);

}  // namespace weft::cli
