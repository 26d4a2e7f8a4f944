// Integers that are loaded, or used only where something loaded allows it: each gets a name, whose
// value a `let` checks before any memory is touched with it.
#include <algorithm>

#include "polyhedral/lower/emit.h"
#include "tc_lang/region.h"

namespace weft::polyhedral::lower {

using loops::ExprId;

namespace {

// Whether two integers are computed alike.
bool Same(const tc::Program& program, tc::ExprId a, tc::ExprId b) {
  if (a == b) return true;
  const tc::Expr &x = program[a], &y = program[b];
  return x.kind == y.kind && x.dtype == y.dtype && x.op == y.op && x.position == y.position &&
         x.tensor == y.tensor && !IsFloat(x.dtype) && x.literal.i == y.literal.i &&
         std::ranges::equal(x.args, y.args,
                            [&](tc::ExprId c, tc::ExprId d) { return Same(program, c, d); });
}

}  // namespace

// What else holds where `condition` is true, or false.
Values::Taken Values::Under(tc::ExprId condition, bool holds, Taken taken, const Unit& unit) const {
  const tc::Expr& c = program_[condition];
  if (const auto all = ConjunctionOf(program_, condition, unit.index)) {
    if (holds) {
      taken.guards.insert(taken.guards.end(), all->begin(), all->end());
      return taken;
    }
    if (all->size() == 1) {
      taken.guards.push_back(-(*all)[0] - 1);
      return taken;
    }
  } else if (c.kind == tc::ExprKind::kOp && c.op == ScalarOp::kNot) {
    return Under(c.args[0], !holds, std::move(taken), unit);
  } else if (c.kind == tc::ExprKind::kOp && c.op == (holds ? ScalarOp::kAnd : ScalarOp::kOr)) {
    return Under(c.args[1], holds, Under(c.args[0], holds, std::move(taken), unit), unit);
  }
  taken.conditions.emplace_back(condition, holds);
  return taken;
}

// A subscript that is loaded or that its guards alone do not keep inside: under a condition on what
// is loaded or, where every read is checked, under any.
bool Values::IsNamed(const tc::Expr& read, size_t axis, const Taken& taken,
                     const Unit& unit) const {
  const auto e = SubscriptOf(program_, read.args[axis], unit.index);
  if (!e || IsEmpty(program_[read.tensor])) return true;
  if (taken.conditions.empty() && !plan_.checks_reads) return false;
  const tc::Statement& s = program_.statements[unit.statement];
  const auto known = tc::AsAffineWithParams(program_, s, read.args[axis]);
  const Interval extent = tc::HullOf(program_, read.tensor)[axis];
  if (known && !plan_.checks_reads) {
    const Interval values = tc::TightBounds(*known, tc::RangesOf(program_, s), extent);
    if (values.lo >= extent.lo && values.hi <= extent.hi) return false;
  }
  const auto implied = [&](const Affine& what) {
    return scope_.Surely(what) || std::ranges::any_of(taken.guards, [&](const Affine& g) {
             return scope_.Surely(what - g);
           });
  };
  return !implied(*e) || !implied(program_[read.tensor].extents[axis] - 1 - *e);
}

void Values::CollectIndices(tc::ExprId e, const Unit& unit, std::vector<Affine>& out) const {
  if (program_[e].kind == tc::ExprKind::kIndex) out.push_back(unit.index[program_[e].position]);
  for (const tc::ExprId arg : program_[e].args) {
    const bool is_subscript = program_[e].kind == tc::ExprKind::kRead;
    const auto at = is_subscript ? SubscriptOf(program_, arg, unit.index) : std::nullopt;
    if (at)
      out.push_back(scope_.Simplified(*at));  // as Subscripts has it
    else
      CollectIndices(arg, unit, out);
  }
}

std::vector<Values::Gathered> Values::FindGathered(const Unit& unit) const {
  std::vector<Gathered> found;
  size_t ahead = 0;  // of those found: what says how long the unit's loop is
  const auto add = [&](tc::ExprId id, size_t axis, const Taken& taken) {
    const bool again = std::ranges::any_of(
        found, [&](const Gathered& g) { return g.read == id && g.axis == axis; });
    if (again) return;
    Gathered gathered{.read = id, .axis = axis, .needs = taken.guards, .taken = taken};
    CollectIndices(program_[id].args[axis], unit, gathered.needs);
    for (const auto& [condition, holds] : taken.conditions)
      CollectIndices(condition, unit, gathered.needs);
    // A loop may have no iteration, and then only what its length has looked at is known to be
    // fine.
    const auto seen = [&](const Gathered& g) {
      return g.axis == axis && Same(program_, g.read, id);
    };
    const bool known = std::any_of(found.begin(), found.begin() + ahead, seen);
    if (ahead > 0 && !known) gathered.needs.push_back(Affine::OfVar(unit.along));
    found.push_back(std::move(gathered));
  };
  const auto visit = [&](const auto& self, tc::ExprId id, const Taken& taken) -> void {
    const tc::Expr& e = program_[id];
    if (e.kind == tc::ExprKind::kOp && e.op == ScalarOp::kSelect) {
      self(self, e.args[0], taken);
      self(self, e.args[1], Under(e.args[0], true, taken, unit));
      self(self, e.args[2], Under(e.args[0], false, taken, unit));
      return;
    }
    if (e.kind == tc::ExprKind::kOp && (e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr)) {
      self(self, e.args[0], taken);
      self(self, e.args[1], Under(e.args[0], e.op == ScalarOp::kAnd, taken, unit));
      return;
    }
    for (const tc::ExprId arg : e.args) self(self, arg, taken);  // inner ones first
    if (e.kind == tc::ExprKind::kCheck) add(id, 0, taken);
    const auto never = [this](const Affine& g) { return scope_.Never(g); };
    if (e.kind != tc::ExprKind::kRead || std::ranges::any_of(taken.guards, never)) return;
    for (size_t axis = 0; axis < e.args.size(); ++axis) {
      if (IsNamed(e, axis, taken, unit)) add(id, axis, taken);
    }
  };
  const tc::Statement& s = program_.statements[unit.statement];
  if (unit.part == Part::kWhole || unit.part == Part::kUpdate) {
    Taken always;
    if (plan_.checks_reads) {  // a let may stand outside of the loops that a guard bounds
      for (const Constraint& c : unit.constraints)
        if (c.limit == Limit::kGuard) always.guards.push_back(c.e);
    }
    if (unit.along >= 0) visit(visit, unit.length, {});
    ahead = found.size();
    visit(visit, unit.value, always);
    if (s.companion.valid()) visit(visit, s.companion_value, always);
  }
  return found;
}

loops::StmtId Values::Let(Active& active, const Gathered& gathered) {
  active_ = &active;
  const tc::Expr& read = program_[gathered.read];
  const bool check = read.kind == tc::ExprKind::kCheck;
  tc::TensorId tensor = read.tensor;
  if (check) {  // whose value it is or, computed, whom it is for
    const std::vector<tc::ExprId> reads = tc::Reads(program_, read.args[0]);
    tensor = reads.empty() ? Statement().target : program_[reads[0]].tensor;
  }
  loops::Stmt let{.kind = loops::StmtKind::kLet,
                  .buffer = storage_.views[tensor.index].buffer,
                  .by_buffer = check};
  let.lo = {check ? *AffineOf(program_, read.args[1], {}) : Affine(0)};
  let.hi = {check ? *AffineOf(program_, read.args[2], {})
                  : program_[tensor].extents[gathered.axis]};
  const std::vector<Affine>& guards = gathered.taken.guards;
  ExprId value = Value(read.args[gathered.axis], guards);
  Dtype dtype = nest_[value].dtype;
  // Where nobody reads, the least legal value stands, whatever the guarded parts gave.
  ExprId least = let.lo[0].IsConstant() ? Literal(dtype, ScalarOfInt(dtype, let.lo[0].constant()))
                                        : loops::AddAffine(nest_, dtype, let.lo[0]);
  if (let.lo[0] == let.hi[0]) {  // no value is legal, so one that is larger than none has stands
    constexpr int64_t kNone = -(int64_t{1} << 62);  // for "not read"
    const auto wide = [&](int64_t x) { return Literal(dtype, ScalarOfInt(dtype, x)); };
    dtype = Dtype::kI64;
    value = loops::AddOp(nest_, ScalarOp::kMax, dtype, {Cast(value, dtype), wide(kNone + 1)});
    least = wide(kNone);
    let.lo = {kNone};
    let.hi = {kNone + 1};
  }
  for (auto c = gathered.taken.conditions.rbegin(); c != gathered.taken.conditions.rend(); ++c) {
    const ExprId test = Value(c->first, guards);
    value = loops::AddOp(nest_, ScalarOp::kSelect, dtype,
                         {test, c->second ? value : least, c->second ? least : value});
  }
  for (const Affine& g : guards) {
    if (scope_.Surely(g)) continue;
    value = loops::AddOp(nest_, ScalarOp::kSelect, dtype, {Condition(g), value, least});
  }
  let.value = value;
  let.var = loops::AddVar(nest_, "at");
  active.lets[{gathered.read.index, gathered.axis}] = let.var;
  return loops::AddStmt(nest_, std::move(let));
}

}  // namespace weft::polyhedral::lower
