// Choices by the seed: any clusters, orders, tiles and lanes that fit a program's names. Many are
// illegal; that is for CheckLegal to say.
#pragma once

#include <cstdint>

#include "polyhedral/schedule.h"

namespace weft::oracle {

polyhedral::Choice RandomChoice(const polyhedral::ScheduleRequest& request, uint64_t seed);

}  // namespace weft::oracle
