// Small steps of a mapping, on a nest that is being changed.
#pragma once

#include <cstdint>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// CUDA C++ Programming Guide: bytes of a block, by default, and blocks of a grid along y and z.
// Along x an int says how many.
constexpr int64_t kSharedBytes = 48 << 10, kMostBlocks = 65535;

// The loop's iterations, `count` at a time along `inner`, each such part an iteration of `outer`.
// A loop that is one part needs no outer loop. Gives the statement that stands in its place.
loops::StmtId Deal(loops::LoopNest& nest, loops::StmtId loop, loops::LoopKind outer,
                   loops::LoopKind inner, int64_t count);
// The loop's iterations as blocks along y or z: one each, or some, one after another, where that is
// more than a grid has. Gives the statement that stands in its place.
loops::StmtId DealToBlocks(loops::LoopNest& nest, loops::StmtId loop, loops::LoopKind along);
// Another statement in the place of one, wherever it stands below a body.
void Replace(loops::LoopNest& nest, std::vector<loops::StmtId>& body, loops::StmtId from,
             loops::StmtId to);
loops::StmtId AddBarrier(loops::LoopNest& nest);
loops::StmtId AddSingle(loops::LoopNest& nest, std::vector<loops::StmtId> body);
// The trip count, at least 1: exact if it is constant, the most if one of its ends is, a guess if
// it depends on params, else 1.
int64_t TripOf(const loops::LoopNest& nest, loops::StmtId loop);
int64_t RoundUpToWarps(int64_t threads, int64_t most);

}  // namespace weft::polyhedral::cuda
