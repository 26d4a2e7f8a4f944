// How sums of products of bytes share AMX's eight registers, each a tile of up to 16 rows of 64
// bytes (Intel's Software Developer's Manual, volume 1, chapter 18).
//
// A block of sums, rows by lanes, is made of tiles of 16 by 16. Beside them there are tiles of the
// two factors: of the one that rows move one or two, of the other all that the block's lanes take
// if they are used again for other rows, else one or two.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::loops {

struct MatrixTiles {
  static constexpr int64_t kRows = 16, kLanes = 16;
  static constexpr int64_t kQuad = 4;        // steps of the sum, the bytes of a lane
  static constexpr int64_t kMostQuads = 16;  // of a tile
  static constexpr int64_t kRegisters = 8;

  int64_t rows = 1, lanes = 1;

  int64_t row_tiles() const { return (rows + kRows - 1) / kRows; }
  int64_t lane_tiles() const { return (lanes + kLanes - 1) / kLanes; }
  int64_t sums() const { return row_tiles() * lane_tiles(); }
  int64_t by_rows() const { return std::min<int64_t>(2, row_tiles()); }
  int64_t by_lanes() const {
    return row_tiles() > 1 ? lane_tiles() : std::min<int64_t>(2, lane_tiles());
  }
  bool Fit() const { return sums() + by_rows() + by_lanes() <= kRegisters; }
  // Of the i-th tile of rows and the j-th of lanes.
  int64_t RowsOf(int64_t i) const { return std::min(kRows, rows - kRows * i); }
  int64_t LanesOf(int64_t j) const { return std::min(kLanes, lanes - kLanes * j); }
  // Which registers.
  int64_t Sum(int64_t i, int64_t j) const { return i * lane_tiles() + j; }
  int64_t ByRows(int64_t i) const { return sums() + InTurns(i, rows, kRows, by_rows()); }
  int64_t ByLanes(int64_t j) const {
    return sums() + by_rows() + InTurns(j, lanes, kLanes, by_lanes());
  }

  // How many quads of steps one instruction takes: as many as there are, or a few less if that
  // leaves no rest.
  static int64_t QuadsAtOnce(int64_t quads) {
    const int64_t least = (quads + kMostQuads - 1) / kMostQuads;
    for (int64_t times = least; times <= least + least / 4; ++times)
      if (quads % times == 0) return quads / times;
    return kMostQuads;
  }

 private:
  // A register has one shape: of two, the second is the last tile's alone if that is smaller.
  static int64_t InTurns(int64_t i, int64_t all, int64_t part, int64_t registers) {
    const int64_t tiles = (all + part - 1) / part;
    return tiles > registers && all % part != 0 ? i == tiles - 1 : i % registers;
  }
};

}  // namespace weft::loops
