#include "driver/cached.h"

#include "driver/build.h"
#include "driver/kernels.h"
#include "driver/measure_groups.h"
#include "driver/module_cache.h"
#include "driver/pipeline.h"

namespace weft::driver {
namespace {

constexpr double kBudgets[] = {0, 60};  // what the verbs take when none is given

// `share` of a whole budget is for this module.
std::optional<double> OtherBudget(const Module& opened, double share, BuildOptions options) {
  for (const double budget_s : kBudgets) {
    options.budget_s = budget_s * share;
    if (FindModule(opened, ModuleKey(opened, options), options)) return budget_s;
  }
  return std::nullopt;
}

Result<Cached> FindOne(Module module, double share, BuildOptions options) {
  options.budget_s *= share;
  Cached cached{.key = ModuleKey(module, options)};
  if (auto found = FindModule(module, cached.key, options)) {
    cached.is_planned = true;
    module = std::move(*found);
  } else {
    cached.other_budget_s = OtherBudget(module, share, options);
    options.budget_s = 0;
  }
  WEFT_TRY(Advance(module, Form::kPlan, options));
  const std::string_view kind = CodeKind(module.plan.target);
  for (const plan::Kernel& kernel : module.plan.kernels)
    cached.kernels.push_back({kernel.name, options.cache->PathOf(kind, kernel.key).has_value()});
  WEFT_TRY(const auto keys, StepKeys(module));
  for (const std::optional<TuningKey>& key : keys) {
    cached.steps += key.has_value();
    cached.measured += key && options.tuning && options.tuning->Find(*key);
  }
  return cached;
}

}  // namespace

Result<std::vector<Cached>> FindCached(
    const std::string& path, const BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles) {
  std::vector<Cached> all;
  WEFT_TRY(std::vector<Module> modules, OpenAll(path, options, profiles));
  const double share = BudgetOfEach(modules, 1);
  for (Module& module : modules) {
    WEFT_TRY(Cached cached, FindOne(std::move(module), share, options));
    all.push_back(std::move(cached));
  }
  return all;
}

}  // namespace weft::driver
