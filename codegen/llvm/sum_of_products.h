// Statements that add a product of small numbers to a sum: what instructions do for several at
// once.
#pragma once

#include <optional>

#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct SumOfProducts {
  const loops::Stmt* store = nullptr;
  loops::ExprId sum;                             // loads what was there
  const loops::Expr *a = nullptr, *b = nullptr;  // loads of numbers of 16 bits at most
  bool flushes = false;
};

// What one iteration of a loop adds to a sum that stays where it is, if the loop does nothing else.
std::optional<SumOfProducts> AsSumOfProducts(const loops::LoopNest& nest, const loops::Stmt& loop);

}  // namespace weft::codegen
