#include "driver/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "base/log.h"
#include "driver/agreement.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/measure_groups.h"
#include "driver/one_group.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "driver/trials.h"
#include "executor/bound_run.h"
#include "graph/stages.h"
#include "polyhedral/alike.h"
#include "tuner/best.h"
#include "tuner/keys.h"
#include "tuner/measure.h"
#include "tuner/step_times.h"

namespace weft::driver {
namespace {

using partition::Group;
using partition::Implementation;
using polyhedral::Choice;
using tuner::Stopped;
using Force = partition::PartitionOptions::Force;

constexpr double kBuildShare = 0.25, kConfirmShare = 0.15;  // of the budget
constexpr double kLeastSliceSeconds = 0.5;  // a group that would get less is not searched
constexpr int kMostTrials = 400;            // of one group
constexpr size_t kLeastSamples = 5;         // of whole runs, for them to decide
constexpr double kGain = 1.01;              // in whole runs, the start's time by the best's

// A plan of the network that is there to be tuned.
struct Arm {
  std::string name;
  Module module;  // at Form::kCall
};

// A distinct group, by its first occurrence.
struct Subject {
  const Arm* arm = nullptr;
  const Group* group = nullptr;
  std::unique_ptr<GroupProgram> program;
  double weight_us = 0;  // of all occurrences
  std::optional<tuner::SearchResult> found;
  std::vector<double> start_us, best_us;  // in whole runs
};

class Tuning {
 public:
  Tuning(const Module& opened, const BuildOptions& options, const TuneOptions& how)
      : opened_(opened), options_(options), how_(how) {
    options_.dump_dir.clear();
  }

