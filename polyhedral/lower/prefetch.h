// Software prefetch: while one panel of an operand is used, the next one is fetched, while one row
// of a table is, a later one, and while a window stands in one place, what it will find farther on.
#pragma once

#include <vector>

#include "polyhedral/lower/emit.h"

namespace weft::polyhedral::lower {

// The statements for the body of loop `innermost`, around the update of a reduction whose loops are
// all bound: for each operand that the schedule marks "prefetch", a piece of the panel that comes
// next.
Stmts PrefetchPanels(const Plan& plan, const Storage& storage, const Scope& scope, const Unit& unit,
                     Var innermost, loops::LoopNest& nest);

// A loop that is being written: its dimension, its variable in the nest, its range.
struct SerialLoop {
  Var dim, var;
  Interval piece;
};
// The statements for the body of a loop around one unit: of each table that the schedule marks
// "prefetch", the row that the loop looks up some iterations later. An index that is looked up is
// checked as it is at its turn, so that a wrong one may be told of earlier.
Stmts PrefetchRows(const Plan& plan, const Storage& storage, Scope& scope, Values& values,
                   const Active& active, const SerialLoop& loop, loops::LoopNest& nest);

// The statements for the body of loop `around`, the last one outside of all that a window is
// reduced over: of an operand that the schedule marks "prefetch", what the window reads for the
// first time some rows later. Such a window reads most lines several times; each return to lines it
// has seen ends what the processor's own prefetchers had begun.
Stmts PrefetchWindow(const Plan& plan, const Storage& storage, const Scope& scope, const Unit& unit,
                     Var around, loops::LoopNest& nest);

}  // namespace weft::polyhedral::lower
