// Measuring what partition estimated: the same network grouped several ways, each timed step by
// step in whole runs, and the best of each region taken (docs/decisions/0003).
#include "driver/measure_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "base/hash.h"
#include "base/version.h"
#include "driver/agreement.h"
#include "driver/build.h"
#include "driver/inputs.h"
#include "driver/pipeline.h"
#include "driver/stages.h"
#include "fallback/execute.h"
#include "partition/regions.h"
#include "tuner/keys.h"
#include "tuner/measure.h"
#include "tuner/step_times.h"

namespace weft::driver {
namespace {

using partition::Group;
using partition::Grouping;
using partition::Implementation;
using partition::PartitionOptions;

constexpr double kNoise = 1.02;      // a whole plan that is slower by less is no slower
constexpr double kStepShare = 0.7;   // of the budget, for the times of steps
constexpr size_t kLeastSamples = 5;  // that others may rely on

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// One way to do the whole network.
struct Arm {
  std::string name;
  Module module;
  std::vector<std::optional<TuningKey>> keys;  // by group
  std::unique_ptr<executor::Executor> executor;
  std::unique_ptr<executor::BoundRun> run;
};

class Measurement {
 public:
  Measurement(const Module& module, const BuildOptions& options)
      : base_(module), options_(options) {
    options_.budget_s = 0;
    options_.dump_dir.clear();
  }

  Result<Grouping> Run(double budget_s) {
    WEFT_TRY(OpenArms());
    if (!AllOnRecord()) {
      WEFT_TRY(TimeAllSteps(budget_s * kStepShare));
    }
    auto chosen = NeverSlower(partition::SelectByRegion(base_.graph, Priced()), budget_s);
    KeepDecided();
    return chosen;
  }

 private:
  // The library-only plan comes first: where nothing is faster, it is what stays. Call by call it
  // comes a second time, since a library's epilogue may be slower than a step of its own.
  Status OpenArms() {
    using Force = PartitionOptions::Force;
    const PartitionOptions& may = options_.partition;
    if (may.vendor && may.force != Force::kOwn) {
      WEFT_TRY(AddArm("vendor", {.force = Force::kVendor}));
      WEFT_TRY(AddArm("call by call", {.force = Force::kVendor, .fuse = false}));
    }
    if (may.force == Force::kVendor) return {};
    WEFT_TRY(AddArm("own", {.force = Force::kOwn}));
    WEFT_TRY(AddArm("plain", {.force = Force::kOwn, .variants = false}));
    if (options_.target.kind == TargetKind::kCpu) {  // a device has no blocks, nor kinds of tiles
      WEFT_TRY(AddArm("apart", {.force = Force::kOwn, .join = false}));
      WEFT_TRY(AddArm("other tiles", {.force = Force::kOwn, .kind = 1}));
    }
    return AddGrouping("estimated", base_.grouping);
  }

  // What an arm may do, within what the build may.
  struct How {
    PartitionOptions::Force force = PartitionOptions::Force::kNone;
    bool fuse = true, join = true, variants = true;
    int32_t kind = 0;  // of register tiles
  };

  Status AddArm(std::string name, const How& how) {
    PartitionOptions options = options_.partition;
    options.force = how.force;
    options.fuse &= how.fuse;
    options.join &= how.join;
    options.variants &= how.variants;
    partition::RooflinePricer pricer(options_.target);
    WEFT_TRY(Grouping grouping, partition::Partition(base_.graph, base_.comprehensions,
                                                     options_.target, pricer, options));
    if (how.kind > 0) WEFT_TRY(TakeKind(how.kind, grouping));
    return AddGrouping(std::move(name), std::move(grouping));
  }

  Status TakeKind(int32_t kind, Grouping& grouping) const {
    const partition::GraphFacts facts(base_.graph);
    for (Group& group : grouping.groups) {
      if (group.implementation != Implementation::kOwn) continue;
      GroupProgram p;
      WEFT_TRY(FillGroupProgram(base_, facts, group, options_, p));
      if (polyhedral::HasKind(p.request, kind)) group.kind = kind;
    }
    return {};
  }

