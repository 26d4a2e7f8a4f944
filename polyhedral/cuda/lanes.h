// Neighbours along a loop that one thread takes together, so that it moves 16 bytes at once; and
// several loops as one, so that threads are dealt what all of them have.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// What whoever starts a kernel on a device aligns its operands to (executor/on_device.cpp).
constexpr int64_t kDeviceAlign = 16;

// How many iterations of a loop a thread may take at once: as many of the largest elements that
// move with it as make 16 bytes, if whatever moves lies side by side and is aligned to all of them,
// and they divide the loop's. 1 if there are none. Iterations may run at once, those in `own` are
// an iteration's.
int64_t LanesAlong(const loops::LoopNest& nest, loops::StmtId loop,
                   const std::set<loops::BufferId>& own);

// The loop with so many iterations in each of its own, as vector loops around its statements: what
// `own` holds gets an axis of lanes, and what `resident` holds is found at a part and a lane.
void TakeLanes(loops::LoopNest& nest, loops::StmtId loop, int64_t lanes,
               const std::set<loops::BufferId>& own,
               const std::map<loops::BufferId, Affine>& resident = {});

// How many accesses of operands move with a variable, each as often as it happens.
struct Moves {
  double along = 0;   // by one element
  double across = 0;  // by more
};
Moves MovesOf(const loops::LoopNest& nest, const std::vector<loops::StmtId>& body, Var v);

// Perfectly nested loops, outermost first, that can be one; what stands in their place has their
// variables as digits of its number, the last the fastest.
bool CanMerge(const loops::LoopNest& nest, const std::vector<loops::StmtId>& loops);
loops::StmtId Merge(loops::LoopNest& nest, const std::vector<loops::StmtId>& loops);

// The other way: the loops that the lets at a loop's head are digits of, perfectly nested. It alone
// if they are not, or if the rest knows its number.
std::vector<loops::StmtId> Split(loops::LoopNest& nest, loops::StmtId loop);

}  // namespace weft::polyhedral::cuda
