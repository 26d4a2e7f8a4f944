#include "polyhedral/lower/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "polyhedral/lower/barriers.h"
#include "polyhedral/lower/prefetch.h"

namespace weft::polyhedral::lower {

bool Scope::Bound(const Affine& e) const {
  std::vector<Var> used;
  e.CollectVars(used);
  return std::ranges::all_of(used, [this](Var v) { return Bound(v); });
}

namespace {

using loops::LoopKind;
using loops::Stmt;
using loops::StmtKind;

constexpr int64_t kMostPeeled = 8;    // values of a mixed range that get code of their own
constexpr int64_t kMostLeaves = 600;  // then no more splits
constexpr int64_t kMostUnrolled = 512;

// a * v + rest >= 0, with v's coefficient outside of floors; a = 0 when v does not occur so.
struct Linear {
  int64_t a = 0;
  Affine rest;
};

Linear LinearIn(const Affine& e, Var v) {
  const int64_t a = e.CoefficientOf(v);
  Affine rest = e - Affine::OfVar(v, a);
  if (rest.Uses(v)) return {};
  return {a, std::move(rest)};
}

template <typename T>
bool Contains(const std::vector<T>& list, const T& x) {
  return std::ranges::count(list, x) > 0;
}

bool HoldsParallel(const Step& step) {
  if (step.kind == Step::Kind::kParallel) return true;
  return std::ranges::any_of(step.children, HoldsParallel);
}

class Emitter {
 public:
  Emitter(const Target& target, const Plan& plan, const Storage& storage, loops::LoopNest& nest)
      : ranks_(target.kind == TargetKind::kCpu),
        plan_(plan),
        storage_(storage),
        nest_(nest),
        scope_(plan),
        values_(plan, storage, scope_, nest) {}

  Stmts Cluster(const Step& step) {
    std::vector<Active> actives;
    for (const int32_t u : step.units) {
      Active active{.unit = &plan_.units[u]};
      active.open = plan_.units[u].constraints;
      actives.push_back(std::move(active));
    }
    return Emit(step, actives);
  }

