// Which choice was found best for a group, in the tuning database.
#pragma once

#include <optional>

#include "base/cache/tuning_db.h"
#include "polyhedral/schedule.h"

namespace weft::tuner {

// In the names of this request, whichever group of whichever network it was found for. None if
// nothing is on record, or nothing that fits: the database may come from anywhere, and whoever uses
// the choice has it checked like any other.
std::optional<polyhedral::Choice> FindBest(const polyhedral::ScheduleRequest& request,
                                           TuningDb& db);
// The record's note is left to this. Without effect for a choice that is not of this request.
void StoreBest(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice,
               TuningRecord record, TuningDb& db);

}  // namespace weft::tuner
