// Which cells of a tensor are written: a hull less disjoint boxes, or one bit a cell where writes
// are not boxes (strides, diagonals).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tc_lang/program.h"

namespace weft::tc {

using IntBox = std::vector<Interval>;  // closed, by dimension

// What may be tried out one by one, over a whole program: a text can ask for any number of cells.
struct Work {
  int64_t left = int64_t{1} << 26;
  bool Take(int64_t steps) { return (left -= steps) >= 0; }
};

class Region {
 public:
  explicit Region(IntBox hull);
  // What the statement writes through these subscripts. False when there are too many cells to say.
  bool Write(const Program& program, const Statement& s, Work& work);
  // True if cells of `box` that lie in the hull are still unwritten.
  bool Misses(const IntBox& box) const;
  bool Full() const { return !Misses(hull_); }

 private:
  void Subtract(const IntBox& box);
  bool MakeBits(Work& work);
  bool WriteCells(const Program& program, const Statement& s, Work& work);

  IntBox hull_;
  std::vector<IntBox> open_;                  // disjoint
  std::optional<std::vector<bool>> written_;  // row-major over the hull; replaces open_
};

// Index ranges and extents as numbers. A param counts as 37: enough to tell pieces of a tensor
// apart.
IntBox RangesOf(const Program& program, const Statement& s);
IntBox HullOf(const Program& program, TensorId tensor);
// The cells that a read touches at most, clipped by nothing. Subscripts that are not affine touch
// all.
IntBox ReadBox(const Program& program, const Statement& s, const Expr& read);
// The least and largest value: intervals first, every point where those are not exact and it is
// cheap.
Interval TightBounds(const Affine& e, const IntBox& ranges, const Interval& target);
// Whether no two instances of the left indices write the same cell; none if too large to tell.
std::optional<bool> WritesEachCellOnce(const Program& program, const Statement& s, Work& work);

}  // namespace weft::tc