  // Groups that another arm has already add nothing, whatever each thought of their rivals. What is
  // refused is told as the estimate has it: it does not depend on which arms there are.
  Status AddGrouping(std::string name, Grouping grouping) {
    grouping.refused = base_.grouping.refused;
    Grouping groups = grouping;
    for (Group& group : groups.groups) group.rivals.clear();
    if (!seen_.insert(Print(groups, base_.graph)).second) return {};
    WEFT_TRY(Arm arm, OpenArm(std::move(name), std::move(grouping)));
    arms_.push_back(std::move(arm));
    return {};
  }

  Result<Arm> OpenArm(std::string name, Grouping grouping) {
    Arm arm{.name = std::move(name), .module = base_};
    arm.module.grouping = std::move(grouping);
    arm.module.form = Form::kGroups;
    WEFT_TRY(Advance(arm.module, Form::kCall, options_));
    WEFT_TRY(arm.keys, StepKeys(arm.module));
    return arm;
  }

  bool AllOnRecord() {
    return std::ranges::all_of(arms_, [&](const Arm& arm) {
      return std::ranges::all_of(arm.keys, [&](const auto& key) { return !key || Record(*key); });
    });
  }

  // Of this build, or of one before it.
  std::optional<double> Record(const TuningKey& key) {
    if (const auto it = records_.find(key); it != records_.end()) return it->second;
    if (options_.tuning)
      if (const auto record = options_.tuning->Find(key)) return records_[key] = record->median_us;
    return std::nullopt;
  }

  // What was measured in turns is compared, and takes the place of what is on record: times of
  // another day would be unfair to one of the two. All of it is kept, so that a second build, which
  // finds all on record and measures nothing, decides like the first; or nothing, if it was
  // measured in a hurry, because the budget was small or Ctrl-C came. What another specialization
  // of this build went by stays, for it has decided.
  void Store(std::map<TuningKey, std::vector<double>> measured, const char* note) {
    const bool keep = options_.tuning && std::ranges::all_of(measured, [](const auto& of_key) {
                        return of_key.second.size() >= kLeastSamples;
                      });
    for (auto& [key, samples] : measured) {
      if (options_.decided && options_.decided->contains(key) && Record(key)) continue;
      const tuner::Summary s = tuner::Summarize(samples);
      records_[key] = s.p50;
      if (keep)
        options_.tuning->Store(key, {.median_us = s.p50,
                                     .low_us = s.low,
                                     .high_us = s.high,
                                     .samples = s.samples,
                                     .note = note});
    }
  }

  // Whatever the choice went by.
  void KeepDecided() {
    if (!options_.decided) return;
    for (const auto& [key, us] : records_) options_.decided->insert(key);
  }

  Status Load(Arm& arm) {
    if (arm.executor) return {};
    WEFT_TRY(Advance(arm.module, Form::kPlan, options_));
    WEFT_TRY(CompileKernels(arm.module.plan, options_));
    WEFT_TRY(arm.executor,
             MakeExecutor(std::move(arm.module.plan), options_, options_.target.threads));
    if (inputs_.empty()) {
      WEFT_TRY(inputs_, GenerateInputs(base_.graph, 0));
    }
    WEFT_TRY(arm.run, executor::BoundRun::Open(*arm.executor, 0, inputs_));
    return {};
  }

  Status TimeAllSteps(double seconds) {
    const Clock clock;
    std::vector<executor::BoundRun*> runs;
    for (Arm& arm : arms_) {
      WEFT_TRY(Load(arm));
      runs.push_back(arm.run.get());
    }
    WEFT_TRY(const auto times,
             tuner::TimeSteps(runs, {.seconds = seconds - clock.seconds(), .stop = options_.stop}));
    WEFT_TRY(CheckAgreement());
    // Steps are groups, in their order; equal ones pool their samples.
    std::map<TuningKey, std::vector<double>> pooled;
    for (size_t k = 0; k < arms_.size(); ++k)
      for (size_t g = 0; g < arms_[k].keys.size(); ++g)
        if (const auto& key = arms_[k].keys[g])
          pooled[*key].insert(pooled[*key].end(), times[k][g].begin(), times[k][g].end());
    Store(std::move(pooled), "in a whole run");
    return {};
  }

  Status CheckAgreement() {
    std::vector<Way> ways;
    for (const Arm& arm : arms_) {
      WEFT_TRY(const auto outputs, arm.run->Outputs());
      ways.push_back({arm.name, outputs});
    }
    return driver::CheckAgreement(base_.graph, inputs_, ways);
  }

