#include "polyhedral/cuda/lanes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

bool UsesAny(const std::vector<Affine>& list, Var v) {
  return std::ranges::any_of(list, [v](const Affine& e) { return e.Uses(v); });
}

// Whether statements can stand in lanes along v, and what moves with it.
class Survey {
 public:
  Survey(const LoopNest& nest, const Stmt& loop, const std::set<BufferId>& own)
      : nest_(nest), own_(own), v_(loop.var), lo_(loop.lo[0]) {}

  bool Fits(const std::vector<StmtId>& body) {
    return std::ranges::all_of(body, [this](StmtId id) { return Fits(nest_[id]); });
  }

  // As many as make 16 bytes, if all is aligned to them.
  int64_t Lanes(int64_t trip) const {
    int64_t lanes = moving_.empty() ? 1 : kDeviceAlign / largest_;
    const auto divides = [&](const Affine& e) {
      return e.constant() % lanes == 0 &&
             std::ranges::all_of(e.terms(),
                                 [&](const Affine::Term& t) { return t.coefficient % lanes == 0; });
    };
    while (lanes > 1 && (trip % lanes != 0 || !std::ranges::all_of(moving_, divides))) lanes /= 2;
    return lanes;
  }

 private:
  bool Fits(const Stmt& s) {
    if (UsesAny(s.lo, v_) || UsesAny(s.hi, v_) || UsesAny(s.conditions, v_)) return false;
    switch (s.kind) {
      case StmtKind::kStore:
        return Reads(s.value) && Moves(s.buffer, s.index, {}, true);
      case StmtKind::kLet:
        return !Varies(s.value);
      case StmtKind::kFor:
        return (s.loop == LoopKind::kSerial || s.loop == LoopKind::kUnroll) && Fits(s.body);
      case StmtKind::kIf:
      case StmtKind::kMark:
        return Fits(s.body) && Fits(s.otherwise);
      case StmtKind::kPrefetch:
        return true;
      case StmtKind::kBarrier:
      case StmtKind::kSingle:
        return false;
    }
    return false;
  }

  bool Reads(ExprId root) {
    return !AnyBelow(nest_, root, [this](const Expr& e) {
      return e.kind == ExprKind::kLoad && !Moves(e.buffer, e.index, e.guards, false);
    });
  }

  // What an iteration has of its own differs between lanes.
  bool Varies(ExprId root) const {
    return AnyBelow(nest_, root, [this](const Expr& e) {
      const bool is_own = e.kind == ExprKind::kLoad && own_.contains(e.buffer);
      return is_own || UsesAny(e.index, v_) || UsesAny(e.guards, v_);
    });
  }

  bool Moves(BufferId id, const std::vector<Affine>& index, const std::vector<Affine>& guards,
             bool is_write) {
    if (UsesAny(guards, v_)) return false;
    if (own_.contains(id)) return !UsesAny(index, v_);
    const Buffer& b = nest_[id];
    const Affine offset = loops::ElementOffset(b, index);
    if (!offset.Uses(v_)) return !is_write;
    const Affine rest = offset - Affine::OfVar(v_);
    if (rest.Uses(v_) || SharesBytes(b.dtype)) return false;
    moving_.push_back(rest + lo_);
    largest_ = std::max(largest_, SizeBytes(b.dtype));
    return true;
  }

  const LoopNest& nest_;
  const std::set<BufferId>& own_;
  Var v_;
  Affine lo_;
  std::vector<Affine> moving_;  // where what moves lies, but for v
  int64_t largest_ = 1;
};

// Vector loops around statements that stand next to each other; loops and conditions, which are
// the same for all lanes, around those.
class Spreader {
 public:
  Spreader(LoopNest& nest, Rewriter& rewriter, Var lane, int64_t lanes)
      : nest_(nest), rewriter_(rewriter), lane_(lane), lanes_(lanes) {}