  Result<Tuned> Run() {
    WEFT_TRY(OpenArms());
    WEFT_TRY(FindSubjects());
    WEFT_TRY(SearchAll());
    WEFT_TRY(Confirm());
    return Report();
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  bool IsInterrupted() const { return options_.stop && *options_.stop; }

  Status OpenArms() {
    BuildOptions measured = options_;
    measured.budget_s = how_.budget_s * kBuildShare;
    WEFT_TRY(AddArm("chosen", measured));
    options_.budget_s = 0;
    if (options_.partition.vendor && options_.partition.force == Force::kNone) {
      BuildOptions forced = options_;
      forced.partition.force = Force::kOwn;
      WEFT_TRY(AddArm("own", forced));
      forced.partition.force = Force::kVendor;
      WEFT_TRY(vendor_, Opened(forced));
    }
    return {};
  }

  Result<Module> Opened(const BuildOptions& options) const {
    Module module = opened_;
    WEFT_TRY(Advance(module, Form::kCall, options));
    return module;
  }

  Status AddArm(std::string name, const BuildOptions& options) {
    WEFT_TRY(Module module, Opened(options));
    arms_.push_back(std::make_unique<Arm>(Arm{std::move(name), std::move(module)}));
    return {};
  }

  // Of groups that are alike one is searched; an occurrence in both arms counts in the first.
  Status FindSubjects() {
    for (const auto& arm : arms_) {
      const partition::GraphFacts facts(arm->module.graph);
      std::set<std::string> before;
      for (const auto& [key, subject] : subjects_) before.insert(key);
      for (const Group& group : arm->module.grouping.groups) {
        if (group.implementation != Implementation::kOwn) continue;
        auto program = std::make_unique<GroupProgram>();
        WEFT_TRY(FillGroupProgram(arm->module, facts, group, options_, *program));
        const std::string key = polyhedral::KeyOf(program->request);
        keys_[{arm.get(), group.name}] = key;
        if (before.contains(key)) continue;
        Subject& subject = subjects_[key];
        subject.weight_us += group.us;
        if (subject.group) continue;
        subject.arm = arm.get();
        subject.group = &group;
        subject.program = std::move(program);
      }
    }
    for (auto& [key, subject] : subjects_) order_.push_back(&subject);
    std::ranges::stable_sort(order_, std::greater(), &Subject::weight_us);
    return {};
  }

  // What is left is shared by weight, so time that a group does not need goes to those after it.
  Status SearchAll() {
    const double end_s = how_.budget_s * (1 - kConfirmShare);
    double weight = 0;
    for (const Subject* subject : order_) weight += subject->weight_us;
    for (Subject* subject : order_) {
      if (IsInterrupted()) stopped_ = Stopped::kInterrupted;
      if (stopped_ == Stopped::kInterrupted) break;
      const double share = weight > 0 ? subject->weight_us / weight : 1;
      const double slice_s = (end_s - Seconds()) * share;
      weight -= subject->weight_us;
      if (slice_s < kLeastSliceSeconds) {
        stopped_ = Stopped::kBudget;
        continue;
      }
      WEFT_TRY(SearchOne(*subject, slice_s));
    }
    return {};
  }

  Status SearchOne(Subject& subject, double seconds) {
    const auto module = OneGroup(subject.arm->module, *subject.group);
    if (!module.ok()) return Skip(subject, module.status());
    WEFT_TRY(const auto measurer, TrialMeasurer::Open(*module, how_.worker, options_.stop));
    const polyhedral::ScheduleRequest& request = subject.program->request;
    const tuner::Space space(request);
    auto found = tuner::Search(
        space, StartOf(subject), *measurer,
        {.most_trials = kMostTrials, .seconds = seconds, .seed = how_.seed, .stop = options_.stop});
    if (!found.ok()) {
      if (found.status().code() == Code::kInterrupted) {
        stopped_ = Stopped::kInterrupted;
        return {};
      }
      return Skip(subject, found.status());
    }
    if (found->stopped != Stopped::kDone) stopped_ = found->stopped;
    for (const tuner::Trial& trial : found->trials) Keep(request, trial);
    subject.found = *std::move(found);
    return {};
  }

  // The network's other groups can be tuned all the same.
  Status Skip(const Subject& subject, const Status& why) const {
    WEFT_LOG(kWarning, "driver", "{} is not tuned: {}", subject.group->name, why.ToString());
    return {};
  }

  const Choice& StartOf(const Subject& subject) const {
    return subject.arm->module.choices.at(subject.group->name);
  }

  // For whoever wants to learn from it.
  void Keep(const polyhedral::ScheduleRequest& request, const tuner::Trial& trial) {
    if (trial.outcome == tuner::Outcome::kWrong)
      WEFT_LOG(kWarning, "driver", "a choice that gives other results: {}: {}",
               polyhedral::Print(trial.choice), trial.why);
    options_.tuning->Store(tuner::AloneKeyOf(request, trial.choice),
                           {.median_us = trial.us,
                            .low_us = trial.low_us,
                            .high_us = trial.high_us,
                            .samples = trial.samples,
                            .correct = trial.outcome == tuner::Outcome::kTimed,
                            .note = trial.why});
  }

  static bool IsBetter(const Subject& subject, const Choice& start) {
    return subject.found && !(subject.found->best == start);
  }

  // Alone, a group finds its operands in the caches: what counts is how it does among the others.
  Status Confirm() {
    for (const auto& arm : arms_) {
      const bool is_better = std::ranges::any_of(
          order_, [&](const Subject* s) { return IsBetter(*s, StartOf(*s)) && Occurs(*s, *arm); });
      if (is_better) WEFT_TRY(ConfirmIn(*arm));
    }
    for (Subject* subject : order_)
      if (IsBetter(*subject, StartOf(*subject))) Decide(*subject);
    return {};
  }

  bool Occurs(const Subject& subject, const Arm& arm) const {
    return std::ranges::any_of(keys_, [&](const auto& entry) {
      return entry.first.first == &arm && &subjects_.at(entry.second) == &subject;
    });
  }

  // The plan as it was, and with all that was found, in turns.
  Status ConfirmIn(const Arm& arm) {
    Module best = arm.module;
    best.form = Form::kChoices;
    const partition::GraphFacts facts(arm.module.graph);
    for (const Group& group : arm.module.grouping.groups) {
      if (group.implementation != Implementation::kOwn) continue;
      const Subject& subject = subjects_.at(keys_.at({&arm, group.name}));
      if (!IsBetter(subject, StartOf(subject))) continue;
      GroupProgram program;
      WEFT_TRY(FillGroupProgram(arm.module, facts, group, options_, program));
      auto choice =
          polyhedral::InNamesOf(program.request, subject.program->request, subject.found->best);
      if (!choice.yes()) continue;
      best.choices[group.name] = *std::move(choice);
      best.schedules.erase(group.name);
      best.nests.erase(group.name);
    }
    WEFT_TRY(Advance(best, Form::kCall, options_));
    std::vector<Module> modules = {arm.module, std::move(best)};
    std::vector<std::unique_ptr<executor::Executor>> executors;
    std::vector<std::unique_ptr<executor::BoundRun>> runs;
    WEFT_TRY(const auto inputs, GenerateInputs(opened_.graph, 0));
    for (Module& module : modules) {
      WEFT_TRY(Advance(module, Form::kPlan, options_));
      WEFT_TRY(CompileKernels(module.plan, options_));
      WEFT_TRY(auto executor,
               MakeExecutor(std::move(module.plan), options_, options_.target.threads));
      executors.push_back(std::move(executor));
      WEFT_TRY(auto run, executor::BoundRun::Open(*executors.back(), 0, inputs));
      runs.push_back(std::move(run));
    }
    std::vector<executor::BoundRun*> turns = {runs[0].get(), runs[1].get()};
    const double seconds = how_.budget_s * kConfirmShare / static_cast<double>(arms_.size());
    const auto times =
        tuner::TimeSteps(turns, {.seconds = seconds, .seed = how_.seed, .stop = options_.stop});
    if (times.status().code() == Code::kInvalid) {  // data that was generated, as in a build
      WEFT_LOG(kWarning, "driver", "{}: no whole run confirms what was found: {}",
               opened_.graph.name, times.status().ToString());
      return {};
    }
    if (!times.ok()) return times.status();
    WEFT_TRY(const auto before, runs[0]->Outputs());
    WEFT_TRY(const auto tuned, runs[1]->Outputs());
    const Way ways[] = {{arm.name, before}, {"tuned", tuned}};
    WEFT_TRY(CheckAgreement(arm.module.graph, inputs, ways));
    for (size_t g = 0; g < arm.module.grouping.groups.size(); ++g) {  // steps are groups
      const auto key = keys_.find({&arm, arm.module.grouping.groups[g].name});
      if (key == keys_.end()) continue;
      Subject& subject = subjects_.at(key->second);
      subject.start_us.insert(subject.start_us.end(), (*times)[0][g].begin(), (*times)[0][g].end());
      subject.best_us.insert(subject.best_us.end(), (*times)[1][g].begin(), (*times)[1][g].end());
    }
    return {};
  }

  // Without enough whole runs, as after Ctrl-C, the search has the last word.
  void Decide(Subject& subject) {
    tuner::SearchResult& found = *subject.found;
    tuner::Summary summary{.p50 = found.best_us, .low = found.best_us, .high = found.best_us};
    if (subject.best_us.size() >= kLeastSamples) {
      const tuner::Ratio gain = tuner::CompareMedians(subject.start_us, subject.best_us, how_.seed);
      summary = tuner::Summarize(subject.best_us);
      found.start_us = summary.p50 * gain.mid;
      found.best_us = summary.p50;
      if (gain.low <= 1 || gain.mid < kGain) {
        found.best = StartOf(subject);
        found.best_us = found.start_us;
        return;
      }
    }
    tuner::StoreBest(subject.program->request, found.best,
                     {.median_us = summary.p50,
                      .low_us = summary.low,
                      .high_us = summary.high,
                      .samples = summary.samples},
                     *options_.tuning);
  }

  Result<Tuned> Report() {
    Tuned tuned{.seconds = Seconds(), .stopped = stopped_};
    for (size_t n = 0; n < opened_.graph.nodes.size(); ++n)
      if (const graph::NodeId node(n); graph::HoldsPlans(opened_.graph[node].op))
        tuned.nested.push_back(graph::NodeName(opened_.graph, node));
    for (const Subject* subject : order_) {
      if (!subject->found) continue;
      const tuner::SearchResult& found = *subject->found;
      WEFT_TRY(const auto vendor_us, VendorTime(*subject->group));
      tuned.groups.push_back({.name = subject->group->name,
                              .trials = std::ssize(found.trials),
                              .best_us = found.best_us,
                              .start_us = found.start_us,
                              .vendor_us = vendor_us,
                              .choice = polyhedral::Print(found.best)});
      tuned.trials += std::ssize(found.trials);
    }
    return tuned;
  }

  // Where steps of the library-only plan do the same nodes, and all of them are on record.
  Result<std::optional<double>> VendorTime(const Group& group) {
    if (!vendor_) return std::optional<double>();
    if (vendor_keys_.empty()) {
      WEFT_TRY(vendor_keys_, StepKeys(*vendor_));
    }
    std::set<graph::NodeId> nodes;
    for (const partition::Member& m : group.members) nodes.insert(m.node);
    double us = 0;
    for (size_t g = 0; g < vendor_->grouping.groups.size(); ++g) {
      const auto& members = vendor_->grouping.groups[g].members;
      const auto here = std::ranges::count_if(
          members, [&](const partition::Member& m) { return nodes.contains(m.node); });
      if (here == 0) continue;
      if (here != std::ssize(members)) return std::optional<double>();
      if (!vendor_keys_[g]) continue;
      const auto record = options_.tuning->Find(*vendor_keys_[g]);
      if (!record) return std::optional<double>();
      us += record->median_us;
    }
    return std::optional(us);
  }

  const Module& opened_;
  BuildOptions options_;
  const TuneOptions& how_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Arm>> arms_;
  std::optional<Module> vendor_;
  std::vector<std::optional<TuningKey>> vendor_keys_;
  std::map<std::string, Subject> subjects_;                         // by polyhedral::KeyOf
  std::map<std::pair<const Arm*, std::string>, std::string> keys_;  // of own groups, by name
  std::vector<Subject*> order_;
  Stopped stopped_ = Stopped::kDone;
};

}  // namespace

Result<Tuned> Tune(const Module& module, const BuildOptions& options, const TuneOptions& how) {
  if (options.target.kind != TargetKind::kCpu)
    return Unsupported("only kernels for a CPU are tuned").Try("--target cpu");
  return Tuning(module, options, how).Run();
}

}  // namespace weft::driver
