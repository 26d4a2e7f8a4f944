// A contraction of f32 as tiles: of blocks, and in them of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// What a block and a thread of it take. A thread's cells are quads of 4x4, a block's width apart.
struct TileShape {
  int64_t height = 0, width = 0;  // of a block, in cells
  int64_t steps = 0;              // of the sum, for which factors are in shared memory
  int64_t thread_rows = 0, thread_columns = 0;  // cells of a thread

  int64_t ThreadsX() const { return width / thread_columns; }
  int64_t ThreadsY() const { return height / thread_rows; }
  // Whole quads, whole warps, and what a block has of threads, registers and shared memory.
  bool IsValid() const;
  bool operator==(const TileShape&) const = default;
};
std::span<const TileShape> TileShapes();  // those that are tried

struct Tiles {
  loops::LoopNest nest;
  TileShape shape;
  int64_t blocks = 1;
};

// Takes a parallel band of constant extents whose body is
//
//   stores; loops { if … { c = fma(a, b, c) } }; stores
//
// where c is a cell of its own for each iteration. Loops of the band along which only a moves are
// one axis of the tile, by a single number, those along which only b does the other, and the rest
// are blocks: of a convolution, pixels, output channels, and groups. Loops of the sum follow one
// another; the longest, or as many as fill its parts, are taken `steps` at a time, for which all
// threads bring what a and b are there to shared memory, so that each element is read once for a
// tile. A part's end is the sum's own, and where bounds or conditions move along the tile (a window
// at an edge) each cell has them as conditions: nothing is added that the nest does not add. Stores
// around the loops happen for cells inside the band only.
//
// The shape is the given one, which must be valid, else that which costs least by a model of the
// device. nullopt if the nest has another form, or if either axis or the sum is too short for a
// tile.
std::optional<Tiles> MapTiles(loops::LoopNest nest, loops::StmtId outermost,
                              const TileShape* forced = nullptr);

}  // namespace weft::polyhedral::cuda
