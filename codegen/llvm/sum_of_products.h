// Statements that add a product of small numbers to a sum: what instructions do for several at
// once.
#pragma once

#include <optional>

#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

bool IsZero(const loops::Expr& e);  // a literal; of floats of 32 bits and integers, not -0

struct SumOfProducts {
  const loops::Stmt* store = nullptr;
  loops::ExprId sum;                             // loads what was there
  const loops::Expr *a = nullptr, *b = nullptr;  // loads of numbers of 16 bits at most
  bool flushes = false;
};

// What one iteration of a loop adds to a sum that stays where it is, if the loop does nothing else.
std::optional<SumOfProducts> AsSumOfProducts(const loops::LoopNest& nest, const loops::Stmt& loop);

// What the lanes of a loop add to sums, if they do nothing else: the products of bfloat16 of an
// unrolled loop `steps`, even and odd ones apart as TDPBF16PS does, by way of two registers that
// nothing else uses.
struct SumApart {
  SumOfProducts sum;
  const loops::Stmt* steps = nullptr;
  loops::BufferId apart;  // the two registers of each lane
};
std::optional<SumApart> AsSumApart(const loops::LoopNest& nest, const loops::Stmt& lanes);

}  // namespace weft::codegen
