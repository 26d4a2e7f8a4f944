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
  std::optional<int64_t> blocks;   // of a row, a cluster if there are several
  bool clusters = false;           // whether a device has them: rows may have several blocks
};

// Registers that a thread has of one temporary of a row; threads of a block at most; elements of a
// row that a cluster holds.
inline constexpr int64_t kMostOfOne = 32, kMostThreads = 1024,
                         kMostOfCluster = loops::kMostCluster * kMostThreads * kMostOfOne;

// Neighbouring iterations as the columns of a block: threads along them and along what is inside.
struct ColumnSizes {
  int64_t columns = 0, threads = 0;  // of a block, and of each of its columns
  // Whole warps, and no more than a block has.
  bool IsValid() const;
};

struct Rows {
  loops::LoopNest nest;
  int64_t longest = 1;  // of the loops inside that became threads
  int64_t works = 0;    // how many of them there are
  int64_t threads = 1;  // of a block, or of a column of it
  int64_t columns = 1;  // of a block
  int64_t blocks = 1;   // of a row
  bool holds = false;   // what loops of a row have in common is in registers
  Moves moves;          // with the threads along the loops inside
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
//
// A row that is too long for a block's registers, or one of few that are long, is dealt to the
// blocks of a cluster: each leaves its sums where the others find them, and what is one cell each
// computes for itself. That is so where all that the loops hand on is a thread's own, or computed
// by every block.
//
// What several loops read of an operand at the same place is read once, as far as registers are
// left.
std::optional<Rows> MapRows(loops::LoopNest nest, loops::StmtId outermost, const RowSizes& most);

// The same for iterations whose neighbours lie side by side in memory, while what is inside one
// does not: so many of them are a block, threads are dealt to each of them as to a row, and shares
// meet in shared memory. Without a wish for sizes, those that keep a column in registers. nullopt
// also where the innermost loop of the band is not constant, or where integers that are loaded
// depend on it.
std::optional<Rows> MapColumns(loops::LoopNest nest, loops::StmtId outermost,
                               const std::optional<ColumnSizes>& wanted);

}  // namespace weft::polyhedral::cuda
