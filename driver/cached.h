// What the cache and the tuning database know of a build, found without building.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "driver/options.h"

namespace weft::driver {

// Of one specialization. Without a plan in the cache, kernels and steps are those of estimates.
struct Cached {
  struct Kernel {
    std::string name;
    bool is_compiled = false;
  };
  bool is_planned = false;
  std::string key;                       // of its plan in the cache
  std::optional<double> other_budget_s;  // not planned, but with this budget it is
  std::vector<Kernel> kernels;
  int64_t steps = 0, measured = 0;  // steps that take time, and those with a record
};

// As Build with these options and profiles would look it up. The cache has to be there.
Result<std::vector<Cached>> FindCached(
    const std::string& path, const BuildOptions& options,
    const std::vector<std::vector<std::pair<std::string, Shape>>>& profiles = {});

}  // namespace weft::driver
