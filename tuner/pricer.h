// Prices of candidates: estimated, or measured within a budget.
#pragma once

#include <memory>

#include "base/cache/file_cache.h"
#include "base/cache/tuning_db.h"
#include "base/target.h"
#include "partition/partition.h"

namespace weft::tuner {

// budget_s 0: the roofline alone. Otherwise what partition asks for is measured on this machine until
// the budget is spent, reading and writing records in `db` (may be null).
std::unique_ptr<partition::Pricer> MakePricer(const Target& target, double budget_s,
                                              const FileCache* cache, TuningDb* db);

}  // namespace weft::tuner
