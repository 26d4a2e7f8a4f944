// Timing that can be trusted: warm-up, arms interleaved in random order, medians with intervals.
//
// Machines drift: frequency, neighbours, page faults. So arms that are to be compared take turns in
// one run, in a fresh random order each round, and a difference only counts outside the noise that
// an arm shows against itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace weft::tuner {

struct Summary {
  double min = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, mean = 0;
  double low = 0, high = 0;  // 95 % interval of the median
  int64_t samples = 0;
};

// The interval is from order statistics (binomial), which needs no resampling and no normality.
// `samples` is sorted in place; empty gives zeros.
Summary Summarize(std::vector<double>& samples_us);

// Between the two nearest samples, which are sorted and not empty; 0 <= q <= 1.
double Quantile(const std::vector<double>& sorted, double q);

struct Arm {
  std::string name;
  std::function<Result<double>()> run;  // one turn; its microseconds
};
// A turn is one run. With `warm`, runs of 0.1 ms go before it and are not counted, one at least,
// and two if they are short: no arm pays for what the arm before left in the caches, or for waking
// its threads, which a short run leaves to the next one (docs/decisions/0014).
Arm TimedArm(std::string name, std::function<Status()> run, bool warm = false);
Arm Warmed(Arm arm);  // the same, for an arm that times itself

struct MeasureOptions {
  double seconds = 3;  // at most, for all arms together
  int64_t runs = 0;    // exactly so many rounds; 0: until every interval is under 1 % or time is up
  int64_t warmup = 3;  // rounds that are not counted
  uint64_t seed = 0;
  const std::atomic<bool>* stop =
      nullptr;  // true: ends after the round that is going on; may be null
};

// Samples in microseconds, one list per arm, in the order of rounds.
Result<std::vector<std::vector<double>>> Interleave(std::span<const Arm> arms,
                                                    const MeasureOptions& options);

// Ratio of medians a/b with a 95 % interval by a seeded bootstrap over rounds.
struct Ratio {
  double low = 0, mid = 0, high = 0;
};
Ratio CompareMedians(std::span<const double> a, std::span<const double> b, uint64_t seed);

}  // namespace weft::tuner
