// Which tile of accumulators keeps the multipliers busy.
//
// Rows times lanes of the output stay in registers while the reduction runs. Per step of it, an
// operand costs a load for each vector of lanes (or one broadcast, if lanes don't move it) times
// the rows that move it. The best tile takes the fewest cycles over the whole output, exact tails
// included: two multiply-adds and two loads a cycle, a latency of four cycles (measured:
// performance study, section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/target.h"

namespace weft::polyhedral {

struct TileShape {
  int64_t rows = 1, lanes = 1;  // lanes in elements
  double cycles = 0;            // of one step of the reduction, over the whole output
  double far = 0;               // likewise, of waiting for the second cache
};

// How the two operands move, how many instructions load either, and what else wants registers:
// `parts` for each vector of lanes that is loaded, `spare` for a broadcast and for products before
// they are added. A tile's lanes take a panel of `steps` times so many bytes for each; its rows
// begin anew after so many steps, if they are cut into blocks.
struct OperandMoves {
  bool x_lanes = false, x_rows = false, w_lanes = false, w_rows = false;
  int64_t x_loads = 1, w_loads = 1, parts = 1, spare = 1;
  double steps = 0;
  int64_t lane_bytes = 0, block = 0, row_bytes = 0;
  bool crowded = false;  // the panel's steps push each other out of the nearest cache
};

// Tiles for an output of m rows and n elements along lanes, best first, the wait counted; `vector`
// elements a register, at most `most` of which are accumulators.
std::vector<TileShape> RankTiles(const Target& target, const OperandMoves& moves, int64_t m,
                                 int64_t n, int64_t vector, int64_t most);

// Of lines that lie so many bytes apart, those in sets of the nearest cache that have fewer ways,
// and how many are too many there: all that are a multiple of a page apart lie in one set.
struct Crowd {
  int64_t lines = 0, too_many = 0;
};
Crowd CrowdOf(const Target& target, int64_t bytes_apart, int64_t lines);

// How many of them that follow one another the cache keeps, so that none of its sets has more than
// its ways: all, where that is 64 or more (of planes of 32x32, 48x48 and 56x56 numbers eight, 32
// and all in 32 KB of eight ways).
int64_t UncrowdedLines(const Target& target, int64_t bytes_apart, int64_t lines);

// The same for a processor that multiplies matrices of bytes: blocks of tiles (see
// loops/matrix_tiles.h), of sums of `quads` quads of steps, `taps` times.
std::vector<TileShape> RankMatrixTiles(int64_t m, int64_t n, int64_t quads, double taps);

}  // namespace weft::polyhedral
