#include "driver/build.h"
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "driver/inputs.h"
#include "plan/file.h"

namespace weft::cli {
namespace {

Json SpecializationJson(const plan::Specialization& s) {
  Json inputs;
  for (plan::BufferId id : s.inputs) {
    const plan::Buffer& b = s.buffers[id.index];
    inputs[b.name] = b.kind == plan::BufferKind::kDynamic ? Json(nullptr) : Json(b.shape);
  }
  return {{"inputs", inputs}, {"steps", StepCounts(s)}, {"arena_bytes", s.arena_bytes}};
}

int64_t MeasuredGroups(const driver::Built& built) {
  int64_t count = 0;
  for (const driver::Module& module : built.modules)
    count += std::ranges::count_if(module.grouping.groups, &partition::Group::measured);
  return count;
}

// Whether nothing was measured: what takes any extents never is.
bool IsEstimate(const driver::Built& built) {
  return std::ranges::none_of(built.modules,
                              [](const driver::Module& module) { return module.plan.measured; });
}

std::string WhatWouldMeasure(const driver::Built& built, double budget_s) {
  if (budget_s == 0) return "; --budget 60s would measure them";
  for (const driver::Module& module : built.modules)
    if (const graph::ValueId open = driver::OpenInput(module.graph); open.valid())
      return fmt::format("; --shape {0}=… or --profile {0}=… would let them be measured",
                         Printable(module.graph[open].name));
  return "";
}

Status RunBuild(const Flags& flags) {
  if (flags.output.empty()) return Usage("build needs a place for the plan").Try("-o model.plan");
  Session session;
  WEFT_TRY(OpenSession(flags, session, true));
  WEFT_TRY(driver::Built built, BuildOrStop(flags.model, session.options, session.profiles));
  WEFT_TRY(CheckMemory(flags, built.plan, built.plan.target.threads));
  const HoldInterrupt whole;  // from here on the plan is there to keep
  WEFT_TRY(plan::WritePlan(built.plan, flags.output));
  const Json steps = StepCounts(built.plan.specializations[0]);
  if (IsEstimate(built))
    Progress(flags, fmt::format("weft: choices are estimates{}",
                                WhatWouldMeasure(built, session.options.budget_s)));
  if (flags.json) {
    Json json{{"schema", 1},
              {"plan", flags.output},
              {"seconds", built.seconds},
              {"measured_groups", MeasuredGroups(built)},
              {"specializations", Json::array()},
              {"steps", steps},
              {"env", EnvironmentJson(flags, session.options.target.threads)}};
    for (const auto& s : built.plan.specializations)
      json["specializations"].push_back(SpecializationJson(s));
    PrintJson(json);
  } else {
    fmt::print("{}: {} kernels, steps {}, {:.2f} s\n", Printable(flags.output),
               built.plan.kernels.size(), steps.dump(), built.seconds);
  }
  return {};
}

}  // namespace

void AddBuild(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "MODEL");
  app.add_option("-o,--output", flags.output, "the plan");
  AddBuildFlags(app, flags);
  AddMemoryFlag(app, flags);
  run = [&flags] {
    MeasureByDefault(flags);
    return RunBuild(flags);
  };
}

}  // namespace weft::cli
