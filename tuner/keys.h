// What a measurement is filed under: everything that a step's time depends on, and no names.
#pragma once

#include <string>

#include "base/cache/tuning_db.h"
#include "fallback/call.h"
#include "polyhedral/schedule.h"

namespace weft::tuner {

// What runs plans for this target here: this processor, or the device that executor::cuda opens for
// it, "NVIDIA H100 80GB HBM3 9.0 driver 13.0"; empty if there is none.
std::string DeviceOf(const Target& target);

// Equal groups of a network, and of other networks, have the same key: tensors and statements go by
// position, layouts and constancy of the operands are part of the text.
TuningKey KeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice);
// The same for a run of the group alone, whose times are not those it takes in a network.
TuningKey AloneKeyOf(const polyhedral::ScheduleRequest& request, const polyhedral::Choice& choice);
// Of the record that says which choice is best for a group: its note is the choice, in the names of
// polyhedral::Nameless.
TuningKey BestKeyOf(const polyhedral::ScheduleRequest& request);
TuningKey KeyOf(const fallback::LibraryCall& call, fallback::Library library, const Target& target);

}  // namespace weft::tuner
