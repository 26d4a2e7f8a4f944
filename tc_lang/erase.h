// Statements that go from a program, and what others take over of them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tc_lang/program.h"

namespace weft::tc {

// A tensor that no statement names any more.
void EraseTensor(Program& program, TensorId gone);
// Expressions that no statement has any more.
void DropUnused(Program& program);

ExprId Append(Program& program, Expr e);
// A copy of an expression. What stands in the place of a part of it `instead` gives, or an id that
// is not valid: its copy does.
template <typename F>
ExprId CopyWith(Program& program, ExprId id, const F& instead) {
  Expr e = program[id];
  if (const ExprId other = instead(e); other.valid()) return other;
  for (ExprId& arg : e.args) arg = CopyWith(program, arg, instead);
  return Append(program, std::move(e));
}

// Whether a statement from `place` on, up to `last` and including it, writes what the one at
// `place` reads, whose values `last` could then not compute for itself.
bool WritesReadsOf(const Program& program, size_t place, const Statement& last);

// Has statement after statement erased, where `erase` does so; the places that they had.
template <typename F>
std::vector<size_t> EraseInTurn(const Program& program, F erase) {
  std::vector<size_t> gone;
  for (size_t place = 0; place < program.statements.size();) {
    if (erase(place))
      gone.push_back(place + gone.size());
    else
      ++place;
  }
  return gone;
}

}  // namespace weft::tc
