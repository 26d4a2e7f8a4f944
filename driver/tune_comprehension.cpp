#include "driver/tune_comprehension.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/log.h"
#include "driver/accuracy.h"
#include "driver/pipeline.h"
#include "driver/program.h"
#include "driver/stages.h"
#include "executor/bound_run.h"
#include "tuner/measure.h"

namespace weft::driver {
namespace {

constexpr int kMostProposals = 6;    // a group
constexpr double kAgreement = 1e-3;  // of an output's scale, between schedules of one program
constexpr double kNoise = 0.98;      // the estimate stays unless another is faster by more

using Choices = std::map<std::string, polyhedral::Choice>;

// One schedule of a group, the others as they are.
struct Trial {
  polyhedral::Choice choice;
  std::shared_ptr<Specialized> specialized;
  std::unique_ptr<executor::BoundRun> run;
};

class Tuner {
 public:
  Tuner(const Comprehension& def, const tc::Program& program, std::vector<Tensor> inputs)
      : def_(def), program_(program), inputs_(std::move(inputs)) {}

  Result<std::vector<TunedGroup>> Run(double budget_s) {
    WEFT_TRY(Module module, OpenProgram(program_, def_.options().target));
    BuildOptions build = BuildOptionsOf(def_.options());
    build.forced_choices.clear();
    WEFT_TRY(Advance(module, Form::kChoices, build));
    choices_ = module.choices;
    const auto groups = static_cast<double>(std::max<size_t>(module.grouping.groups.size(), 1));
    const partition::GraphFacts facts(module.graph);
    std::vector<TunedGroup> tuned;
    for (size_t g = 0; g < module.grouping.groups.size(); ++g) {
      GroupProgram p;
      WEFT_TRY(FillGroupProgram(module, facts, module.grouping.groups[g], build, p));
      WEFT_TRY(TunedGroup one,
               TuneGroup(module.grouping.groups[g].name, g, p.request, budget_s / groups));
      tuned.push_back(std::move(one));
    }
    return tuned;
  }

  Choices& choices() { return choices_; }

 private:
  Result<Trial> Try(const std::string& group, const polyhedral::Choice& choice) const {
    Trial trial{.choice = choice};
    ComprehensionOptions options = def_.options();
    options.choices = choices_;
    options.choices[group] = choice;
    options.dump_dir.clear();
    WEFT_TRY(trial.specialized, Specialized::Make(program_, "", options));
    WEFT_TRY(trial.run, executor::BoundRun::Open(*trial.specialized->executor(), 0, inputs_));
    WEFT_TRY((*trial.run)());
    return trial;
  }

  // The choice on record first; then proposals that do, differ from it and agree with it.
  Result<std::vector<Trial>> Trials(const std::string& group,
                                    const polyhedral::ScheduleRequest& request) const {
    std::vector<Trial> trials;
    WEFT_TRY(Trial first, Try(group, choices_.at(group)));
    trials.push_back(std::move(first));
    const auto proposals = polyhedral::Propose(request, kMostProposals);
    if (!proposals.yes()) return trials;
    for (const polyhedral::Choice& choice : *proposals) {
      const std::string text = polyhedral::Print(choice);
      if (std::ranges::any_of(trials,
                              [&](const Trial& t) { return polyhedral::Print(t.choice) == text; }))
        continue;
      auto trial = Try(group, choice);
      if (!trial.ok()) {
        WEFT_LOG(kInfo, "driver", "not tried: {}: {}", text, trial.status().ToString());
        continue;
      }
      WEFT_TRY(const auto outputs, trial->run->Outputs());
      WEFT_TRY(const auto first, trials[0].run->Outputs());
      if (CompareOutputs(outputs, first, kAgreement).within)
        trials.push_back(*std::move(trial));
      else
        WEFT_LOG(kWarning, "driver", "gives other results and is left out: {}", text);
    }
    return trials;
  }

  Result<TunedGroup> TuneGroup(const std::string& group, size_t step,
                               const polyhedral::ScheduleRequest& request, double budget_s) {
    WEFT_TRY(std::vector<Trial> trials, Trials(group, request));
    std::vector<tuner::Arm> arms;
    for (Trial& trial : trials)
      arms.push_back({polyhedral::Print(trial.choice), [&trial, step]() -> Result<double> {
                        std::vector<executor::StepTime> times;
                        WEFT_TRY((*trial.run)(&times));
                        return times.at(step).us;
                      }});
    WEFT_TRY(auto samples, tuner::Interleave(arms, {.seconds = budget_s}));
    std::vector<double> medians;
    for (std::vector<double>& s : samples) medians.push_back(tuner::Summarize(s).p50);
    size_t best = std::ranges::min_element(medians) - medians.begin();
    if (medians[best] > kNoise * medians[0]) best = 0;
    choices_[group] = trials[best].choice;
    return TunedGroup{.name = group,
                      .choice = polyhedral::Print(trials[best].choice),
                      .trials = std::ssize(trials),
                      .best_us = medians[best],
                      .start_us = medians[0]};
  }

  const Comprehension& def_;
  const tc::Program& program_;
  std::vector<Tensor> inputs_;
  Choices choices_;
};

}  // namespace

Result<std::vector<TunedGroup>> TuneComprehension(Comprehension& def,
                                                  std::span<const int64_t> sizes,
                                                  std::span<const void* const> inputs,
                                                  double budget_s) {
  if (def.options().engine != Engine::kKernels || def.options().target.kind != TargetKind::kCpu)
    return Unsupported("only kernels for a CPU are timed").Try("the target cpu");
  WEFT_TRY(const tc::Program program, def.Bind(sizes));
  std::vector<Tensor> tensors;
  for (const tc::TensorId t : tc::Inputs(program))
    tensors.push_back(Tensor::Borrow(program[t].dtype, *tc::StaticExtents(program[t]), nullptr,
                                     inputs[tensors.size()]));
  Tuner tuner(def, program, std::move(tensors));
  WEFT_TRY(std::vector<TunedGroup> tuned, tuner.Run(budget_s));
  WEFT_TRY(def.Force(sizes, std::move(tuner.choices())));
  return tuned;
}

}  // namespace weft::driver
