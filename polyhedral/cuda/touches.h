// What a piece of a nest reads and writes, and whether a loop's iterations may run at once.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

struct Touch {
  loops::BufferId buffer;
  std::vector<Affine> index;
  bool is_write = false;
  bool is_sure = false;  // not below a loop or an `if`: it happens
};

// In the order of the text; a statement's reads come before its write.
std::vector<Touch> TouchesOf(const loops::LoopNest& nest, const std::vector<loops::StmtId>& body);
std::set<Var> BoundIn(const loops::LoopNest& nest, const std::vector<loops::StmtId>& body);

// Whether something is so of a part of a value. Of each part it is asked once, until it is so of
// one.
bool AnyBelow(const loops::LoopNest& nest, loops::ExprId root,
              const std::function<bool(const loops::Expr&)>& is);

// Appends the loops and lets of `body`, and of all that it holds.
void Binders(const loops::LoopNest& nest, const std::vector<loops::StmtId>& body,
             std::vector<loops::StmtId>& out);

// The values of a variable, by intervals of the bounds of its loop or let.
Interval RangeOf(const loops::LoopNest& nest, const std::vector<loops::StmtId>& binders, Var v);

// A buffer of one element that each run of `body` writes before it reads: a copy for each iteration
// of a loop around the body is as good as one for all.
bool IsFreshIn(const std::vector<Touch>& touches, loops::BufferId buffer);

// No iteration of the loop touches what another one writes, buffers in `own` aside. Shown for a
// buffer by one axis: k*v + e, where e moves by less than a step of k*v.
bool IsIndependent(const loops::LoopNest& nest, loops::StmtId loop,
                   const std::set<loops::BufferId>& own);

}  // namespace weft::polyhedral::cuda
