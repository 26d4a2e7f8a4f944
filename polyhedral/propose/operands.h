// What the search for a tile of registers asks of a contraction's two operands: which index moves
// what, how it lies in memory, and what it costs to have it otherwise.
//
// An index is one of the anchor statement; a read is one of the contraction's two.
#pragma once

#include <algorithm>

#include "polyhedral/access.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {

struct Operands {
  Operands(const ClusterView& view, const Contraction& contraction)
      : view(view),
        c(contraction),
        program(view.program()),
        s(view.At(view.anchor)),
        axes(view.axes[view.anchor]) {}

  int64_t Extent(int32_t index) const { return view.Extent(axes[index]); }
  // Elements of the accumulators' type in a register.
  int64_t Vector() const { return view.request->target.VectorBytes() / SizeBytes(s.accumulate); }
  // Statements that share the cluster iterate over this index together; others reduce it.
  bool IsShared(int32_t index) const { return view.IsShared(axes[index]); }
  bool Uses(tc::ExprId read, int32_t index) const { return polyhedral::Uses(program, read, index); }
  bool MovesBoth(int32_t index) const { return Uses(c.x, index) && Uses(c.w, index); }
  int32_t AxisOf(tc::ExprId read, int32_t index) const {
    return polyhedral::AxisOf(program, read, index);
  }
  // The axis of a read whose successive elements the index runs through, from a multiple of its
  // extent on, and which no other index moves by less.
  int32_t AxisAlong(tc::ExprId read, int32_t index) const;
  // d if the index moves the read once in d steps, by floor(index / d) and nothing else; else 1.
  int64_t StepsToMove(tc::ExprId read, int32_t index) const {
    return std::max<int64_t>(1, polyhedral::StepsToMove(program, read, index));
  }
  // Whether the index moves the read together with another one, not by a stride alone.
  bool IsWindow(tc::ExprId read, int32_t index) const;
  // The innermost axis of a read's subscripts, and whether pairs of the index's steps lie side by
  // side along it: the index alone, or as taps of a window, if they are even in number.
  size_t Innermost(const tc::Expr& read) const;
  bool Adjacent(tc::ExprId read, int32_t index) const;
  // Bytes of the places that are read: strides skip some.
  int64_t Bytes(tc::ExprId read) const;

  // The index along which the last statement's results lie side by side; -1 if there is none.
  int32_t OutputLane() const;

  // The operand that is loaded in vectors if lanes are along this index, and the other.
  tc::ExprId Streamed(int32_t lane) const { return Uses(c.w, lane) ? c.w : c.x; }
  tc::ExprId Broadcast(int32_t lane) const { return Uses(c.w, lane) ? c.x : c.w; }
  // Whether lanes along the index can be loaded.
  bool Streams(tc::ExprId read, int32_t index) const;
  // How many elements apart lanes along the index lie, where registers are picked together from as
  // many; else 1. What is picked has to serve several rows.
  int64_t StrideOf(tc::ExprId read, int32_t index) const;
  // A constant is packed so that this index is innermost.
  bool Packable(tc::ExprId read, int32_t index) const;
  // A copy of an operand is packed likewise, which costs something.
  bool IsCopy(tc::ExprId read) const;
  bool TakesCopy(tc::ExprId read, int32_t index) const;
  // The operand of which lanes along the index read a copy, if they may; an index that moves both
  // needs the other to be loaded as it lies. Not valid: none.
  tc::ExprId Copied(int32_t lane) const;
  double CopyCycles(tc::ExprId read) const;  // for an element of the result
  // Each step of the sum reads the operand in another page, as in long rows of a matrix.
  bool LeapsPages(tc::ExprId read, int32_t lane) const;

  // Bytes from what the read takes at one step of the index to the next; 0 if they differ.
  int64_t BytesBetween(tc::ExprId read, int32_t index) const;
  // The same of what the last statement stores, with an index of the contraction.
  int64_t BytesBetweenResults(int32_t index) const;
  int64_t ResultBytes() const;  // of one

  double Steps() const;  // of the whole sum
  // Reduced indices, outermost first: that along which the broadcast operand is contiguous last.
  std::vector<int32_t> ReductionOrder(int32_t lane) const;

  // Numbers of at most 16 bits are loaded, multiplied and added up two or four at a time, if those
  // of the rows' operand lie side by side.
  bool IsNarrow() const;
  // By instructions that take subnormal numbers for zero.
  bool Flushes() const;

  const ClusterView& view;
  const Contraction& c;
  const tc::Program& program;
  const tc::Statement& s;
  const std::vector<std::string>& axes;
};

}  // namespace weft::polyhedral
