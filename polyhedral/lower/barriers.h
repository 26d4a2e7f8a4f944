// Where ranks of a team have to wait for each other.
#pragma once

#include "polyhedral/lower/plan.h"
#include "polyhedral/lower/storage.h"

namespace weft::polyhedral::lower {

// Whether a rank may touch in `after` what another one writes in `before`, or write what another
// one touches there. `same_range`: both are one parallel loop over the same constant range, whose
// equal parts go to the ranks in order. Then an iteration is the same rank's in both, and what
// passes only from each to its like needs no barrier (Tseng, "Compiler Optimizations for
// Eliminating Barrier Synchronization", PPoPP 1995).
bool NeedBarrier(const Plan& plan, const Storage& storage, const Step& before, const Step& after,
                 bool same_range);

}  // namespace weft::polyhedral::lower
