#include "polyhedral/cuda/launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/sums.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

// What stands at the top, marks and barriers aside, in its order; false if something is no range.
// Singles stay what they are.
bool TakeParts(const LoopNest& nest, const std::vector<StmtId>& body, std::vector<StmtId>& parts) {
  for (const StmtId id : body) {
    const Stmt& s = nest[id];
    if (s.kind == StmtKind::kMark) {
      if (!TakeParts(nest, s.body, parts)) return false;
    } else if (s.kind == StmtKind::kSingle ||
               (s.kind == StmtKind::kFor && s.loop == LoopKind::kParallel)) {
      parts.push_back(id);
    } else if (s.kind != StmtKind::kBarrier) {
      return false;
    }
  }
  return true;
}

// The same, with a range of one iteration for a single.
bool TakeRanges(LoopNest& nest, const std::vector<StmtId>& body, std::vector<StmtId>& ranges) {
  std::vector<StmtId> parts;
  if (!TakeParts(nest, body, parts)) return false;
  for (const StmtId id : parts) {
    const Stmt s = nest[id];
    const bool is_single = s.kind == StmtKind::kSingle;
    ranges.push_back(!is_single ? id
                                : loops::AddStmt(nest, {.kind = StmtKind::kFor,
                                                        .var = loops::AddVar(nest, "one"),
                                                        .lo = {0},
                                                        .hi = {1},
                                                        .loop = LoopKind::kParallel,
                                                        .body = s.body}));
  }
  return true;
}

bool HasLoops(const LoopNest& nest, const std::vector<StmtId>& body) {
  return std::ranges::any_of(body, [&](StmtId id) {
    const Stmt& s = nest[id];
    return s.kind == StmtKind::kFor || HasLoops(nest, s.body) || HasLoops(nest, s.otherwise);
  });
}

// No element that one of them writes is the other's.
bool AreApart(const LoopNest& nest, StmtId a, StmtId b) {
  std::vector<StmtId> binders;
  const auto range = [&](Var v) { return RangeOf(nest, binders, v); };
  Binders(nest, {a, b}, binders);
  const auto meet = [&](const Touch& t, const Touch& u) {
    if (t.buffer != u.buffer || !(t.is_write || u.is_write)) return false;
    for (size_t axis = 0; axis < t.index.size(); ++axis) {
      const Interval x = t.index[axis].Bounds(range), y = u.index[axis].Bounds(range);
      if (x.hi < y.lo || y.hi < x.lo) return false;
    }
    return true;
  };
  const std::vector<Touch> touches = TouchesOf(nest, {a});
  return std::ranges::none_of(TouchesOf(nest, {b}), [&](const Touch& t) {
    return std::ranges::any_of(touches, [&](const Touch& u) { return meet(t, u); });
  });
}

// Ranges that are to be one.
struct Neighbours {
  std::vector<StmtId> ranges;
  int64_t most = 0, all = 0;  // iterations of the longest, and together; 0 of what stays alone
};

// A range over one loop between constants, without loops inside, that takes no longer than
// starting it does: about 1 us.
std::optional<int64_t> FlatTrip(const LoopNest& nest, StmtId range) {
  const Stmt& s = nest[range];
  if (s.kind != StmtKind::kFor) return std::nullopt;
  const int64_t trip = loops::ConstantTrip(s);
  constexpr int64_t kMost = int64_t{1} << 18;
  const bool is_flat = loops::ParallelBand(nest, range).size() == 1 && trip > 0 && trip <= kMost &&
                       s.step == 1 && s.lo.size() == 1 && s.lo[0].IsConstant() &&
                       !HasLoops(nest, s.body);
  return is_flat ? std::optional(trip) : std::nullopt;
}

bool Takes(const LoopNest& nest, const Neighbours& n, StmtId range, int64_t trip) {
  const int64_t most = std::max(n.most, trip);
  const auto count = static_cast<int64_t>(n.ranges.size()) + 1;
  const bool is_full = 2 * (n.all + trip) >= count * most;  // few threads have nothing to do
  return is_full &&
         std::ranges::all_of(n.ranges, [&](StmtId r) { return AreApart(nest, r, range); });
}

StmtId Merged(LoopNest& nest, const Neighbours& n) {
  if (n.ranges.size() == 1) return n.ranges[0];
  Stmt all = nest[n.ranges[0]];
  all.lo = {0}, all.hi = {n.most};
  all.body.clear();
  for (const StmtId range : n.ranges) {
    const Stmt s = nest[range];
    std::vector<StmtId> body =
        Rewriter(nest, {{s.var, s.lo[0] + Affine::OfVar(all.var)}}).Copy(std::vector(s.body));
    const int64_t trip = loops::ConstantTrip(s);
    if (trip < n.most)
      body = {loops::AddStmt(nest, {.kind = StmtKind::kIf,
                                    .conditions = {Affine(trip - 1) - Affine::OfVar(all.var)},
                                    .body = std::move(body)})};
    all.body.insert(all.body.end(), body.begin(), body.end());
  }
  return loops::AddStmt(nest, std::move(all));
}

// Operands and what launches hand on, by their names in the launches: among the buffers of all
// there may be a launch's own that had to take such a name.
using SharedBuffers = std::map<std::string, BufferId>;

