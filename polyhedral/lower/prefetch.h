// Software prefetch: while one panel of a packed constant is used, the next one is fetched.
#pragma once

#include <vector>

#include "polyhedral/lower/emit.h"

namespace weft::polyhedral::lower {

// The statements for the body of loop `innermost`, around the update of a reduction whose loops are
// all bound: for each operand that the schedule marks "prefetch", a piece of the panel that comes
// next.
Stmts PrefetchPanels(const Plan& plan, const Storage& storage, const Scope& scope, const Unit& unit,
                     Var innermost, loops::LoopNest& nest);

}  // namespace weft::polyhedral::lower