  std::vector<StmtId> Body(const std::vector<StmtId>& body) {
    std::vector<StmtId> result, stores;
    const auto flush = [&] {
      if (stores.empty()) return;
      result.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                              .var = lane_,
                                              .lo = {0},
                                              .hi = {lanes_},
                                              .loop = LoopKind::kVector,
                                              .body = std::exchange(stores, {})}));
    };
    for (const StmtId id : body) {
      if (nest_[id].kind == StmtKind::kStore) {
        stores.push_back(rewriter_.Copy(id));
        continue;
      }
      flush();
      const std::vector<StmtId> inner = nest_[id].body, otherwise = nest_[id].otherwise;
      Stmt s = rewriter_.Head(id);
      s.body = Body(inner), s.otherwise = Body(otherwise);
      result.push_back(loops::AddStmt(nest_, std::move(s)));
    }
    flush();
    return result;
  }

 private:
  LoopNest& nest_;
  Rewriter& rewriter_;
  Var lane_;
  int64_t lanes_;
};

bool Knows(const LoopNest& nest, const std::vector<StmtId>& body, Var v) {
  return std::ranges::any_of(body, [&](StmtId id) {
    const Stmt& s = nest[id];
    const auto uses = [v](const Expr& e) { return UsesAny(e.index, v) || UsesAny(e.guards, v); };
    return UsesAny(s.lo, v) || UsesAny(s.hi, v) || UsesAny(s.conditions, v) ||
           UsesAny(s.index, v) || (s.value.valid() && AnyBelow(nest, s.value, uses)) ||
           Knows(nest, s.body, v) || Knows(nest, s.otherwise, v);
  });
}

bool IsWhole(const Stmt& loop) {
  return loop.lo.size() == 1 && loop.hi.size() == 1 && loop.lo[0].IsConstant() && loop.step == 1;
}

}  // namespace

int64_t LanesAlong(const LoopNest& nest, StmtId loop, const std::set<BufferId>& own) {
  const Stmt& s = nest[loop];
  const int64_t trip = loops::ConstantTrip(s);
  if (!IsWhole(s) || trip < 2) return 1;
  Survey survey(nest, s, own);
  return survey.Fits(s.body) ? survey.Lanes(trip) : 1;
}

void TakeLanes(LoopNest& nest, StmtId loop, int64_t lanes, const std::set<BufferId>& own,
               const std::map<BufferId, Affine>& resident) {
  const Stmt s = nest[loop];
  const Var lane = lanes > 1 ? loops::AddVar(nest, "lane") : -1;
  const Affine in_lane = lanes > 1 ? Affine::OfVar(lane) : Affine(0);
  std::map<BufferId, std::vector<Affine>> more, instead;
  for (const auto& [id, part] : resident) instead[id] = {part, in_lane};
  for (const BufferId id : own) {
    if (lanes == 1) break;
    Buffer& b = nest.buffers[id.index];
    b.shape.emplace_back(lanes);
    b.layout = Layout::Plain(b.shape.size());
    if (!b.fold.empty()) b.fold.push_back(0);
    more[id] = {in_lane};
  }
  const Affine at = s.lo[0] + Affine::OfVar(s.var, lanes) + in_lane;
  Rewriter rewriter(nest, {{s.var, at}}, std::move(more), std::move(instead));
  std::vector<StmtId> body =
      lanes > 1 ? Spreader(nest, rewriter, lane, lanes).Body(s.body) : rewriter.Copy(s.body);
  Stmt& quads = nest.stmts[loop.index];
  quads.lo = {0}, quads.hi = {loops::ConstantTrip(s) / lanes};
  quads.body = std::move(body);
}

Moves MovesOf(const LoopNest& nest, const std::vector<StmtId>& body, Var v) {
  Moves moves;
  const auto add = [&](BufferId id, const std::vector<Affine>& index) {
    if (nest[id].access == loops::Access::kLocal) return;
    const int64_t by = std::abs(loops::ElementOffset(nest[id], index).CoefficientOf(v));
    moves.along += by == 1;
    moves.across += by > 1;
  };
  for (const StmtId id : body) {
    const Stmt& s = nest[id];
    if (s.value.valid())
      AnyBelow(nest, s.value, [&](const Expr& e) {
        if (e.kind == ExprKind::kLoad) add(e.buffer, e.index);
        return false;
      });
    if (s.kind == StmtKind::kStore) add(s.buffer, s.index);
    const double times = s.kind == StmtKind::kFor ? static_cast<double>(TripOf(nest, id)) : 1;
    for (const auto* inside : {&s.body, &s.otherwise}) {
      const Moves more = MovesOf(nest, *inside, v);
      moves.along += times * more.along;
      moves.across += times * more.across;
    }
  }
  return moves;
}

