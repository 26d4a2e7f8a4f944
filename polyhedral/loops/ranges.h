// What is known about variables at a place in a nest: enough to prove that an index stays in its
// buffer.
//
// Bounds by intervals alone can't see that h + r - 1 >= 0 when r starts at max(0, 1 - h). So a
// lower bound of an expression is searched for by putting the bounds of its innermost variable in
// its place, one variable after the other, and by subtracting constraints (guards, conditions) that
// are known to be
// >= 0: Fourier and Motzkin's elimination, as far as small expressions need it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/affine.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {

class Ranges {
 public:
  explicit Ranges(const LoopNest& nest) : nest_(nest) {}

  // Enter and leave the scope of a loop or let, innermost last; and of constraints, each >= 0.
  void Push(const Stmt& binder);
  void Pop(const Stmt& binder);
  void PushConstraints(const std::vector<Affine>& constraints);
  void PopConstraints(size_t count);

  Interval Of(const Affine& e) const;         // by intervals
  bool NonNegative(const Affine& e) const;    // proved; false means "not shown"
  int64_t MostTrips(const Stmt& loop) const;  // at least as many as it ever runs
  bool IsBound(Var v) const { return v < nest_.params || facts_.contains(v); }

 private:
  struct Fact {
    std::vector<Affine> lo, last;  // lo <= v <= last, each
    Interval range;
  };
  Interval RangeOf(Var v) const;
  // At least `wanted` if that is found, else the best that is.
  int64_t LowerBound(const Affine& e, int64_t wanted, int& budget) const;

  const LoopNest& nest_;
  std::map<Var, Fact> facts_;
  std::vector<Var> order_;  // bound variables, innermost last
  std::vector<Affine> constraints_;
};

// The trip count of a loop whose bounds differ by a constant; -1 if they don't.
int64_t ConstantTrip(const Stmt& loop);

}  // namespace weft::loops
