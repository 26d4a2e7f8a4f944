// Search: which choice of a group's space is fastest, by measuring few of them.
//
// Analytic constructions first, then rounds of genetic moves around the best of what was measured
// (the tuning study, sections 0 and 1.5). Machines drift, so no candidate is timed by itself: each
// takes turns with the best so far, and counts by the ratio. One that is far behind after a few
// turns gets no more. In the end the best takes turns with the start, and is taken only if it is
// faster outside the noise.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "polyhedral/choice/choice.h"
#include "tuner/space.h"

namespace weft::tuner {

// kRefused: no schedule; kWrong: other results than those of the start, a defect of ours; kFailed:
// it crashed, hung or ran out of memory.
enum class Outcome : uint8_t { kTimed, kRefused, kWrong, kFailed };

struct Timing {
  Outcome outcome = Outcome::kTimed;
  std::string why;         // if it is not timed
  std::vector<double> us;  // by round
};

// Whoever can compile and run choices of one group.
class Measurer {
 public:
  virtual ~Measurer() = default;
  // Runs them in turns. The first is one that was timed before, or else the start. An error means
  // that nothing can be measured, and ends the search.
  virtual Result<std::vector<Timing>> Measure(std::span<const polyhedral::Choice> choices,
                                              int64_t rounds) = 0;
};

struct SearchOptions {
  int most_trials = 32;    // choices that are compiled, the start not counted
  int constructions = 20;  // of them, at most
  double seconds = 10;     // about: what is going on is finished
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // true: end with what there is; may be null
};

struct Trial {
  polyhedral::Choice choice;
  Outcome outcome = Outcome::kTimed;
  std::string why;
  double us = 0, low_us = 0, high_us = 0;  // by its ratio to the start, so that trials compare
  int64_t samples = 0;
};

enum class Stopped : uint8_t { kDone, kBudget, kInterrupted };

struct SearchResult {
  polyhedral::Choice best;  // the start, unless another is faster outside the noise
  double start_us = 0, best_us = 0;
  std::vector<Trial> trials;  // in the order in which they were made
  Stopped stopped = Stopped::kDone;
};

// Deterministic for a seed, as far as the measurer and the clock are.
Result<SearchResult> Search(const Space& space, const polyhedral::Choice& start, Measurer& measurer,
                            const SearchOptions& options);

}  // namespace weft::tuner