  // Steps of which ranks share some out, one after another: what is not shared out is left to one
  // rank, and a barrier stands before what needs one since the last one.
  template <typename BodyOf>
  Stmts InTurn(const std::vector<Step>& steps, BodyOf body_of) {
    Stmts all;
    std::vector<Written> since;  // the last barrier
    for (const Step& step : steps) {
      Stmts body = body_of(step);
      if (body.empty()) continue;
      if (!HoldsParallel(step)) {
        Stmt single{.kind = StmtKind::kSingle, .body = std::move(body)};
        body = {loops::AddStmt(nest_, std::move(single))};
      }
      const Written now{&step, body};
      if (std::ranges::any_of(since, [&](const Written& w) { return NeedBarrier(w, now); })) {
        all.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kBarrier}));
        since.clear();
      }
      since.push_back(now);
      for (const loops::StmtId id : body) written_[id] = now;
      all.insert(all.end(), body.begin(), body.end());
    }
    return all;
  }

  const std::set<Var>& demoted() const { return demoted_; }
  const Status& status() const { return status_; }

 private:
  // Drops what has become certain; false if the unit has no instance here.
  bool Refine(Active& active) const {
    bool alive = true;
    std::erase_if(active.open, [&](const Constraint& c) {
      if (c.limit != Limit::kHint && scope_.Never(c.e)) alive = false;
      return scope_.Surely(c.e);
    });
    return alive;
  }

  Stmts Emit(const Step& step, std::vector<Active> actives) {
    std::erase_if(actives,
                  [&](Active& a) { return !Contains(step.units, Place(a)) || !Refine(a); });
    if (actives.empty()) return {};
    if (actives.size() > 1) return EmitStep(step, actives);
    // A single unit: what its bound dimensions leave open becomes a condition, what it gathers a
    // name.
    Active& active = actives[0];
    std::vector<Affine> conditions;
    std::erase_if(active.open, [&](const Constraint& c) {
      const bool now = c.limit != Limit::kHint && scope_.Bound(c.e) && !InVector(c.e);
      if (now) conditions.push_back(scope_.Place(c.e));
      return now;
    });
    Stmts body;
    for (const auto& gathered : values_.FindGathered(*active.unit)) {
      const bool named = active.lets.contains({gathered.read.index, gathered.axis});
      const bool ready =
          std::ranges::all_of(gathered.needs, [&](const Affine& e) { return scope_.Bound(e); });
      if (!named && ready) body.push_back(values_.Let(active, gathered));
    }
    const Stmts rest = EmitStep(step, actives);
    if (rest.empty()) return {};
    body.insert(body.end(), rest.begin(), rest.end());
    if (conditions.empty()) return body;
    Stmt branch{
        .kind = StmtKind::kIf, .conditions = std::move(conditions), .body = std::move(body)};
    return {loops::AddStmt(nest_, std::move(branch))};
  }

  int32_t Place(const Active& active) const {
    return static_cast<int32_t>(active.unit - plan_.units.data());
  }

  bool InVector(const Affine& e) const { return vector_ >= 0 && e.Uses(vector_); }

  Stmts EmitStep(const Step& step, std::vector<Active>& actives) {
    switch (step.kind) {
      case Step::Kind::kUnit:
        ++leaves_;
        return values_.Leaf(actives[0]);
      case Step::Kind::kLoop:
        return EmitLoop(step, actives);
      case Step::Kind::kParallel:
        return EmitParallel(step, actives);
      case Step::Kind::kSequence: {
        if (!in_parallel_ && HoldsParallel(step))
          return InTurn(step.children, [&](const Step& child) { return Emit(child, actives); });
        Stmts all;
        for (const Step& child : step.children) {
          const Stmts some = Emit(child, actives);
          all.insert(all.end(), some.begin(), some.end());
        }
        return all;
      }
      case Step::Kind::kLabel: {
        Stmts body = Emit(step.children[0], actives);
        if (body.empty() || vector_ >= 0) return body;
        Stmt mark{.kind = StmtKind::kMark, .label = step.label, .body = std::move(body)};
        return {loops::AddStmt(nest_, std::move(mark))};
      }
    }
    WEFT_UNREACHABLE();
  }

  // The values of v that some unit may need, by intervals of everything else.
  Interval Hull(Var v, const std::vector<Active>& actives, bool guards_too) {
    Interval hull{kOpen, kOpenLo};
    for (const Active& active : actives) {
      Interval range = plan_[v].range;
      for (const Constraint& c : active.open) {
        if (c.limit == Limit::kHint || (c.limit == Limit::kGuard && !guards_too)) continue;
        const Linear l = LinearIn(c.e, v);
        if (l.a == 0) continue;
        const int64_t most = scope_.Range(l.rest).hi;
        if (most >= kOpen) continue;
        if (l.a > 0) range.lo = std::max(range.lo, -FloorDiv(most, l.a));
        if (l.a < 0) range.hi = std::min(range.hi, FloorDiv(most, -l.a));
      }
      if (range.empty()) continue;
      hull = {std::min(hull.lo, range.lo), std::max(hull.hi, range.hi)};
    }
    if (hull.lo == kOpenLo && !hull.empty()) {
      status_ =
          Unsupported(fmt::format("the range of {} has no beginning that is known", plan_[v].name));
      return {1, 0};
    }
    return hull;
  }

  // Holds for all values of v in the range.
  bool SurelyIn(const Affine& e, Var v, Interval range) const {
    return e.Bounds([&](Var u) { return u == v ? range : scope_.Range(u); }).lo >= 0;
  }

  // The innermost dimension of e on the unit's way, and whether its trip count must be constant.
  Var Innermost(const Affine& e, const Unit& unit) const {
    for (size_t i = unit.dims.size(); i-- > 0;) {
      if (e.Uses(unit.dims[i])) return unit.dims[i];
    }
    return -1;
  }

  bool MustBeConstant(Var v) const {
    return plan_[v].kind == LoopKind::kVector || plan_[v].kind == LoopKind::kUnroll;
  }

  // First values of the pieces of v's range: where a constraint turns from never over sometimes to
  // surely. Only worth code where it decides something for loops that need constant trip counts.
  std::vector<int64_t> BreakPoints(Var v, const std::vector<Active>& actives, Interval hull) const {
    std::set<int64_t> starts{hull.lo};
    const auto add = [&](int64_t x) {
      if (x > hull.lo && x <= hull.hi) starts.insert(x);
    };
    for (const Active& active : actives) {
      for (const Constraint& c : active.open) {
        const Linear l = LinearIn(c.e, v);
        if (l.a == 0) continue;
        const Var inner = Innermost(c.e, *active.unit);
        const Interval rest = scope_.Range(l.rest);
        if (inner == v && rest.lo != rest.hi) continue;      // a loop bound or a condition
        if (inner != v && !MustBeConstant(inner)) continue;  // decided further in
        if (rest.lo == kOpenLo || rest.hi >= kOpen) continue;
        // For a > 0: never below `some`, surely from `all` on. Mirrored for a < 0.
        int64_t first, last;  // the mixed values
        if (l.a > 0) {
          first = -FloorDiv(rest.hi, l.a);
          last = -FloorDiv(rest.lo, l.a) - 1;
          add(first);
          add(last + 1);
        } else {
          first = FloorDiv(rest.lo, -l.a) + 1;
          last = FloorDiv(rest.hi, -l.a);
          add(first);
          add(last + 1);
        }
        first = std::max(first, hull.lo);
        last = std::min(last, hull.hi);
        if (last - first >= kMostPeeled) continue;
        for (int64_t x = first; x <= last; ++x) add(x);
      }
    }
    if (leaves_ > kMostLeaves) return {hull.lo};
    return {starts.begin(), starts.end()};
  }

  std::vector<Interval> Pieces(Var v, const std::vector<Active>& actives, Interval hull) const {
    const std::vector<int64_t> starts = BreakPoints(v, actives, hull);
    std::vector<Interval> pieces;
    for (size_t i = 0; i < starts.size(); ++i) {
      pieces.push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] - 1 : hull.hi});
    }
    return pieces;
  }

  // Bounds that move with outer loops: constraints whose last open variable is v, and that every
  // unit below has. They need not be looked at again inside.
  void MovingBounds(Var v, std::vector<Active>& actives, Interval piece, Stmt& loop) {
    const auto everywhere = [&](const Constraint& c) {
      return std::ranges::all_of(actives, [&](const Active& a) {
        return std::ranges::any_of(
            a.open, [&](const Constraint& d) { return d.e == c.e && d.limit != Limit::kHint; });
      });
    };
    std::vector<Affine> taken;
    for (const Constraint& c : actives[0].open) {
      if (c.limit == Limit::kHint) continue;
      const Linear l = LinearIn(c.e, v);
      if (l.a == 0 || !scope_.Bound(l.rest) || InVector(l.rest) || !everywhere(c)) continue;
      if (SurelyIn(c.e, v, piece)) continue;
      const Affine placed = scope_.Place(l.rest);
      if (l.a > 0) loop.lo.push_back(CeilDiv(-placed, l.a));
      if (l.a < 0) loop.hi.push_back(FloorDiv(placed, -l.a) + 1);
      taken.push_back(c.e);
    }
    for (Active& a : actives) {
      std::erase_if(a.open, [&](const Constraint& c) {
        return c.limit != Limit::kHint && std::ranges::count(taken, c.e) > 0;
      });
    }
  }

  // Whether lanes may each look up an index of their own. The length of a loop is one for all, and
  // what is fetched ahead is so by a loop.
  bool LanesLookUp(const Unit& unit) const {
    return ranks_ && unit.along < 0 &&
           std::ranges::none_of(
               values_.FindGathered(unit),
               [&](const auto& gathered) {
                 const tc::Expr& read = (*plan_.program)[gathered.read];
                 return read.kind == tc::ExprKind::kRead &&
                        Contains(plan_.prefetches, (*plan_.program)[read.tensor].name);
               });
  }

  bool GathersIn(Var v, const Unit& unit) const {
    for (const auto& gathered : values_.FindGathered(unit)) {
      for (const Affine& e : gathered.needs) {
        if (e.Uses(v)) return true;
      }
    }
    return false;
  }

  // Lanes need one unit, a constant number of them, and nothing that only some lanes would do.
  bool CanBeVector(Var v, const std::vector<Active>& actives, Interval hull) {
    if (hull.hi == kOpen || hull.hi - hull.lo >= loops::kMostLanes) return false;
    // Steps that are summed up apart stand between the start and the end of that.
    const auto is_step = [](const Active& active) {
      const Part part = active.unit->part;
      return part == Part::kApart || part == Part::kUpdate || part == Part::kJoin;
    };
    const bool alone =
        actives.size() == 1 || (std::ranges::all_of(actives, is_step) &&
                                std::ranges::none_of(actives, [&](const Active& active) {
                                  return active.unit->statement != actives[0].unit->statement;
                                }));
    return alone && std::ranges::all_of(actives, [&](const Active& active) {
             for (const Constraint& c : active.open) {
               if (c.limit != Limit::kDomain || !c.e.Uses(v)) continue;
               if (LinearIn(c.e, v).a == 0 || !SurelyIn(c.e, v, hull)) return false;
             }
             return LanesLookUp(*active.unit) || !GathersIn(v, *active.unit);
           });
  }

  Stmts EmitLoop(const Step& step, std::vector<Active>& actives) {
    const Var v = step.dims[0];
    LoopKind kind = plan_[v].kind;
    Interval hull = Hull(v, actives, kind != LoopKind::kVector);
    if (hull.empty()) return {};
    if (kind == LoopKind::kVector && !CanBeVector(v, actives, hull)) {
      kind = LoopKind::kSerial;
      hull = Hull(v, actives, true);
      if (hull.empty()) return {};
    }
    std::vector<Interval> pieces{hull};
    if (kind != LoopKind::kVector && hull.hi < kOpen) pieces = Pieces(v, actives, hull);
    Stmts all;
    for (const Interval& piece : pieces) {
      const Stmts some = Piece(step, actives, v, kind, piece);
      if (!all.empty() && !some.empty() && !in_parallel_ && HoldsParallel(step) &&
          !EndsWithBarrier(all.back()))
        all.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kBarrier}));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  // A step of those that ranks run one after another, and what was written for it.
  struct Written {
    const Step* step = nullptr;
    Stmts body;
  };

  // The loop over a range that ranks share in a way known here, if that is all of a step.
  const Stmt* SharedLoop(const Written& written) const {
    const Stmts* body = &written.body;
    while (body->size() == 1 && nest_[body->front()].kind == StmtKind::kMark)
      body = &nest_[body->front()].body;
    if (body->size() != 1) return nullptr;
    const Stmt& s = nest_[body->front()];
    const bool parallel = s.kind == StmtKind::kFor && s.loop == LoopKind::kParallel;
    const bool constant =
        s.lo.size() == 1 && s.hi.size() == 1 && s.lo[0].IsConstant() && s.hi[0].IsConstant();
    // Loops directly inside one another are one range.
    const bool whole = parallel && loops::ParallelBand(nest_, body->front()).size() == 1;
    return whole && constant ? &s : nullptr;
  }

  bool IsSingle(const Written& written) const {
    return nest_[written.body.front()].kind == StmtKind::kSingle;
  }

  bool NeedBarrier(const Written& before, const Written& after) const {
    if (ranks_ && IsSingle(before) && IsSingle(after)) return false;  // both are rank 0's
    const Stmt *a = SharedLoop(before), *b = SharedLoop(after);
    const bool same = ranks_ && a && b && a->lo == b->lo && a->hi == b->hi;
    return lower::NeedBarrier(plan_, storage_, *before.step, *after.step, same);
  }

  // What ranks shared out in one iteration is there in the next.
  Stmts Iteration(const Step& loop, std::vector<Active> actives) {
    Stmts body = Emit(loop.children[0], std::move(actives));
    if (!body.empty() && !in_parallel_ && HoldsParallel(loop))
      body.push_back(loops::AddStmt(nest_, {.kind = StmtKind::kBarrier}));
    return body;
  }

  bool EndsWithBarrier(loops::StmtId id) const {
    const Stmt& s = nest_[id];
    return s.kind == StmtKind::kBarrier ||
           (s.kind == StmtKind::kFor && !s.body.empty() && EndsWithBarrier(s.body.back()));
  }

  // Takes the barrier at the end of a loop's body away if what stands behind the last one inside
  // needs none before what stands in front of the first one, an iteration later.
  void DropLastBarrier(Stmts& body) const {
    const auto is_barrier = [&](loops::StmtId id) { return nest_[id].kind == StmtKind::kBarrier; };
    if (body.empty() || !is_barrier(body.back())) return;
    const auto last = body.end() - 1;
    const auto first_inside = std::find_if(body.begin(), last, is_barrier);
    const auto last_inside =
        std::find_if(std::make_reverse_iterator(last), body.rend(), is_barrier).base();
    const bool need = std::any_of(last_inside, last, [&](loops::StmtId from) {
      return std::any_of(body.begin(), first_inside, [&](loops::StmtId to) {
        return !written_.contains(from) || !written_.contains(to) ||
               NeedBarrier(written_.at(from), written_.at(to));
      });
    });
    if (!need) body.pop_back();
  }

  // The only unit that reads what its statement does.
  static std::optional<Active> OnlyReader(const std::vector<Active>& actives) {
    std::optional<Active> reader;
    for (const Active& active : actives) {
      if (active.unit->part == Part::kApart || active.unit->part == Part::kJoin) continue;
      if (std::exchange(reader, active)) return std::nullopt;
    }
    return reader;
  }

  // What windows that stand still inside of loop v will read later on.
  Stmts WindowsAhead(Var v, LoopKind kind, const std::vector<Active>& actives) {
    Stmts ahead;
    const bool loops = kind == LoopKind::kSerial || kind == LoopKind::kParallel;
    if (!ranks_ || !loops || plan_.prefetches.empty()) return ahead;
    for (const Active& active : actives) {
      const Stmts lines = lower::PrefetchWindow(plan_, storage_, scope_, *active.unit, v, nest_);
      ahead.insert(ahead.end(), lines.begin(), lines.end());
    }
    return ahead;
  }

  Stmts Piece(const Step& step, std::vector<Active> actives, Var v, LoopKind kind, Interval piece) {
    Stmt loop{.kind = StmtKind::kFor};
    std::optional<Affine> end;  // of a segment
    if (actives.size() == 1 && actives[0].unit->along == v)
      end = Affine::OfVar(actives[0].lets.at({actives[0].unit->length.index, 0}));
    if (piece.lo == piece.hi) {
      scope_.Bind(v, piece.lo, piece);
      const Stmts windows = WindowsAhead(v, kind, actives);
      Stmts body = Iteration(step, std::move(actives));
      if (!body.empty()) body.insert(body.begin(), windows.begin(), windows.end());
      scope_.Release(v);
      if (!end || body.empty()) return body;
      Stmt branch{
          .kind = StmtKind::kIf, .conditions = {*end - piece.lo - 1}, .body = std::move(body)};
      return {loops::AddStmt(nest_, std::move(branch))};
    }
    loop.lo = {piece.lo};
    if (piece.hi < kOpen) loop.hi = {piece.hi + 1};
    // Written out, each iteration asks whether it is there, and stays at a place that is known.
    const bool few = kind == LoopKind::kUnroll && piece.hi - piece.lo < kMostUnrolled;
    if (kind != LoopKind::kVector && !few) MovingBounds(v, actives, piece, loop);
    if (end) loop.hi.push_back(*end);
    if (loop.hi.empty()) {
      status_ = Unsupported(fmt::format("the range of {} has no end that is known", plan_[v].name));
      return {};
    }
    const bool fixed = loop.lo.size() == 1 && loop.hi.size() == 1 && piece.hi < kOpen;
    if (kind == LoopKind::kUnroll && (!fixed || piece.hi - piece.lo >= kMostUnrolled)) {
      kind = LoopKind::kSerial;
    }
    if (kind == LoopKind::kSerial && plan_[v].kind != LoopKind::kSerial) demoted_.insert(v);
    if (kind == LoopKind::kUnroll && actives.size() == 1 &&
        step.children[0].kind == Step::Kind::kUnit && values_.CanFinishTogether(actives[0], piece))
      return values_.FinishTogether(actives[0], v, piece, scope_);
    loop.var = loops::AddVar(nest_, plan_[v].name);
    loop.loop = kind;
    scope_.Bind(v, Affine::OfVar(loop.var), piece);
    std::optional<loops::StmtId> turned;
    constexpr int64_t kMany = int64_t{1} << 40;
    if (ranks_ && kind == LoopKind::kSerial && plan_[v].turns && around_ >= 0 && fixed &&
        piece.lo >= 0 && piece.hi < kMany)
      turned = Turned(v, loop.var, piece);
    const Var around = around_;
    if (kind == LoopKind::kSerial) around_ = loop.var;
    const Var outer = vector_;
    if (kind == LoopKind::kVector) vector_ = v;
    std::optional<Active> alone;  // a unit for which something may be fetched ahead
    if (kind == LoopKind::kSerial && !plan_.prefetches.empty()) alone = OnlyReader(actives);
    const Stmts windows = WindowsAhead(v, kind, actives);
    loop.body = Iteration(step, std::move(actives));
    DropLastBarrier(loop.body);
    if (!loop.body.empty()) loop.body.insert(loop.body.begin(), windows.begin(), windows.end());
    vector_ = outer;
    around_ = around;
    if (alone && !loop.body.empty()) {
      Stmts ahead = PrefetchPanels(plan_, storage_, scope_, *alone->unit, v, nest_);
      if (fixed && piece.hi < kOpen) {
        const Stmts rows =
            PrefetchRows(plan_, storage_, scope_, values_, *alone, {v, loop.var, piece}, nest_);
        ahead.insert(ahead.end(), rows.begin(), rows.end());
      }
      loop.body.insert(loop.body.begin(), ahead.begin(), ahead.end());
    }
    scope_.Release(v);
    if (loop.body.empty()) return {};
    if (turned) loop.body.insert(loop.body.begin(), *turned);
    return {loops::AddStmt(nest_, std::move(loop))};
  }

  // Of a loop that turns, the place that its counter stands for: counted from the end where the
  // counter of the loop around it is odd.
  loops::StmtId Turned(Var v, Var counter, Interval piece) {
    const Affine odd = Mod(Affine::OfVar(around_), 2);
    const Affine place = odd * (piece.lo + piece.hi) - Affine::OfVar(counter);
    const loops::ExprId down = loops::AddAffine(nest_, Dtype::kI64, place),
                        up = loops::AddAffine(nest_, Dtype::kI64, Affine(0) - place);
    const loops::ExprId value = loops::AddOp(nest_, ScalarOp::kMax, Dtype::kI64, {down, up});
    return Named(v, value, piece, piece.hi + 1);
  }

  // One range for several dimensions: t = (d0 * n1 + d1) * n2 + d2.
  Stmts EmitParallel(const Step& step, std::vector<Active>& actives) {
    std::vector<Interval> hulls;
    std::vector<Affine> extents;
    for (const Var v : step.dims) {
      hulls.push_back(Hull(v, actives, false));
      if (hulls.back().empty()) return {};
      extents.push_back(hulls.back().hi < kOpen ? Affine(hulls.back().hi - hulls.back().lo + 1)
                                                : OpenExtent(v, actives, hulls.back().lo));
    }
    Stmt loop{.kind = StmtKind::kFor, .lo = {0}, .loop = LoopKind::kParallel};
    int64_t inner = 1;
    for (size_t k = 1; k < extents.size(); ++k) {
      if (!extents[k].IsConstant()) {
        status_ = Unsupported(
            fmt::format("{} is shared by ranks below another and its end is known only at run time",
                        plan_[step.dims[k]].name));
        return {};
      }
      inner *= extents[k].constant();
    }
    loop.hi = {extents[0] * inner};
    const bool one = step.dims.size() == 1;
    if (one) {
      loop.lo = {hulls[0].lo};
      loop.hi = {extents[0] + hulls[0].lo};
    }
    loop.var = loops::AddVar(nest_, one ? plan_[step.dims[0]].name : "task");
    Affine rest = Affine::OfVar(loop.var);
    for (size_t k = 0; k < step.dims.size(); ++k) {
      const Var v = step.dims[k];
      if (one) {
        scope_.Bind(v, rest, hulls[0]);
        continue;
      }
      const Affine digit = k + 1 < step.dims.size() ? FloorDiv(rest, inner) : rest;
      rest = rest - digit * inner;
      if (k + 1 < step.dims.size()) inner /= extents[k + 1].constant();
      loop.body.push_back(Digit(v, digit + hulls[k].lo, hulls[k], extents[k]));
    }
    in_parallel_ = true;
    const Stmts body = Branches(step, 0, actives, hulls);
    in_parallel_ = false;
    for (const Var v : step.dims) scope_.Release(v);
    if (body.empty()) return {};
    loop.body.insert(loop.body.end(), body.begin(), body.end());
    return {loops::AddStmt(nest_, std::move(loop))};
  }

  // The extent of a dimension that ends at a param.
  Affine OpenExtent(Var v, const std::vector<Active>& actives, int64_t lo) {
    for (const Constraint& c : actives[0].open) {
      const Linear l = LinearIn(c.e, v);
      if (l.a == -1 && scope_.Bound(l.rest)) return scope_.Place(l.rest) + 1 - lo;
    }
    status_ = Unsupported(fmt::format("the range of {} has no end that is known", plan_[v].name));
    return 1;
  }

  loops::StmtId Digit(Var v, Affine value, Interval hull, const Affine& extent) {
    return Named(v, loops::AddAffine(nest_, Dtype::kI64, std::move(value)), hull, extent + hull.lo);
  }

  // Binds a dimension to a name of its own for a value in the range, whose end is given.
  loops::StmtId Named(Var v, loops::ExprId value, Interval range, Affine end) {
    Stmt let{.kind = StmtKind::kLet, .buffer = loops::BufferId(0)};
    let.var = loops::AddVar(nest_, plan_[v].name);
    let.lo = {range.lo};
    let.hi = {std::move(end)};
    let.value = value;
    scope_.Bind(v, Affine::OfVar(let.var), range);
    return loops::AddStmt(nest_, std::move(let));
  }

  // Pieces of parallel dimensions are told apart by conditions: every task is of equal weight.
  Stmts Branches(const Step& step, size_t k, std::vector<Active> actives,
                 const std::vector<Interval>& hulls) {
    if (k == step.dims.size()) {
      Stmts body = WindowsAhead(step.dims.back(), LoopKind::kParallel, actives);
      const Stmts rest = Emit(step.children[0], std::move(actives));
      body.insert(body.end(), rest.begin(), rest.end());
      return rest.empty() ? Stmts{} : body;
    }
    const Var v = step.dims[k];
    const Affine value = scope_.Place(Affine::OfVar(v));
    const std::vector<Interval> pieces =
        hulls[k].hi < kOpen ? Pieces(v, actives, hulls[k]) : std::vector<Interval>{hulls[k]};
    Stmts otherwise;
    for (size_t p = pieces.size(); p-- > 0;) {
      const Interval& piece = pieces[p];
      scope_.Bind(v, piece.lo == piece.hi ? Affine(piece.lo) : value, piece);
      Stmts body = Branches(step, k + 1, actives, hulls);
      scope_.Bind(v, value, hulls[k]);
      if (p + 1 == pieces.size()) {
        otherwise = std::move(body);
        continue;
      }
      if (body.empty() && otherwise.empty()) continue;
      Stmt branch{.kind = StmtKind::kIf, .conditions = {Affine(piece.hi) - value}};
      branch.body = std::move(body);
      branch.otherwise = std::move(otherwise);
      otherwise = {loops::AddStmt(nest_, std::move(branch))};
    }
    return otherwise;
  }

  const bool ranks_;  // share parallel loops; on a GPU blocks do
  const Plan& plan_;
  const Storage& storage_;
  loops::LoopNest& nest_;
  Scope scope_;
  Values values_;
  std::map<loops::StmtId, Written> written_;
  Var around_ = -1;  // the counter of the innermost serial loop
  Var vector_ = -1;  // the dimension whose lanes are being written
  bool in_parallel_ = false;
  int64_t leaves_ = 0;
  Status status_;
  std::set<Var> demoted_;  // meant to be unrolled or lanes, and are loops
};

}  // namespace

