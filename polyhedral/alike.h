// Requests that are one but for the names of tensors: a network repeats its layers, and their
// schedules.
#pragma once

#include <string>

#include "base/verdict.h"
#include "polyhedral/copies.h"
#include "polyhedral/schedule.h"

namespace weft::polyhedral {

// Everything that a schedule depends on: equal for requests that differ only in what their program,
// its tensors and their origins are called.
std::string KeyOf(const ScheduleRequest& request);

// A request in names that say nothing, those of indices included: one for all groups that compute
// the same in the same layouts.
CopiedRequest Nameless(const ScheduleRequest& request);

// A choice for `known` in the names of `request`, which differs in names alone, those of indices
// too. Refuses one that names what `known` has not.
Verdict<Choice> InNamesOf(const ScheduleRequest& request, const ScheduleRequest& known,
                          const Choice& choice);

// What was made of `known` in the names of `request`, which has the same key. Nothing is proved or
// proposed again. Refuses as BuildSchedule does.
Verdict<Scheduled> InNamesOf(const ScheduleRequest& request, const ScheduleRequest& known,
                             const Scheduled& scheduled);

}  // namespace weft::polyhedral
