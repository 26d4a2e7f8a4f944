#include <fmt/format.h>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/kernels.h"
#include "cli/load.h"
#include "cli/record.h"
#include "cli/subject.h"
#include "cli/verbs.h"
#include "driver/build.h"
#include "tuner/device_peaks.h"
#include "tuner/measure.h"
#include "tuner/peaks.h"

namespace weft::cli {
namespace {

struct BenchFlags {
  RecordFlags record;
  double rate = 0;
  int32_t concurrency = 1;
  std::string mode = "latency";
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
               plan::StepKindName(step.kind), Printable(step.name));
  }
}

struct Measured {
  std::vector<double> samples_us;
  std::optional<double> throughput_per_s;  // where it was counted
};

// One run after another, or under load: as many executors of one plan as are to run at once.
Result<Measured> Measure(const Flags& flags, const BenchFlags& bench, const Session& session,
                         const Subject& subject, const std::vector<Tensor>& inputs,
                         executor::BoundRun& run) {
  WEFT_TRY(tuner::MeasureOptions options, MeasureOptionsOf(flags));
  if (bench.concurrency == 1 && bench.rate == 0 && bench.mode == "latency") {
    const tuner::Arm arm = tuner::TimedArm(subject.name, [&] { return run(); });
    WEFT_TRY(auto samples, tuner::Interleave(std::span(&arm, 1), options));
    return Measured{.samples_us = std::move(samples[0])};
  }
  std::vector<std::unique_ptr<executor::Executor>> executors;
  std::vector<std::unique_ptr<CancelOnInterrupt>> cancels;
  std::vector<std::unique_ptr<executor::BoundRun>> workers;
  for (int32_t i = 0; i < bench.concurrency; ++i) {
    WEFT_TRY(auto executor,
             driver::MakeExecutor(subject.executor->plan(), session.options, flags.threads));
    cancels.push_back(std::make_unique<CancelOnInterrupt>(*executor));
    WEFT_TRY(auto worker, executor::BoundRun::Open(*executor, subject.specialization, inputs));
    executors.push_back(std::move(executor));
    workers.push_back(std::move(worker));
  }
  WEFT_TRY(Load load, RunUnderLoad(workers, {.seconds = options.seconds,
                                             .runs = options.runs,
                                             .warmup = options.warmup,
                                             .rate = bench.rate}));
  const double runs = static_cast<double>(load.latency_us.size());
  return Measured{.samples_us = std::move(load.latency_us),
                  .throughput_per_s = runs / load.seconds};
}

Status RunBench(const Flags& flags, const BenchFlags& bench) {
  Session session;
  WEFT_TRY(OpenSession(flags, session));
  WEFT_TRY(auto given, LoadNamedInputs(flags));
  WEFT_TRY(Subject subject, OpenSubject(flags.model, flags, session, given));
  WEFT_TRY(auto inputs, InputsFor(subject, flags, given));
  WEFT_TRY(auto bound, executor::BoundRun::Open(*subject.executor, subject.specialization, inputs));
  executor::BoundRun& run = *bound;
  WEFT_TRY(Measured measured, Measure(flags, bench, session, subject, inputs, run));
  std::vector<double>& samples = measured.samples_us;
  const ArmSamples recorded{.name = subject.name, .us = samples};
  if (!bench.record.samples.empty())
    WEFT_TRY(WriteSamples(bench.record.samples, std::span(&recorded, 1)));
  const tuner::Summary s = tuner::Summarize(samples);
  const double throughput = measured.throughput_per_s.value_or(s.p50 > 0 ? 1e6 / s.p50 : 0);
  const double percentile = bench.record.percentile.value_or(95);
  const std::string wanted = PercentileName(percentile);
  const double wanted_us = tuner::Quantile(samples, percentile / 100);
  executor::BoundRun* const runs[] = {bound.get()};
  WEFT_TRY(const auto medians, StepMedians(runs));
  const std::vector<double>& steps = medians[0];
  const ArmSteps traced{.name = subject.name, .spec = &subject.spec(), .us = steps};
  if (!bench.record.trace.empty()) WEFT_TRY(WriteTrace(bench.record.trace, std::span(&traced, 1)));
  std::optional<tuner::Peaks> peaks;
  if (const Target& target = subject.executor->plan().target; target.kind == TargetKind::kCpu)
    peaks = tuner::MeasurePeaks(static_cast<int32_t>(subject.executor->threads()));
  else if (auto measured_peaks = tuner::MeasureDevicePeaks(target); measured_peaks.ok())
    peaks = *measured_peaks;
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
         {"throughput_per_s", throughput},
         {"kernels", KernelRows(subject, steps, peaks)},
         {"memory", {{"arena_bytes", subject.spec().arena_bytes}, {"weight_bytes", weight_bytes}}},
         {"env", EnvironmentJson(flags, static_cast<int32_t>(subject.executor->threads()))}});
    return {};
  }
  PrintKernels(subject, steps, peaks);
  fmt::print("p50 {:.1f} us [{:.1f}, {:.1f}], {} {:.1f}, min {:.1f}, {} runs, {} threads\n", s.p50,
             s.low, s.high, wanted, wanted_us, s.min, s.samples, subject.executor->threads());
  if (measured.throughput_per_s)
    fmt::print("{:.1f} runs/s, {} at once\n", throughput, bench.concurrency);
  return {};
}

}  // namespace

void AddBench(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL|PLAN");
  AddBuildFlags(app, flags);
  AddSpecializeFlag(app, flags);
  AddMemoryFlag(app, flags);
  AddDataFlags(app, flags);
  AddMeasureFlags(app, flags);
  auto bench = std::make_shared<BenchFlags>();
  AddRecordFlags(app, bench->record);
  app.add_option("--concurrency", bench->concurrency,
                 "runs at once, each by an executor of --threads threads; default 1")
      ->check(CLI::Range(1, 1024));
  app.add_option("--mode", bench->mode,
                 "latency (default), or throughput: runs are counted over the whole time")
      ->check(CLI::IsMember({"latency", "throughput"}));
  app.add_option("--rate", bench->rate,
                 "runs that arrive a second, busy or not; latency counts from the arrival")
      ->check(CLI::PositiveNumber)
      ->check(NotNegative());
  run = [&flags, bench] {
    MeasureByDefault(flags);
    return RunBench(flags, *bench);
  };
}

}  // namespace weft::cli
