// Iterations that are neighbours in memory, as threads of a block next to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// The body of a loop of constant extent from 0 on, written for one iteration, so many of which are
// a block: the loop becomes one over blocks, and in the body each stretch between barriers stands
// in a loop of threads along x, so that threads without an iteration come to the barriers too. What
// an iteration has of its own, and its threads (`own`) do not, gets an axis for the iterations of a
// block. nullopt if what is around barriers, or an integer that is loaded, differs between them.
std::optional<std::vector<loops::StmtId>> OverColumns(loops::LoopNest& nest, loops::StmtId loop,
                                                      int64_t columns,
                                                      const std::set<loops::BufferId>& own,
                                                      const std::vector<loops::StmtId>& body);

}  // namespace weft::polyhedral::cuda
