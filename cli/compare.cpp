#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/text.h"
#include "cli/kernels.h"
#include "cli/peer.h"
#include "cli/record.h"
#include "cli/subject.h"
#include "cli/verbs.h"
#include "driver/accuracy.h"
#include "driver/pipeline.h"
#include "driver/reference.h"
#include "tuner/measure.h"
#include "tuner/step_times.h"

namespace weft::cli {
namespace {

struct CompareFlags {
  std::string against = "vendor";
  double min_speedup = 0;
  RecordFlags record;
};

struct ArmState {
  std::string name;
  std::unique_ptr<Subject> subject;
  std::unique_ptr<executor::BoundRun> run;
  std::unique_ptr<Peer> peer;  // instead of subject and run
  std::vector<double> samples;
};

std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

// Another way to build the same model, or a plan file.
Result<Subject> OpenArm(const std::string& name, const Flags& flags, const Session& session,
                        const std::map<std::string, Tensor>& given) {
  Session other{.options = session.options};
  other.profiles = session.profiles;
  if (name == "vendor" || name == "vendor:onednn") {
    if (session.options.target.kind == TargetKind::kCpu && !session.options.partition.vendor)
      return Missing("the arm \"vendor\" needs oneDNN, which is not there");
    other.options.partition.ForceVendor();
    return OpenSubject(flags.model, flags, other, given);
  }
  if (name == "own") {
    other.options.partition.force = partition::PartitionOptions::Force::kOwn;
    return OpenSubject(flags.model, flags, other, given);
  }
  if (name == "unfused") {
    other.options.partition.fuse = false;
    return OpenSubject(flags.model, flags, other, given);
  }
  if (IsPlanFile(name)) return OpenSubject(name, flags, other, given);
  return Usage(fmt::format(
      "found arm \"{}\", expected vendor, own, unfused, reference, onnxruntime, openvino, torch or "
      "a plan",
      name));
}

Result<ArmState> OpenPeer(const std::string& name, const Flags& flags, const Subject& own,
                          const std::vector<Tensor>& inputs) {
  if (IsPlanFile(flags.model))
    return Unsupported(fmt::format("a plan can't be given to {}", name))
        .Try("compare the model instead");
  if (flags.model == "-")
    return Unsupported(fmt::format("standard input can't be given to {}", name))
        .Try("write the model to a file");
  std::vector<Peer::Named> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(InputsOf(own)[i].name, inputs[i]);
  ArmState arm{.name = name};
  const bool on_cuda = own.executor->plan().target.kind == TargetKind::kCuda;
  WEFT_TRY(arm.peer, Peer::Open(name, flags.model, named, own.executor->threads(), on_cuda));
  return arm;
}

Status AddArm(std::string name, Subject subject, const std::vector<Tensor>& inputs,
              std::vector<ArmState>& arms) {
  WEFT_TRY(auto run, executor::BoundRun::Open(*subject.executor, subject.specialization, inputs));
  arms.push_back({.name = std::move(name),
                  .subject = std::make_unique<Subject>(std::move(subject)),
                  .run = std::move(run)});
  return {};
}

Result<std::vector<Tensor>> Reference(const Flags& flags, const Session& session,
                                      const Subject& own, const std::vector<Tensor>& inputs,
                                      driver::Rounding rounding) {
  driver::BuildOptions options = session.options;
  options.bfloat16 = false;  // of the network as it is
  if (IsPlanFile(flags.model))
    return Unsupported("a plan alone has no reference").Try("compare the model instead");
  const auto specs = InputsOf(own);
  for (const TensorSpec& spec : specs) options.shapes.emplace_back(spec.name, spec.shape);
  WEFT_TRY(driver::Module module, driver::Open(flags.model, options));
  return driver::RunReference(module.graph, inputs, rounding);
}

std::string ErrorText(const driver::Accuracy& a) {
  std::string text = fmt::format("{:.2e} of the scale", a.max_rel);
  if (a.differing > 0) text += fmt::format(", {} of {} elements differ", a.differing, a.exact);
  return text;
}

// Values that were given take the place of the reference, but only for all outputs at once.
Result<std::vector<Tensor>> AllOf(Expected expected) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i])
      return Usage(fmt::format("expected values are given, but none for output {}", i));
    all.push_back(*std::move(expected[i]));
  }
  return all;
}

