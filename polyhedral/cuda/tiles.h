// A contraction of f32 as tiles: of blocks, and in them of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// A block has `rows` rows of 16 threads; a thread has quads of 4x4 cells.
struct TileShape {
  int64_t rows = 0, row_quads = 0, column_quads = 0;
  int64_t Height() const;
  int64_t Width() const;
};
std::span<const TileShape> TileShapes();

struct Tiles {
  loops::LoopNest nest;
  int64_t blocks = 1;
};

// Takes a parallel band of constant extents whose body is
//
//   stores; loops { c = fma(a, b, c) }; stores
//
// where c is a cell of its own for each iteration, a does not move along one axis of the band and b
// not along another, and no bound of the loops moves along either. A block has a tile of those two
// axes, a thread 4x4 to 8x8 cells of it in registers. For each part of the longest reduced loop all
// threads bring what a and b are there to shared memory, so that each element is read once for a
// tile, and a part's end is the loop's own: nothing is added that the nest does not add. Stores
// around the loops happen for cells inside the band only.
//
// The shape is the given one, else that which costs least by a model of the device. nullopt if the
// nest has another form, or if either axis or the sum is too short for a tile.
std::optional<Tiles> MapTiles(loops::LoopNest nest, loops::StmtId outermost,
                              const TileShape* forced = nullptr);

}  // namespace weft::polyhedral::cuda