  std::vector<partition::PricedGrouping> Priced() {
    std::vector<partition::PricedGrouping> priced;
    for (const Arm& arm : arms_) {
      std::vector<double> us;
      for (const auto& key : arm.keys) us.push_back(key ? Record(*key).value_or(0) : 0);
      priced.push_back({arm.module.grouping, std::move(us)});
    }
    return priced;
  }

  // The choice as a whole against each grouping that it was made from: what was gained region by
  // region must be there in the end.
  Result<Grouping> NeverSlower(Grouping chosen, double budget_s) {
    WEFT_TRY(Arm arm, OpenArm("chosen", std::move(chosen)));
    arms_.push_back(std::move(arm));
    std::vector<TuningKey> keys;
    const std::string graph = GraphText(base_);
    for (const Arm& a : arms_) keys.push_back(NetworkKey(graph, base_.target, a.keys));
    if (!std::ranges::all_of(keys, [&](const TuningKey& key) { return Record(key).has_value(); })) {
      std::map<TuningKey, executor::BoundRun*> runs;  // ways that came out the same run once
      for (size_t k = 0; k < arms_.size(); ++k) {
        if (runs.contains(keys[k])) continue;
        WEFT_TRY(Load(arms_[k]));
        runs[keys[k]] = arms_[k].run.get();
      }
      std::vector<executor::BoundRun*> turns;
      for (const auto& [key, run] : runs) turns.push_back(run);
      WEFT_TRY(auto times, tuner::TimeRuns(turns, {.seconds = budget_s - clock_.seconds(),
                                                   .seed = 1,
                                                   .stop = options_.stop}));
      std::map<TuningKey, std::vector<double>> measured;
      size_t k = 0;
      for (const auto& [key, run] : runs) measured[key] = std::move(times[k++]);
      Store(std::move(measured), "a whole run");
    }
    std::vector<double> us;
    for (const TuningKey& key : keys) us.push_back(Record(key).value_or(0));
    const auto best = static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
    if (us.back() <= kNoise * us[best]) return std::move(arms_.back().module.grouping);
    arms_.pop_back();
    return partition::TakeWhole(
        base_.graph, Priced(), best,
        fmt::format("as a whole, with what it gains elsewhere: {:.1f} > {:.1f} us", us.back(),
                    us[best]));
  }

  const Module& base_;
  BuildOptions options_;
  Clock clock_;
  std::vector<Arm> arms_;
  std::set<std::string> seen_;  // groupings of arms
  std::vector<Tensor> inputs_;
  std::map<TuningKey, double> records_;
};

}  // namespace

Result<std::vector<std::optional<TuningKey>>> StepKeys(const Module& module) {
  const partition::GraphFacts facts(module.graph);
  std::vector<std::optional<TuningKey>> keys;
  for (const Group& group : module.grouping.groups) {
    std::optional<TuningKey> key;
    if (group.implementation == Implementation::kOwn) {
      GroupProgram p;
      WEFT_TRY(FillGroupProgram(module, facts, group, p));
      key = tuner::KeyOf(p.request, module.choices.at(group.name));
    } else if (group.implementation == Implementation::kVendor ||
               group.implementation == Implementation::kNative) {
      const fallback::LibraryCall& call = module.calls.at(group.name);
      key = tuner::KeyOf(call, call.library, module.target);
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string GraphText(const Module& module) {
  BlobStore unused;
  return graph::Print(module.graph, unused);
}

// Keys in order say what runs, but not which value goes where: the graph's text does.
TuningKey NetworkKey(std::string_view graph, const Target& target,
                     std::span<const std::optional<TuningKey>> steps) {
  Hasher hasher;
  hasher.Add(graph);
  for (const auto& key : steps)
    if (key) hasher.Add(key->what).Add(key->choice).Add(key->engine);
  return {.what = "network " + hasher.Finish().Hex(),
          .choice = "",
          .target = Print(target),
          .device = target.kind == TargetKind::kCpu
                        ? DeviceName()
                        : fmt::format("{}, {}", tuner::DeviceOf(target), DeviceName()),
          .engine = fmt::format("weft {} {}", Version(), SourcesHash())};
}

Status MeasureGroups(Module& module, const BuildOptions& options) {
  WEFT_TRY(module.grouping, Measurement(module, options).Run(options.budget_s));
  return {};
}

}  // namespace weft::driver
