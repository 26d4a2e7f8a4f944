// Temporaries that nobody needs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/layout.h"
#include "tc_lang/program.h"

namespace weft::tc {

// Operators copy what they want in another order, or with padding around it. Where a statement
// copies elements of an input into a temporary whose axes have the order that the input has in
// memory (by its entry in `layouts`, plain without), readers take the input itself, and statement
// and temporary go. Returns the places that the statements had, in order.
std::vector<size_t> DropCopies(Program& program, const std::map<std::string, Layout>& layouts);

// What a statement looks up in a table, and what it looks it up by, need not be stored first where
// other statements only move it: a concatenation of looked-up rows reads the tables itself. Such
// statements and their temporaries go. Returns the places that they had, in order.
std::vector<size_t> ForwardLookups(Program& program);
// What a statement makes of sums, for each element that was summed up, need not be stored where one
// other statement reads it, each value at its own place, and reduces nothing: a norm's last step is
// done by the activation behind it. Such statements and their temporaries go, but for those of
// 16-bit floats, which round what they store. Returns the places that they had, in order.
std::vector<size_t> ForwardSpreads(Program& program);
// Whether it only moves something, in one statement: one that may go so.
bool MayForward(const Program& program);

}  // namespace weft::tc
