#include "tuner/step_times.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tuner/measure.h"

namespace weft::tuner {
namespace {

using Clock = std::chrono::steady_clock;

// Enough for a median that can be trusted, as far as there is time. One round, which is the
// warm-up, tells how long they take.
Result<int64_t> AffordableRounds(std::span<const Arm> arms, const TurnOptions& options) {
  constexpr double kRounds = 20, kSeconds = 0.3;  // whichever is more
  const auto begin = Clock::now();
  WEFT_TRY(Interleave(arms, {.runs = 1, .warmup = 0, .seed = options.seed}));
  const double round_s =
      std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-5);
  const double affordable = std::max((options.seconds - round_s) / round_s, 0.0);
  return static_cast<int64_t>(std::min(affordable, std::max(kRounds, kSeconds / round_s)));
}

MeasureOptions Rounds(int64_t rounds, const TurnOptions& options) {
  return {.runs = rounds, .warmup = 0, .seed = options.seed, .stop = options.stop};
}

// The places of those that may be the fastest, as far as their intervals tell.
std::vector<size_t> FindRivals(std::span<const std::vector<double>> samples) {
  std::vector<Summary> summaries;
  for (std::vector<double> of_arm : samples) summaries.push_back(Summarize(of_arm));
  const double limit = std::ranges::min_element(summaries, {}, &Summary::p50)->high;
  std::vector<size_t> rivals;
  for (size_t k = 0; k < summaries.size(); ++k)
    if (summaries[k].low <= limit) rivals.push_back(k);
  return rivals;
}

}  // namespace

Result<std::vector<std::vector<std::vector<double>>>> TimeSteps(
    std::span<executor::BoundRun* const> runs, const TurnOptions& options) {
  std::vector<std::vector<std::vector<double>>> samples(runs.size());
  std::vector<Arm> arms;
  for (size_t k = 0; k < runs.size(); ++k) {
    samples[k].resize(runs[k]->spec().steps.size());
    arms.push_back({"", [&run = *runs[k], &mine = samples[k]]() -> Result<double> {
                      std::vector<executor::StepTime> times;
                      WEFT_TRY(run(&times));
                      double sum = 0;
                      for (size_t s = 0; s < times.size(); ++s) {
                        mine[s].push_back(times[s].us);
                        sum += times[s].us;
                      }
                      return sum;
                    }});
  }
  WEFT_TRY(const int64_t rounds, AffordableRounds(arms, options));
  if (rounds < 1 || (options.stop && *options.stop)) return samples;
  for (auto& run : samples)
    for (auto& step : run) step.clear();
  WEFT_TRY(Interleave(arms, Rounds(rounds, options)));
  return samples;
}

Result<std::vector<std::vector<double>>> TimeRuns(std::span<executor::BoundRun* const> runs,
                                                  const TurnOptions& options) {
  constexpr double kRaceSeconds = 0.5;
  const auto begin = Clock::now();
  std::vector<Arm> arms;
  for (executor::BoundRun* run : runs) arms.push_back(Warmed({"", [run] { return run->Timed(); }}));
  WEFT_TRY(const int64_t rounds, AffordableRounds(arms, options));
  WEFT_TRY(auto samples, Interleave(arms, Rounds(std::max<int64_t>(rounds, 1), options)));
  const std::vector<size_t> rivals = FindRivals(samples);
  std::vector<Arm> race;
  double race_us = 0;  // of as many rounds; each runs once before it counts
  for (const size_t k : rivals) {
    race.push_back(arms[k]);
    race_us += 2 * std::accumulate(samples[k].begin(), samples[k].end(), 0.0);
  }
  const double left = options.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
  const double seconds = std::min(left, kRaceSeconds);
  if (rivals.size() < 2 || seconds * 1e6 <= race_us || (options.stop && *options.stop))
    return samples;
  WEFT_TRY(
      auto times,
      Interleave(
          race, {.seconds = seconds, .warmup = 0, .seed = options.seed + 1, .stop = options.stop}));
  for (size_t i = 0; i < rivals.size(); ++i) samples[rivals[i]] = std::move(times[i]);
  return samples;
}

}  // namespace weft::tuner
