// Sums of a nest, and of those with few results and many summands the two launches they become.
#pragma once

#include <algorithm>
#include <cstdint>
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

// In how many parts each of so many sums is added up so that they fill a device: blocks along sums
// whose summands lie side by side, else threads across them. Below 2 if the sums fill it, or if
// there is too little to add up.
inline int64_t PartsToFill(int64_t sums, int64_t summands, bool across) {
  constexpr int64_t kBlocks = 264, kThreads = 32768;  // of 132 multiprocessors, two and 256 each
  constexpr int64_t kLeastOfBlock = 4096, kLeastOfThread = 16, kLeast = 1 << 18,
                    kLeastAcross = 1 << 20;
  const int64_t all = summands > kLeastAcross ? kLeastAcross : sums * summands;
  if (across) return all < kLeastAcross ? 1 : std::min(kThreads / sums, summands / kLeastOfThread);
  return all < kLeast ? 1 : std::min(kBlocks / sums, summands / kLeastOfBlock);
}

// A parallel range each of whose iterations has one long sum, as two: parts of the sums, left in
// grid space, and the range again, which adds those up in their order. nullopt if it is no such
// range, or if it fills a device as it is. The second reuses the statements of the range.
std::optional<std::pair<loops::StmtId, loops::StmtId>> SplitSum(loops::LoopNest& nest,
                                                                loops::StmtId range);

}  // namespace weft::polyhedral::cuda
