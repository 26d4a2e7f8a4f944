#include <fmt/format.h>

#include "base/text.h"
#include "cli/verbs.h"
#include "driver/kernels.h"
#include "plan/file.h"
#include "plan/memory.h"

namespace weft::cli {
namespace {

Status Inspect(const Flags& flags) {
  WEFT_TRY(plan::Plan plan, plan::ReadPlan(flags.model));
  if (!flags.json) {
    fmt::print("{}", plan::Print(plan));
    return {};
  }
  Json json{{"schema", 1},
            {"name", plan.name},
            {"target", weft::Print(plan.target)},
            {"model", plan.model_hash},
            {"measured", plan.measured},
            {"kernels", plan.kernels.size()},
            {"specializations", Json::array()}};
  for (const plan::Specialization& s : plan.specializations) {
    Json steps = Json::array();
    for (const plan::Step& step : s.steps)
      steps.push_back({{"name", step.name},
                       {"kind", plan::StepKindName(step.kind)},
                       {"nodes", step.nodes},
                       {"us", step.us},
                       {"measured", step.measured}});
    json["specializations"].push_back({{"arena_bytes", s.arena_bytes},
                                       {"live_bytes", plan::MaximumLiveBytes(s)},
                                       {"steps", steps}});
  }
  PrintJson(json);
  return {};
}

// Hashes, offsets and structure, then each kernel against its nest and its key.
Result<plan::Plan> ReadAndCheck(const std::string& path) {
  WEFT_TRY(plan::Plan plan, plan::ReadPlan(path));
  for (const plan::Kernel& kernel : plan.kernels)
    if (auto nest = driver::CheckKernel(kernel, plan.target, plan.codegen); !nest.ok())
      return Invalid(nest.status().ToString()).At(path);
  return plan;
}

// Reaching the end is the answer yes. A plan that is damaged is the answer no, where a path that
// can't be read is an error.
Status Verify(const Flags& flags) {
  auto plan = ReadAndCheck(flags.model);
  if (!plan.ok() && plan.status().code() == Code::kInvalid)
    return Status(Code::kNo, plan.status().what()).At(plan.status().where());
  if (!plan.ok()) return std::move(plan.status());
  if (flags.json)
    PrintJson({{"schema", 1}, {"valid", true}});
  else
    fmt::print("{}: hashes, structure and kernels are right\n", Printable(flags.model));
  return {};
}

}  // namespace

void AddInspect(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "PLAN");
  run = [&flags] { return Inspect(flags); };
}

void AddVerify(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "PLAN");
  run = [&flags] { return Verify(flags); };
}

}  // namespace weft::cli