bool CanMerge(const LoopNest& nest, const std::vector<StmtId>& loops) {
  constexpr double kMost = int64_t{1} << 53;  // far from the end of 64 bits
  double inner = 1;
  for (size_t k = 0; k < loops.size(); ++k) {
    const Stmt& s = nest[loops[k]];
    const int64_t trip = loops::ConstantTrip(s);
    if (!IsWhole(s) || (k > 0 && trip <= 0)) return false;
    if (trip >= 0) inner *= static_cast<double>(trip);
    std::vector<Var> used;
    s.hi[0].CollectVars(used);
    if (std::ranges::any_of(used, [&](Var v) { return v >= nest.params; })) return false;
  }
  return inner <= kMost && !nest.buffers.empty();
}

StmtId Merge(LoopNest& nest, const std::vector<StmtId>& loops) {
  std::string name;
  for (const StmtId id : loops) name += (name.empty() ? "" : "_") + nest.vars[nest[id].var];
  const Var number = loops::AddVar(nest, name);
  std::vector<StmtId> body;
  int64_t below = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    const Stmt s = nest[loops[k]];
    Affine digit = FloorDiv(Affine::OfVar(number), below);
    if (k > 0) {
      const int64_t trip = loops::ConstantTrip(s);
      digit = Mod(digit, trip);
      below *= trip;
    }
    // It is nobody's index, so that any buffer will do.
    const ExprId value = loops::AddAffine(nest, Dtype::kI64, digit + s.lo[0]);
    body.push_back(loops::AddStmt(nest, {.kind = StmtKind::kLet,
                                         .var = s.var,
                                         .lo = s.lo,
                                         .hi = s.hi,
                                         .buffer = BufferId(0),
                                         .value = value}));
  }
  std::ranges::reverse(body);
  const std::vector<StmtId> inner = nest[loops.back()].body;
  body.insert(body.end(), inner.begin(), inner.end());
  const Stmt& outermost = nest[loops[0]];
  return loops::AddStmt(nest, {.kind = StmtKind::kFor,
                               .var = number,
                               .lo = {0},
                               .hi = {(outermost.hi[0] - outermost.lo[0]) * below},
                               .loop = outermost.loop,
                               .body = std::move(body)});
}

std::vector<StmtId> Split(LoopNest& nest, StmtId loop) {
  const Stmt number = nest[loop];
  int64_t below = loops::ConstantTrip(number);
  if (!IsWhole(number) || number.lo[0] != Affine(0) || below <= 0) return {loop};
  Affine rest = Affine::OfVar(number.var);
  std::vector<Stmt> digits;
  size_t taken = 0;
  for (; below > 1 && taken < number.body.size(); ++taken) {
    Stmt s = nest[number.body[taken]];
    if (s.kind != StmtKind::kLet || nest[s.value].kind != ExprKind::kAffine) return {loop};
    const int64_t extent = loops::ConstantTrip(s);
    if (!IsWhole(s) || extent <= 0 || below % extent != 0) return {loop};
    below /= extent;
    const Affine digit = FloorDiv(rest, below);
    if (nest[s.value].index[0] != digit + s.lo[0]) return {loop};
    rest = rest - digit * below;
    digits.push_back({.kind = StmtKind::kFor,
                      .var = s.var,
                      .lo = std::move(s.lo),
                      .hi = std::move(s.hi),
                      .loop = number.loop});
  }
  std::vector<StmtId> body(number.body.begin() + static_cast<ptrdiff_t>(taken), number.body.end());
  if (below != 1 || digits.empty() || Knows(nest, body, number.var)) return {loop};
  std::vector<StmtId> split;
  for (size_t k = digits.size(); k-- > 0;) {
    digits[k].body = std::exchange(body, {});
    split.insert(split.begin(), loops::AddStmt(nest, std::move(digits[k])));
    body = {split[0]};
  }
  return split;
}

}  // namespace weft::polyhedral::cuda
