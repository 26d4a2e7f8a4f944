#include "polyhedral/cuda/touches.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace weft::polyhedral::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

class Collector {
 public:
  explicit Collector(const LoopNest& nest) : nest_(nest) {}

  void Body(const std::vector<StmtId>& body, bool is_sure) {
    for (const StmtId id : body) {
      const Stmt& s = nest_[id];
      if (s.value.valid()) Reads(s.value, is_sure);
      if (s.kind == StmtKind::kStore) touches.push_back({s.buffer, s.index, true, is_sure});
      if (s.var >= 0) bound.insert(s.var);
      Body(s.body, is_sure && s.kind == StmtKind::kMark);
      Body(s.otherwise, false);
    }
  }

  std::vector<Touch> touches;
  std::set<Var> bound;

 private:
  void Reads(ExprId root, bool is_sure) {
    AnyBelow(nest_, root, [&](const Expr& e) {
      if (e.kind == ExprKind::kLoad) touches.push_back({e.buffer, e.index, false, is_sure});
      return false;
    });
  }

  const LoopNest& nest_;
};

// An index as k*v + outer + inner, inner over variables bound inside the loop.
struct Split {
  int64_t k = 0;
  Affine outer, inner;
};

std::optional<Split> SplitAt(const Affine& e, Var v, const std::set<Var>& inside) {
  const int64_t k = e.CoefficientOf(v);
  const Affine rest = e - Affine::OfVar(v, k);
  if (k == 0 || rest.Uses(v)) return std::nullopt;
  const Affine outer =
      rest.Substitute([&](Var u) { return inside.contains(u) ? Affine(0) : Affine::OfVar(u); });
  Affine inner = rest - outer;
  std::vector<Var> used;
  inner.CollectVars(used);
  const bool apart = std::ranges::all_of(used, [&](Var u) { return inside.contains(u); });
  if (!apart) return std::nullopt;
  return Split{k, outer, std::move(inner)};
}

bool TellsApart(const LoopNest& nest, const Stmt& loop, const std::vector<const Touch*>& touches,
                size_t axis, const std::set<Var>& inside, const std::vector<StmtId>& binders) {
  std::optional<Split> first;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (const Touch* t : touches) {
    const auto split = SplitAt(t->index[axis], loop.var, inside);
    if (!split || (first && (split->k != first->k || split->outer != first->outer))) return false;
    if (!first) first = split;
    const Interval range = split->inner.Bounds([&](Var u) { return RangeOf(nest, binders, u); });
    least = std::min(least, range.lo);
    most = std::max(most, range.hi);
  }
  // Saturated ends mean "unknown"; their difference must not overflow.
  if (least < INT64_MIN / 4 || most > INT64_MAX / 4) return false;
  return most - least < std::abs(first->k) * loop.step;
}

}  // namespace

void Binders(const LoopNest& nest, const std::vector<StmtId>& body, std::vector<StmtId>& out) {
  for (const StmtId id : body) {
    if (nest[id].var >= 0) out.push_back(id);
    Binders(nest, nest[id].body, out);
    Binders(nest, nest[id].otherwise, out);
  }
}

std::vector<Touch> TouchesOf(const LoopNest& nest, const std::vector<StmtId>& body) {
  Collector collector(nest);
  collector.Body(body, true);
  return std::move(collector.touches);
}

std::set<Var> BoundIn(const LoopNest& nest, const std::vector<StmtId>& body) {
  Collector collector(nest);
  collector.Body(body, true);
  return std::move(collector.bound);
}

bool AnyBelow(const LoopNest& nest, ExprId root, const std::function<bool(const Expr&)>& is) {
  std::vector<ExprId> todo = {root};
  std::set<ExprId> done;
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    if (!done.insert(id).second) continue;
    if (is(nest[id])) return true;
    todo.insert(todo.end(), nest[id].args.begin(), nest[id].args.end());
  }
  return false;
}

Interval RangeOf(const LoopNest& nest, const std::vector<StmtId>& binders, Var v) {
  const auto found = std::ranges::find_if(binders, [&](StmtId id) { return nest[id].var == v; });
  if (found == binders.end()) return {INT64_MIN, INT64_MAX};
  const Stmt& s = nest[*found];
  const auto range = [&](Var u) { return RangeOf(nest, binders, u); };
  Interval result{INT64_MIN, INT64_MAX};
  for (const Affine& e : s.lo) result.lo = std::max(result.lo, e.Bounds(range).lo);
  for (const Affine& e : s.hi) result.hi = std::min(result.hi, (e - 1).Bounds(range).hi);
  return result;
}

bool IsFreshIn(const std::vector<Touch>& touches, BufferId buffer) {
  const Touch* first = nullptr;
  for (const Touch& t : touches) {
    if (t.buffer != buffer) continue;
    if (!first) first = &t;
    if (t.index != first->index) return false;
  }
  if (!first || !first->is_write || !first->is_sure) return false;
  return std::ranges::all_of(first->index, [](const Affine& e) { return e.IsConstant(); });
}

bool IsIndependent(const LoopNest& nest, StmtId loop, const std::set<BufferId>& own) {
  const Stmt& s = nest[loop];
  const std::vector<Touch> touches = TouchesOf(nest, s.body);
  const std::set<Var> inside = BoundIn(nest, s.body);
  std::vector<StmtId> binders;
  Binders(nest, nest.body, binders);
  std::set<BufferId> written;
  for (const Touch& t : touches) {
    if (t.is_write && !own.contains(t.buffer)) written.insert(t.buffer);
  }
  return std::ranges::all_of(written, [&](BufferId buffer) {
    std::vector<const Touch*> of_buffer;
    for (const Touch& t : touches) {
      if (t.buffer == buffer) of_buffer.push_back(&t);
    }
    // A window that is folded onto itself may meet itself.
    if (!nest[buffer].fold.empty()) return false;
    for (size_t axis = 0; axis < nest[buffer].shape.size(); ++axis) {
      if (TellsApart(nest, s, of_buffer, axis, inside, binders)) return true;
    }
    return false;
  });
}

}  // namespace weft::polyhedral::cuda
