#include <fmt/format.h>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/kernels.h"
#include "cli/subject.h"
#include "cli/verbs.h"
#include "tuner/measure.h"
#include "tuner/peaks.h"

namespace weft::cli {
namespace {

struct BenchFlags {
  std::string samples, trace;
  double percentile = 95;
};

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json KernelRows(const Subject& subject, const std::vector<double>& step_us,
                const std::optional<tuner::Peaks>& peaks) {
  Json rows = Json::array();
  for (size_t i = 0; i < subject.spec().steps.size(); ++i) {
    const plan::Step& step = subject.spec().steps[i];
    rows.push_back({{"name", step.name},
                    {"kind", plan::StepKindName(step.kind)},
                    {"library", step.kind == plan::StepKind::kVendor ? step.call.op : ""},
                    {"nodes", step.nodes},
                    {"us", step_us[i]},
                    {"flops", step.flops},
                    {"bytes", step.bytes},
                    {"efficiency", OrNull(EfficiencyOf(step, step_us[i], peaks))}});
  }
  return rows;
}

void PrintKernels(const Subject& subject, const std::vector<double>& step_us,
                  const std::optional<tuner::Peaks>& peaks) {
  for (size_t i = 0; i < subject.spec().steps.size(); ++i) {
    const plan::Step& step = subject.spec().steps[i];
    const auto efficiency = EfficiencyOf(step, step_us[i], peaks);
    fmt::print("{:>10.1f} us {:>5}  {:<6} {}\n", step_us[i],
               efficiency ? fmt::format("{:.0f} %", 100 * *efficiency) : "",
               plan::StepKindName(step.kind), step.name);
  }
}

// One line a run, in the order of the runs.
Status WriteSamples(const std::string& path, const std::vector<double>& samples_us) {
  std::string text = "run,us\n";
  for (size_t i = 0; i < samples_us.size(); ++i)
    text += fmt::format("{},{:.3f}\n", i, samples_us[i]);
  const HoldInterrupt whole;
  return WriteFileAtomically(path, text);
}

// Trace events, as browsers and Perfetto show them: the median of each step, end to end.
Status WriteTrace(const std::string& path, const Subject& subject,
                  const std::vector<double>& step_us) {
  Json events = Json::array();
  double begin_us = 0;
  for (size_t i = 0; i < step_us.size(); ++i) {
    const plan::Step& step = subject.spec().steps[i];
    events.push_back({{"name", step.name},
                      {"cat", plan::StepKindName(step.kind)},
                      {"ph", "X"},
                      {"ts", begin_us},
                      {"dur", step_us[i]},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"nodes", step.nodes}}}});
    begin_us += step_us[i];
  }
  const HoldInterrupt whole;
  return WriteFileAtomically(path, ToText({{"traceEvents", events}, {"displayTimeUnit", "ns"}}));
}

Status Run(const Flags& flags, const BenchFlags& bench) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(auto given, LoadNamedInputs(flags));
  WEFT_TRY(Subject subject, OpenSubject(flags.model, flags, session, given));
  WEFT_TRY(auto inputs, InputsFor(subject, flags, given));
  WEFT_TRY(auto bound, BoundRun::Open(*subject.executor, subject.specialization, inputs));
  BoundRun& run = *bound;
  WEFT_TRY(tuner::MeasureOptions options, MeasureOptionsOf(flags));
  const tuner::Arm arm = tuner::TimedArm(subject.name, [&] { return run(); });
  WEFT_TRY(auto samples, tuner::Interleave(std::span(&arm, 1), options));
  if (!bench.samples.empty()) WEFT_TRY(WriteSamples(bench.samples, samples[0]));
  const tuner::Summary s = tuner::Summarize(samples[0]);
  const std::string wanted = fmt::format("p{}", bench.percentile);
  const double wanted_us = tuner::Quantile(samples[0], bench.percentile / 100);
  WEFT_TRY(const auto steps, StepMedians(run));
  if (!bench.trace.empty()) WEFT_TRY(WriteTrace(bench.trace, subject, steps));
  std::optional<tuner::Peaks> peaks;
  if (subject.executor->plan().target.kind == TargetKind::kCpu)
    peaks = tuner::MeasurePeaks(static_cast<int32_t>(subject.executor->threads()));
  int64_t weight_bytes = 0;
  for (const plan::Buffer& b : subject.spec().buffers)
    if (b.kind == plan::BufferKind::kWeight) weight_bytes += b.bytes;
  if (flags.json) {
    Json latency{{"min", s.min}, {"p50", s.p50}, {"p90", s.p90},
                 {"p95", s.p95}, {"p99", s.p99}, {"mean", s.mean}};
    latency[wanted] = wanted_us;
    Json shapes;
    for (const TensorSpec& spec : InputsOf(subject)) shapes[spec.name] = spec.shape;
    PrintJson(
        {{"schema", 1},
         {"threads", subject.executor->threads()},
         {"target", weft::Print(subject.executor->plan().target)},
         {"shapes", shapes},
         {"runs", s.samples},
         {"latency_us", latency},
         {"ci95_us", {s.low, s.high}},
         {"throughput_per_s", s.p50 > 0 ? 1e6 / s.p50 : 0},
         {"kernels", KernelRows(subject, steps, peaks)},
         {"memory", {{"arena_bytes", subject.spec().arena_bytes}, {"weight_bytes", weight_bytes}}},
         {"env", EnvironmentJson(flags, static_cast<int32_t>(subject.executor->threads()))}});
    return {};
  }
  PrintKernels(subject, steps, peaks);
  fmt::print("p50 {:.1f} us [{:.1f}, {:.1f}], {} {:.1f}, min {:.1f}, {} runs, {} threads\n", s.p50,
             s.low, s.high, wanted, wanted_us, s.min, s.samples, subject.executor->threads());
  return {};
}

}  // namespace

void AddBench(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL|PLAN");
  AddBuildFlags(app, flags);
  AddMemoryFlag(app, flags);
  AddDataFlags(app, flags);
  AddMeasureFlags(app, flags);
  auto bench = std::make_shared<BenchFlags>();
  app.add_option("--samples", bench->samples, "F.csv for the time of each run: run,us");
  app.add_option("--percentile", bench->percentile, "of the latency, also reported: 99.9")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--trace", bench->trace, "F.json for the steps as trace events");
  run = [&flags, bench] {
    MeasureByDefault(flags);
    return Run(flags, *bench);
  };
}

}  // namespace weft::cli
