// An iteration of a parallel loop as a block of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "polyhedral/cuda/lanes.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

struct RowSizes {
  std::optional<int64_t> threads;  // of a block at most; a block has a power of two
  std::optional<int64_t> lanes;    // of a thread at most; without, as many as leave a warp to do
};

struct Rows {
  loops::LoopNest nest;
  int64_t longest = 1;  // of the loops inside that became threads
  int64_t threads = 1;
  Moves moves;  // with its threads
};

// The body of an iteration falls into pieces, with barriers between those that depend on each
// other:
//
//   loops without dependences: along threads, several as one
//   a reduction into one cell: each thread reduces its share, warps fold theirs by exchanging them,
//     and all threads what their warps have. The order is fixed by the number of threads
//   a loop around such pieces: all threads run it together
//   cells that follow from inputs and from such sums: all threads, each for itself
//   anything else: one thread
//
// What pieces hand on is a thread's own where it meets the same places in all of them, and is as
// much as its registers hold; else it moves to shared space. nullopt if that is more than a block
// has, and too much for scratch.
std::optional<Rows> MapRows(loops::LoopNest nest, loops::StmtId outermost, const RowSizes& most);

}  // namespace weft::polyhedral::cuda
