// Several specializations of one model in one plan.
#include <fmt/format.h>

#include <map>

#include "driver/pipeline.h"

namespace weft::driver {

// A kernel's name ends in the hash of its nest, so equal names are equal kernels.
Result<plan::Plan> MergePlans(std::vector<plan::Plan> plans) {
  if (plans.empty()) return Internal("no plan to merge");
  plan::Plan merged = std::move(plans[0]);
  std::map<std::string, plan::KernelId> by_name;
  for (size_t i = 0; i < merged.kernels.size(); ++i)
    by_name[merged.kernels[i].name] = plan::KernelId(i);
  for (size_t p = 1; p < plans.size(); ++p) {
    plan::Specialization& s = plans[p].specializations.at(0);
    for (plan::Step& step : s.steps) {
      if (step.kind != plan::StepKind::kOwn) continue;
      const plan::Kernel& kernel = plans[p].kernels[step.kernel.index];
      const auto [it, is_new] = by_name.emplace(kernel.name, plan::KernelId(merged.kernels.size()));
      if (is_new)
        merged.kernels.push_back(kernel);
      else if (merged.kernels[it->second.index].key != kernel.key)
        return Internal(fmt::format("two nests share the name \"{}\"", kernel.name));
      step.kernel = it->second;
    }
    merged.blobs.Add(plans[p].blobs);
    merged.measured = merged.measured && plans[p].measured;
    merged.specializations.push_back(std::move(s));
  }
  return merged;
}

}  // namespace weft::driver
