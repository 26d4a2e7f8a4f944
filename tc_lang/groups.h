// Groups of an axis: sums over them that are spread over the axis again, as a group norm's are.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/layout.h"
#include "tc_lang/program.h"

namespace weft::tc {

// A sum whose terms are sums that nothing else reads is one sum over the indices of both; the inner
// statement and its temporary go. Floats are added up in another order. Returns the places that
// the statements had, in order.
std::vector<size_t> JoinSums(Program& program);

// Where a statement sums up groups of an axis, sum(g) +=! x(4 * g + e), and others have the axis as
// one and read what was summed at c / 4, the axis becomes two, of groups and in them, in all
// tensors and statements that walk it whole: then they have g in common, and a group may be one
// iteration. The program computes the same, in the same order, on the same memory: of operands only
// axes are split that `layouts` (plain without) leaves in one piece, and its entries are rewritten
// along. Tensors in `whole` keep theirs.
void SplitGroups(Program& program, std::map<std::string, Layout>& layouts,
                 std::span<const std::string> whole);

}  // namespace weft::tc