Status Measure(const Flags& flags, std::vector<ArmState>& arms) {
  WEFT_TRY(tuner::MeasureOptions options, MeasureOptionsOf(flags));
  std::vector<tuner::Arm> runs;
  for (ArmState& arm : arms)
    runs.push_back(arm.peer
                       ? tuner::Arm{arm.name, [&arm] { return arm.peer->Run(); }}
                       : tuner::TimedArm(arm.name, [&arm] { return (*arm.run)(); }, /*warm=*/true));
  WEFT_TRY(auto samples, tuner::Interleave(runs, options));
  for (size_t i = 0; i < arms.size(); ++i) arms[i].samples = std::move(samples[i]);
  return {};
}

// Of the arms whose steps are ours to time; the first is weft's.
Result<std::vector<ArmSteps>> TimeSteps(std::vector<ArmState>& arms) {
  std::vector<ArmSteps> timed;
  std::vector<executor::BoundRun*> runs;
  for (ArmState& arm : arms) {
    if (arm.peer) continue;
    timed.push_back({.name = arm.name, .spec = &arm.subject->spec()});
    runs.push_back(arm.run.get());
  }
  WEFT_TRY(auto medians, StepMedians(runs));
  for (size_t i = 0; i < timed.size(); ++i) timed[i].us = std::move(medians[i]);
  return timed;
}

// Medians of whole runs between events of the stream, by arm; nothing where an arm is no plan, or
// runs on no device.
Result<std::vector<std::optional<double>>> DeviceMedians(std::vector<ArmState>& arms) {
  constexpr double kSeconds = 2;
  std::vector<std::optional<double>> medians(arms.size());
  std::vector<executor::BoundRun*> runs;
  std::vector<size_t> which;
  for (size_t i = 0; i < arms.size(); ++i) {
    if (!arms[i].run || !arms[i].run->IsOnDevice()) continue;
    runs.push_back(arms[i].run.get());
    which.push_back(i);
  }
  if (runs.empty()) return medians;
  WEFT_TRY(auto samples, tuner::TimeRuns(runs, {.seconds = kSeconds, .stop = &Interrupted()}));
  for (size_t k = 0; k < which.size(); ++k) medians[which[k]] = tuner::Summarize(samples[k]).p50;
  return medians;
}

