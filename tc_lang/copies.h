// Copies that nobody needs.
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
// Whether it only moves something, in one statement: one that may go so.
bool MayForward(const Program& program);

}  // namespace weft::tc
