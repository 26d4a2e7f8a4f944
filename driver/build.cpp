#include "driver/build.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "base/float_mode.h"
#include "base/threads/parallel.h"
#include "driver/inputs.h"
#include "driver/kernels.h"
#include "driver/module_cache.h"
#include "driver/nested.h"
#include "driver/pipeline.h"
#include "graph/edit.h"

namespace weft::driver {

Result<std::vector<Module>> OpenAll(
    const std::string& path, const BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles) {
  WEFT_TRY(const graph::Graph imported, Import(path));
  std::vector<Module> modules;
  for (size_t i = 0; i < std::max<size_t>(1, profiles.size()); ++i) {
    BuildOptions specialized = options;
    if (!profiles.empty())
      specialized.shapes.insert(specialized.shapes.end(), profiles[i].begin(), profiles[i].end());
    WEFT_TRY(Module module, OpenGraph(graph::Clone(imported), specialized));
    modules.push_back(std::move(module));
  }
  return modules;
}

double BudgetOfEach(const std::vector<Module>& modules, double budget_s) {
  const auto measured = std::ranges::count_if(
      modules, [](const Module& module) { return !OpenInput(module.graph).valid(); });
  return budget_s / static_cast<double>(std::max<int64_t>(measured, 1));
}

Result<Built> Build(const std::string& path, const BuildOptions& options,
                    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles) {
  const FloatMode mode;  // of constants that are folded
  const auto begin = std::chrono::steady_clock::now();
  Built built;
  WEFT_TRY(built.modules, OpenAll(path, options, profiles));
  BuildOptions each = options;
  std::set<TuningKey> decided;
  each.decided = &decided;
  each.budget_s = BudgetOfEach(built.modules, options.budget_s);
  std::vector<plan::Plan> plans;
  for (Module& module : built.modules) {
    WEFT_TRY(AdvanceThroughCache(module, each));
    plans.push_back(module.plan);
  }
  WEFT_TRY(built.plan, MergePlans(std::move(plans)));
  WEFT_TRY(CompileKernels(built.plan, options));
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return built;
}

Result<std::unique_ptr<executor::Executor>> MakeExecutor(plan::Plan plan,
                                                         const BuildOptions& options,
                                                         int32_t threads) {
  NestedBuilders builders = BuildersFor(plan.target, options);
  return executor::Executor::Load(std::move(plan),
                                  {.threads = static_cast<uint32_t>(std::max(threads, 0)),
                                   .cache = options.cache,
                                   .compiler = CompileKernel,
                                   .specialize = std::move(builders.specialize),
                                   .shapes_of_none = std::move(builders.shapes_of_none),
                                   .generalize = std::move(builders.generalize),
                                   .max_bytes = options.max_bytes});
}

Status CompileKernels(const plan::Plan& plan, const BuildOptions& options) {
  const FileCache* const cache = options.cache;
  if (!cache) return {};
  const std::string_view kind = CodeKind(plan.target);
  std::mutex mutex;
  Status first;
  InParallel(plan.kernels.size(), [&](size_t i) {
    const plan::Kernel& kernel = plan.kernels[i];
    if (cache->PathOf(kind, kernel.key)) return;
    auto code = [&]() -> Result<std::vector<uint8_t>> {
      WEFT_TRY(CheckAbandoned(options));
      return CompileKernel(kernel, plan.target);
    }();
    if (code.ok()) {
      cache->Put(kind, kernel.key, {reinterpret_cast<const char*>(code->data()), code->size()});
    } else {
      const std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(code.status());
    }
  });
  return first;
}

}  // namespace weft::driver