Status RunCompare(const Flags& flags, const CompareFlags& compare) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(auto given, LoadNamedInputs(flags));
  WEFT_TRY(Subject own, OpenSubject(flags.model, flags, session, given));
  WEFT_TRY(auto inputs, InputsFor(own, flags, given));
  std::vector<ArmState> arms;
  WEFT_TRY(AddArm("weft", std::move(own), inputs, arms));
  for (const std::string& name : SplitNames(compare.against)) {
    if (name == "reference") continue;
    if (name == "onnxruntime" || name == "openvino" || name == "torch") {
      WEFT_TRY(ArmState arm, OpenPeer(name, flags, *arms[0].subject, inputs));
      arms.push_back(std::move(arm));
      continue;
    }
    WEFT_TRY(Subject subject, OpenArm(name, flags, session, given));
    WEFT_TRY(AddArm(name, std::move(subject), inputs, arms));
  }
  WEFT_TRY(auto expected, LoadExpected(flags, OutputsOf(*arms[0].subject)));
  const bool computed = expected.empty();
  WEFT_TRY(auto reference,
           computed ? Reference(flags, session, *arms[0].subject, inputs, driver::Rounding::kNone)
                    : AllOf(std::move(expected)));
  WEFT_TRY(Measure(flags, arms));
  WEFT_TRY(const auto device_us, DeviceMedians(arms));
  WEFT_TRY(const std::vector<ArmSteps> steps, TimeSteps(arms));
  if (!compare.record.trace.empty()) WEFT_TRY(WriteTrace(compare.record.trace, steps));
  std::vector<ArmSamples> recorded;
  for (const ArmState& arm : arms) recorded.push_back({.name = arm.name, .us = arm.samples});
  if (!compare.record.samples.empty()) WEFT_TRY(WriteSamples(compare.record.samples, recorded));

  Json json{
      {"schema", 1},
      {"arms", Json::array()},
      {"kernels", JoinedRows(steps)},
      {"speedup", Json::object()},
      {"accuracy", Json::object()},
      {"env", EnvironmentJson(flags, static_cast<int32_t>(arms[0].subject->executor->threads()))}};
  std::vector<std::string> names;
  for (plan::BufferId id : arms[0].subject->spec().outputs)
    names.push_back(arms[0].subject->spec().buffers[id.index].name);
  bool accurate = true, fast = true;
  for (ArmState& arm : arms) {
    std::vector<double> sorted = arm.samples;
    const tuner::Summary s = tuner::Summarize(sorted);
    Json row{{"name", arm.name}, {"p50_us", s.p50}, {"ci95_us", {s.low, s.high}}};
    if (arm.subject) row["steps"] = StepCounts(arm.subject->spec());
    if (const auto us = device_us[static_cast<size_t>(&arm - arms.data())]) row["device_us"] = *us;
    std::string tail;
    if (compare.record.percentile) {
      const std::string name = PercentileName(*compare.record.percentile);
      const double us = tuner::Quantile(sorted, *compare.record.percentile / 100);
      row[name + "_us"] = us;
      tail = fmt::format(", {} {:.1f}", name, us);
    }
    json["arms"].push_back(std::move(row));
    std::vector<Tensor> outputs;
    if (arm.peer) {
      WEFT_TRY(outputs, arm.peer->Outputs(names));
      json["env"]["peers"][arm.name] = arm.peer->version();
    } else {
      WEFT_TRY(const auto given, arm.run->Outputs());
      outputs.assign(given.begin(), given.end());
    }
    const driver::Accuracy a = driver::CompareOutputs(outputs, reference, ToleranceOf(flags));
    json["accuracy"][arm.name] = AccuracyJson(a);
    if (&arm == &arms[0]) accurate = a.within;
    std::string speed;
    if (&arm != &arms[0]) {
      const tuner::Ratio r = tuner::CompareMedians(arm.samples, arms[0].samples, flags.seed);
      json["speedup"][arm.name] = {r.low, r.mid, r.high};
      fast = fast && r.mid >= compare.min_speedup;
      speed = fmt::format("  weft is {:.3f}x [{:.3f}, {:.3f}]{}", r.mid, r.low, r.high,
                          r.low <= 1 && r.high >= 1 ? " (no difference)" : "");
    }
    if (!flags.json)
      fmt::print("{:<10} p50 {:>10.1f} us [{:.1f}, {:.1f}]{}  error {}{}{}\n", Printable(arm.name),
                 s.p50, s.low, s.high, tail, ErrorText(a),
                 a.within ? "" : " (outside the tolerance)", speed);
  }
  if (flags.json) PrintJson(json);
  if (!accurate) {
    Status left(Code::kNo, fmt::format("outputs leave the tolerance {}", flags.tolerance));
    if (!computed) return std::move(left).At(flags.model);
    WEFT_TRY(const auto rounded,
             Reference(flags, session, *arms[0].subject, inputs, driver::Rounding::kEachValue));
    return std::move(left)
        .At(flags.model)
        .Because(
            fmt::format("rounding each value to its type, and nothing else, moves them by {}",
                        ErrorText(driver::CompareOutputs(rounded, reference, ToleranceOf(flags)))));
  }
  if (!fast)
    return Status(Code::kNo,
                  fmt::format("slower than asked for: --min-speedup {}", compare.min_speedup))
        .At(flags.model);
  return {};
}

}  // namespace

void AddCompare(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  auto compare = std::make_shared<CompareFlags>();
  AddModel(app, flags, "MODEL|PLAN");
  app.add_option("--against", compare->against,
                 "vendor, own, unfused, reference, onnxruntime, openvino, torch or a plan; several "
                 "with commas");
  app.add_option("--min-speedup", compare->min_speedup, "exit 1 below this speedup against any arm")
      ->check(NotNegative());
  AddBuildFlags(app, flags);
  AddMemoryFlag(app, flags);
  AddDataFlags(app, flags);
  AddAccuracyFlags(app, flags);
  AddMeasureFlags(app, flags);
  AddRecordFlags(app, compare->record);
  run = [&flags, compare] {
    MeasureByDefault(flags);
    return RunCompare(flags, *compare);
  };
}

}  // namespace weft::cli
