// What a measurement is filed under: everything that a step's time depends on, and no names.
#pragma once

#include "base/cache/tuning_db.h"
#include "fallback/call.h"
#include "polyhedral/schedule.h"

namespace weft::tuner {

// Equal groups of a network, and of other networks, have the same key: tensors and statements go by
// position, layouts and constancy of the operands are part of the text.
TuningKey KeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice);
TuningKey KeyOf(const fallback::LibraryCall& call, fallback::Library library, const Target& target);

}  // namespace weft::tuner
