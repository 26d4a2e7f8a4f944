// Loops of a row that become threads, and what they have in common.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// Iterations of all of the loops together, or of a sum.
struct Work {
  std::vector<loops::StmtId> loops;  // perfectly nested, outermost first
  int64_t trip = 1;                  // of all; a guess where it is not constant
  int64_t lanes = 1;
  std::set<loops::BufferId> own;  // what an iteration has of its own
  loops::StmtId store;            // of a reduction
  ScalarOp op = ScalarOp::kAdd;
};

// Whether all loops run from 0 to a constant, one by one.
bool IsConstant(const loops::LoopNest& nest, const Work& work);
bool SameLoops(const loops::LoopNest& nest, const Work& a, const Work& b);
// Whether an index names the loops' variables, in their order, and nothing else that moves.
bool IsPlaceOf(const loops::LoopNest& nest, const std::vector<Affine>& index, const Work& work);

// What several loops of a row load of an operand at one place.
struct Loaded {
  loops::BufferId buffer;
  std::vector<Affine> index;  // with the variables of the first loop
  loops::StmtId before;       // the first of them
  std::vector<const Work*> readers;
};
// Of the works of a row, by the outermost loop, those that stand in it directly.
std::vector<Loaded> LoadedAgain(const loops::LoopNest& nest, const std::vector<loops::StmtId>& row,
                                const std::map<loops::StmtId, Work>& works);

// A loop that loads it once, for what a thread has of it: of the shape [part, lane], in registers,
// where the others find it then. Indices of what is kept are to be filled in.
struct Copy {
  loops::StmtId loop;
  Work work;
  loops::BufferId kept;
};
Copy CopyOnce(loops::LoopNest& nest, const Loaded& loaded, std::vector<Affine> shape);

}  // namespace weft::polyhedral::cuda