// A launch's statements in a nest of all, with variables and locals of their own.
class Appender {
 public:
  Appender(LoopNest& to, const LoopNest& from, SharedBuffers& shared)
      : to_(to), from_(from), shared_(shared) {}

  void Append() {
    for (Var v = 0; v < static_cast<Var>(from_.vars.size()); ++v)
      vars_.push_back(v < from_.params ? v : -1);
    const std::vector<StmtId> body = Body(from_.body);
    if (!to_.body.empty()) to_.body.push_back(AddBarrier(to_));
    to_.body.insert(to_.body.end(), body.begin(), body.end());
  }

 private:
  Var Of(Var v) {
    Var& known = vars_[static_cast<size_t>(v)];
    if (known < 0) known = loops::AddVar(to_, from_.vars[static_cast<size_t>(v)]);
    return known;
  }
  Affine Of(const Affine& e) {
    return e.Substitute([this](Var v) { return Affine::OfVar(Of(v)); });
  }
  std::vector<Affine> Of(const std::vector<Affine>& list) {
    std::vector<Affine> result;
    for (const Affine& e : list) result.push_back(Of(e));
    return result;
  }

  BufferId Of(BufferId id) {
    const auto [known, fresh] = buffers_.emplace(id, BufferId());
    if (!fresh) return known->second;
    const Buffer& b = from_[id];
    const bool is_shared = b.access != loops::Access::kLocal || b.space == Space::kGrid;
    if (!is_shared) return known->second = loops::AddBuffer(to_, b);
    const auto [at, is_new] = shared_.emplace(b.name, BufferId());
    if (is_new) at->second = loops::AddBuffer(to_, b);
    return known->second = at->second;
  }

  ExprId Of(ExprId id) {
    if (const auto it = exprs_.find(id); it != exprs_.end()) return it->second;
    Expr e = from_[id];
    for (ExprId& arg : e.args) arg = Of(arg);
    if (e.kind == loops::ExprKind::kLoad) e.buffer = Of(e.buffer);
    e.index = Of(e.index), e.guards = Of(e.guards);
    to_.exprs.push_back(std::move(e));
    return exprs_[id] = ExprId(to_.exprs.size() - 1);
  }

  std::vector<StmtId> Body(const std::vector<StmtId>& body) {
    std::vector<StmtId> result;
    for (const StmtId id : body) {
      Stmt s = from_[id];
      if (s.var >= 0) s.var = Of(s.var);
      s.lo = Of(s.lo), s.hi = Of(s.hi), s.conditions = Of(s.conditions), s.index = Of(s.index);
      if (s.buffer.valid()) s.buffer = Of(s.buffer);
      if (s.value.valid()) s.value = Of(s.value);
      s.body = Body(s.body), s.otherwise = Body(s.otherwise);
      result.push_back(loops::AddStmt(to_, std::move(s)));
    }
    return result;
  }

  LoopNest& to_;
  const LoopNest& from_;
  SharedBuffers& shared_;
  std::vector<Var> vars_;
  std::map<BufferId, BufferId> buffers_;
  std::map<ExprId, ExprId> exprs_;
};

}  // namespace

LoopNest SideBySide(const LoopNest& nest) {
  // Not ranges in the place of singles: what one rank alone may write, others may not.
  std::vector<StmtId> found;
  if (!TakeParts(nest, nest.body, found)) return nest;
  std::vector<Neighbours> all;
  for (const StmtId id : found) {
    const auto trip = FlatTrip(nest, id);
    if (!all.empty() && trip && all.back().all > 0 && Takes(nest, all.back(), id, *trip)) {
      Neighbours& n = all.back();
      n.ranges.push_back(id);
      n.most = std::max(n.most, *trip), n.all += *trip;
    } else {
      all.push_back({{id}, trip.value_or(0), trip.value_or(0)});
    }
  }
  if (all.size() == found.size()) return nest;
  LoopNest joined = nest;
  joined.body.clear();
  for (const Neighbours& n : all) {
    if (!joined.body.empty()) joined.body.push_back(AddBarrier(joined));
    joined.body.push_back(Merged(joined, n));
  }
  return Compact(joined);
}

std::optional<std::vector<LoopNest>> RangesOf(LoopNest nest) {
  std::vector<StmtId> found, ranges;
  if (!TakeRanges(nest, std::vector(nest.body), found)) return std::nullopt;
  for (Buffer& b : nest.buffers)
    if (b.space == Space::kShared) b.space = Space::kGrid;
  for (const StmtId id : found) {
    if (const auto two = SplitSum(nest, id)) {
      ranges.insert(ranges.end(), {two->first, two->second});
    } else {
      ranges.push_back(id);
    }
  }
  std::vector<LoopNest> nests;
  for (const StmtId id : ranges) {
    nest.body = {id};
    nests.push_back(Compact(nest));
  }
  return nests;
}

LoopNest Join(const std::vector<LoopNest>& launches) {
  const LoopNest& first = launches[0];
  LoopNest all{.name = first.name, .origins = first.origins, .params = first.params};
  all.vars.assign(first.vars.begin(), first.vars.begin() + first.params);
  SharedBuffers shared;
  for (const Buffer& b : first.buffers)
    if (b.access != loops::Access::kLocal) shared[b.name] = loops::AddBuffer(all, b);
  for (const LoopNest& launch : launches) Appender(all, launch, shared).Append();
  return all;
}

}  // namespace weft::polyhedral::cuda
