// Software prefetch: while one panel of an operand is used, the next one is fetched, and
// while one row of a table is, a later one.
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

}  // namespace weft::polyhedral::lower
