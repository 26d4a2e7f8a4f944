// What measurements of a grouping are filed under, in the tuning database.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/cache/tuning_db.h"
#include "base/status.h"
#include "driver/module.h"

namespace weft::driver {

// By group of a module at Form::kCall or later; views have none, they take no time.
Result<std::vector<std::optional<TuningKey>>> StepKeys(const Module& module);
// Of the network as a whole when its groups are those with these keys.
TuningKey NetworkKey(const Module& module, std::span<const std::optional<TuningKey>> steps);

}  // namespace weft::driver
