// Sums of a nest, and of those with few results and many summands the two launches they become.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// x = op(x, term), x at one cell for all iterations of the loops around it; op is also min or max.
struct Sum {
  std::vector<loops::StmtId> loops;  // perfectly nested, outermost first
  loops::StmtId store;
  ScalarOp op = ScalarOp::kAdd;
};
std::optional<Sum> AsSum(const loops::LoopNest& nest, loops::StmtId loop);
double IdentityOf(ScalarOp op);
// x = op(x, value).
loops::StmtId AddTo(loops::LoopNest& nest, ScalarOp op, loops::BufferId x,
                    std::vector<Affine> index, loops::ExprId value);
// The sum's statement adds to another cell.
void Redirect(loops::LoopNest& nest, loops::StmtId store, loops::BufferId to);

// A parallel range each of whose iterations has one long sum, as two: parts of the sums, left in
// grid space, and the range again, which adds those up in their order. nullopt if it is no such
// range, or if it fills a device as it is. The second reuses the statements of the range.
std::optional<std::pair<loops::StmtId, loops::StmtId>> SplitSum(loops::LoopNest& nest,
                                                                loops::StmtId range);

}  // namespace weft::polyhedral::cuda
