// What a program's order of execution must keep: its dependences.
//
// Comprehensions write most tensors once, so dependences need no data-flow analysis: an instance
// that reads a cell comes after the one that writes it, and the pairs are those whose subscripts
// agree (reverse of the write composed with the read), statement by statement. Where a tensor is
// written several times, or read before it is rewritten, the order of the text decides, for each
// pair alike. In a loop over several statements (a recurrence) that order is first the loop's
// index, then the text.
//
// The instances of one reduction may run in any order (sums are regrouped, in an order that the
// schedule fixes); they touch one cell, which only matters to loops that run in parallel. Those of
// a tuple reduction keep theirs, by ascending indices: the first of several extremes wins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/affine.h"
#include "tc_lang/program.h"

namespace weft::polyhedral {

struct Dependence {
  enum class Kind : uint8_t { kFlow, kAnti, kOutput, kSameCell, kFirst };
  Kind kind = Kind::kFlow;
  int32_t from = 0, to = 0;  // statements; an instance of `to` comes after those of `from`
  tc::TensorId tensor;
  // Subscripts of the cell, over the indices of `from` and of `to`; unknown where they are loaded.
  std::vector<std::optional<Affine>> source, sink;
  // In a loop over several statements: index 0 of `to` minus index 0 of `from` is at least this.
  std::optional<int64_t> distance;
  // kFirst: the two agree in the reduced indices before this one, and `to` is greater in this one.
  std::optional<int32_t> level;
};

// All that is known about a program's instances; free of isl.
struct Scop {
  const tc::Program* program = nullptr;
  std::vector<Dependence> dependences;
};

Scop Analyze(const tc::Program& program);
// A tuple reduction over one index whose companion grows with it and is a small integer, such as an
// arg-max: the least companion is the first, so that partial results may be joined in any order.
bool FirstIsLeast(const tc::Program& program, const tc::Statement& statement);
// "softmax_max -> softmax_exp on softmax_max (flow)"
std::string Print(const tc::Program& program, const Dependence& dependence);

}  // namespace weft::polyhedral
