#include <fmt/format.h>

#include <filesystem>

#include "base/text.h"
#include "cli/verbs.h"
#include "driver/kernels.h"
#include "plan/file.h"
#include "plan/memory.h"

namespace weft::cli {
namespace {

// Of each kernel, in their order; nothing for a CPU, or without the compiler.
std::vector<codegen::CudaResources> Resources(const plan::Plan& plan, const Flags& flags) {
  std::vector<codegen::CudaResources> all;
  if (plan.target.kind != TargetKind::kCuda) return all;
  std::optional<FileCache> cache;
  if (const auto directory = CacheDirectory(flags); directory.ok())
    if (auto opened = FileCache::Open(*directory); opened.ok()) cache = *std::move(opened);
  for (const plan::Kernel& kernel : plan.kernels) {
    auto one = driver::ResourcesOf(kernel, plan.target, cache ? &*cache : nullptr);
    if (!one.ok()) {
      fmt::print(stderr, "{}\n", one.status().ToString());
      return {};
    }
    all.push_back(*one);
  }
  return all;
}

Status Inspect(const Flags& flags) {
  WEFT_TRY(plan::Plan plan, plan::ReadPlan(flags.model));
  const std::vector<codegen::CudaResources> resources = Resources(plan, flags);
  if (!flags.json) {
    fmt::print("{}", plan::Print(plan));
    for (size_t k = 0; k < resources.size(); ++k) {
      const codegen::CudaResources& r = resources[k];
      fmt::print(
          "# {}: {} registers, {} bytes of shared memory, {} bytes of stack, {} local accesses\n",
          plan.kernels[k].name, r.registers, r.shared_bytes, r.stack_bytes, r.local_accesses);
    }
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
  if (!resources.empty()) json["cuda"] = Json::array();
  for (size_t k = 0; k < resources.size(); ++k) {
    const codegen::CudaResources& r = resources[k];
    json["cuda"].push_back({{"kernel", plan.kernels[k].name},
                            {"registers", r.registers},
                            {"shared_bytes", r.shared_bytes},
                            {"stack_bytes", r.stack_bytes},
                            {"local_accesses", r.local_accesses}});
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
  std::error_code error;
  const bool is_there = std::filesystem::is_regular_file(flags.model, error);
  if (!plan.ok() && plan.status().code() == Code::kInvalid && is_there) {
    const Status& s = plan.status();
    if (flags.json)
      PrintJson({{"schema", 1}, {"valid", false}, {"what", s.what()}, {"where", s.where()}});
    return Status(Code::kNo, s.what()).At(s.where());
  }
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
  AddCacheFlag(app, flags);
  run = [&flags] { return Inspect(flags); };
}

void AddVerify(CLI::App& app, Flags& flags, std::function<Status()>& run) {
  AddModel(app, flags, "PLAN");
  run = [&flags] { return Verify(flags); };
}

}  // namespace weft::cli
