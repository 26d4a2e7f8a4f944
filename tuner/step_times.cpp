#include "tuner/step_times.h"

#include <algorithm>
#include <chrono>

#include "tuner/measure.h"

namespace weft::tuner {
namespace {

using Clock = std::chrono::steady_clock;

// A contestant with its memory bound once.
class Bound {
 public:
  static Result<Bound> Make(Contestant& contestant, std::span<const Tensor> inputs) {
    Bound bound;
    bound.executor_ = contestant.executor;
    for (const Tensor& t : inputs) bound.in_.push_back(t.data());
    const plan::Specialization& spec = contestant.executor->plan().specializations[0];
    contestant.outputs.clear();
    for (plan::BufferId id : spec.outputs) {
      const plan::Buffer& buffer = spec.buffers[static_cast<size_t>(id.index)];
      WEFT_TRY(Tensor output, Tensor::Allocate(buffer.dtype, buffer.shape));
      contestant.outputs.push_back(std::move(output));
    }
    for (Tensor& t : contestant.outputs) bound.out_.push_back(t.mutable_data());
    return bound;
  }
  Status Run(std::vector<executor::StepTime>* times = nullptr) {
    return executor_->Run(0, in_, out_, nullptr, times);
  }

 private:
  executor::Executor* executor_ = nullptr;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

Result<std::vector<Bound>> BindAll(std::span<Contestant> contestants,
                                   std::span<const Tensor> inputs) {
  std::vector<Bound> bound;
  for (Contestant& c : contestants) {
    WEFT_TRY(Bound b, Bound::Make(c, inputs));
    bound.push_back(std::move(b));
  }
  return bound;
}

// Enough for a median that can be trusted, as far as there is time. One round, which is the
// warm-up, tells how long they take.
Result<int64_t> AffordableRounds(std::span<const Arm> arms, const StepTimeOptions& options) {
  constexpr double kRounds = 20, kSeconds = 0.3;  // whichever is more
  const auto begin = Clock::now();
  WEFT_TRY(Interleave(arms, {.runs = 1, .warmup = 0, .seed = options.seed}));
  const double round_s =
      std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-5);
  const double affordable = std::max((options.seconds - round_s) / round_s, 0.0);
  return static_cast<int64_t>(std::min(affordable, std::max(kRounds, kSeconds / round_s)));
}

}  // namespace

Result<std::vector<std::vector<std::vector<double>>>> TimeSteps(std::span<Contestant> contestants,
                                                                std::span<const Tensor> inputs,
                                                                const StepTimeOptions& options) {
  WEFT_TRY(std::vector<Bound> bound, BindAll(contestants, inputs));
  std::vector<std::vector<std::vector<double>>> samples;
  std::vector<Arm> arms;
  for (size_t k = 0; k < contestants.size(); ++k) {
    samples.emplace_back(contestants[k].executor->plan().specializations[0].steps.size());
    arms.push_back({"", [&samples, &bound, k]() -> Result<double> {
                      std::vector<executor::StepTime> times;
                      WEFT_TRY(bound[k].Run(&times));
                      double sum = 0;
                      for (size_t s = 0; s < times.size(); ++s) {
                        samples[k][s].push_back(times[s].us);
                        sum += times[s].us;
                      }
                      return sum;
                    }});
  }
  WEFT_TRY(const int64_t rounds, AffordableRounds(arms, options));
  if (rounds < 1 || (options.stop && *options.stop)) return samples;
  for (auto& plan : samples)
    for (auto& step : plan) step.clear();
  WEFT_TRY(
      Interleave(arms, {.runs = rounds, .warmup = 0, .seed = options.seed, .stop = options.stop}));
  return samples;
}

Result<std::vector<std::vector<double>>> TimeRuns(std::span<Contestant> contestants,
                                                  std::span<const Tensor> inputs,
                                                  const StepTimeOptions& options) {
  WEFT_TRY(std::vector<Bound> bound, BindAll(contestants, inputs));
  std::vector<Arm> arms;
  for (Bound& b : bound) arms.push_back(TimedArm("", [&b] { return b.Run(); }, /*warm=*/true));
  WEFT_TRY(const int64_t rounds, AffordableRounds(arms, options));
  return Interleave(arms, {.runs = std::max<int64_t>(rounds, 1),
                           .warmup = 0,
                           .seed = options.seed,
                           .stop = options.stop});
}

}  // namespace weft::tuner