namespace {

Stmts FillLiterals(const Plan& plan, const Storage& storage, loops::LoopNest& nest) {
  Stmts stores;
  for (const int32_t t : storage.literals) {
    const Tensor& literal = plan.program->tensors[t].literal;
    for (int64_t i = 0; i < literal.elems(); ++i) {
      Stmt store{.kind = StmtKind::kStore, .buffer = storage.views[t].buffer};
      int64_t rest = i;
      for (size_t axis = literal.shape().size(); axis-- > 0;) {
        store.index.insert(store.index.begin(), Affine(rest % literal.shape()[axis]));
        rest /= literal.shape()[axis];
      }
      store.value = loops::AddLiteral(nest, literal.dtype(), 0);
      nest.exprs[store.value.index].literal = LoadScalar(literal.dtype(), literal.data(), i);
      stores.push_back(loops::AddStmt(nest, std::move(store)));
    }
  }
  return stores;
}

}  // namespace

std::vector<std::string> Origins(const tc::Program& program) {
  std::vector<std::string> origins;
  for (const tc::Statement& s : program.statements) {
    if (!s.origin.empty() && std::ranges::count(origins, s.origin) == 0)
      origins.push_back(s.origin);
  }
  return origins;
}

Result<loops::LoopNest> Emit(const ScheduleRequest& request, const Plan& plan) {
  loops::LoopNest nest;
  nest.name = plan.program->name;
  nest.origins = Origins(*plan.program);
  nest.vars = plan.program->params;
  nest.params = plan.params;
  nest.has_ldexp = nest.has_pick = request.target.HasAvx512();
  WEFT_TRY(const Storage storage, PlaceValues(request, plan, nest));
  nest.body = FillLiterals(plan, storage, nest);
  Emitter emitter(request.target, plan, storage, nest);
  const Stmts body =
      emitter.InTurn(plan.clusters, [&](const Step& step) { return emitter.Cluster(step); });
  if (!emitter.status().ok()) return emitter.status();
  nest.body.insert(nest.body.end(), body.begin(), body.end());
  // A register buffer whose index turned out to move lies in the cache instead.
  if (!emitter.demoted().empty()) {
    for (loops::Buffer& b : nest.buffers) {
      if (b.space == loops::Space::kRegister) b.space = loops::Space::kCache;
    }
  }
  loops::ShareOperations(nest);
  return nest;
}

}  // namespace weft::polyhedral::lower
