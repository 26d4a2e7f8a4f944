// What measurements of a grouping are filed under, in the tuning database.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cache/tuning_db.h"
#include "base/status.h"
#include "driver/module.h"

namespace weft::driver {

// By group of a module at Form::kCall or later; views have none, they take no time.
Result<std::vector<std::optional<TuningKey>>> StepKeys(const Module& module);
// Its graph, which names constants by their hashes: to be made once for many keys.
std::string GraphText(const Module& module);
// Of a network as a whole, by its graph's text, when its groups are those with these keys.
TuningKey NetworkKey(std::string_view graph, const Target& target,
                     std::span<const std::optional<TuningKey>> steps);

}  // namespace weft::driver
