// An iteration of a parallel loop as a block of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

struct Rows {
  loops::LoopNest nest;
  int64_t longest = 1;  // of the loops inside that became threads
};

// The body of an iteration falls into pieces, with barriers between those that depend on each
// other:
//
//   a loop without dependences: its innermost loop along threads
//   a reduction into one cell: each thread reduces its share, and shares are folded in shared
//     memory, 16 at a time. The order is fixed by the number of threads
//   a loop around such pieces: all threads run it together
//   anything else: one thread
//
// A block has at most so many threads. What pieces exchange moves to shared space. nullopt if that
// does not fit, or if the parallel band has more loops than a grid has axes.
std::optional<Rows> MapRows(loops::LoopNest nest, loops::StmtId outermost, int64_t most_threads);

}  // namespace weft::polyhedral::cuda
