// Subscripts that are checked when the kernel runs, each before memory is touched: those that are
// loaded, and those of guarded reads that nothing shows to stay inside.
#include <algorithm>
#include <cstdint>

#include "polyhedral/lower/emit.h"

namespace weft::polyhedral::lower {
namespace {

using Gathered = Values::Gathered;

// Walks a value as it is evaluated: `?:`, `&&` and `||` are lazy, so what stands in a branch is
// read only where the conditions that lead there hold.
class Finder {
 public:
  Finder(const Plan& plan, const Unit& unit) : plan_(plan), program_(*plan.program), unit_(unit) {}

  std::vector<Gathered> Run() {
    const tc::Statement& s = program_.statements[unit_.statement];
    if (unit_.part == Part::kWhole || unit_.part == Part::kUpdate) {
      Visit(unit_.value, {});
      if (s.companion.valid()) Visit(s.companion_value, {});
    }
    return std::move(found_);
  }

 private:
  // What holds where an expression is evaluated.
  struct Context {
    std::vector<Affine> guards;
    std::vector<Values::Decision> decisions;
  };

  Context With(Context context, tc::ExprId condition, bool holds) const {
    const auto all = ConjunctionOf(program_, condition, unit_.index);
    if (all && (holds || all->size() == 1)) {
      if (holds) context.guards.insert(context.guards.end(), all->begin(), all->end());
      if (!holds) context.guards.push_back(-(*all)[0] - 1);
      return context;
    }
    // Affine parts of a conjunction say more than its value does.
    const tc::Expr& c = program_[condition];
    const bool both =
        c.kind == tc::ExprKind::kOp && c.op == (holds ? ScalarOp::kAnd : ScalarOp::kOr);
    if (both) return With(With(std::move(context), c.args[0], holds), c.args[1], holds);
    context.decisions.push_back({condition, holds});
    return context;
  }

  void Visit(tc::ExprId id, const Context& context) {
    const tc::Expr& e = program_[id];
    if (e.kind == tc::ExprKind::kOp && e.op == ScalarOp::kSelect) {
      Visit(e.args[0], context);
      Visit(e.args[1], With(context, e.args[0], true));
      Visit(e.args[2], With(context, e.args[0], false));
      return;
    }
    if (e.kind == tc::ExprKind::kOp && (e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr)) {
      Visit(e.args[0], context);
      Visit(e.args[1], With(context, e.args[0], e.op == ScalarOp::kAnd));
      return;
    }
    for (const tc::ExprId arg : e.args) Visit(arg, context);  // inner gathers first
    if (e.kind != tc::ExprKind::kRead) return;
    for (size_t axis = 0; axis < e.args.size(); ++axis)
      if (IsChecked(e, axis, context)) Name(id, axis, context);
  }

  bool IsChecked(const tc::Expr& read, size_t axis, const Context& context) const {
    const auto e = AffineOf(program_, read.args[axis], unit_.index);
    if (!e) return true;
    if (!plan_.check_reads) return false;
    const Interval values = ValuesOf(read.args[axis]);
    const Affine& extent = program_[read.tensor].extents[axis];
    const bool below = extent.IsConstant() && values.hi < extent.constant();
    return !(values.lo >= 0 || IsGuarded(*e, context)) ||
           !(below || IsGuarded(extent - 1 - *e, context));
  }

  // Over all iterations of the statement.
  Interval ValuesOf(tc::ExprId subscript) const {
    constexpr Interval kAny{INT32_MIN, INT32_MAX};
    const auto e = tc::AsAffine(program_, subscript);
    if (!e) return kAny;
    return e->Bounds([&](Var v) {
      const tc::Index& index = program_.statements[unit_.statement].indices[v];
      const bool is_known = index.lo.IsConstant() && index.hi.IsConstant();
      return is_known ? Interval{index.lo.constant(), index.hi.constant() - 1} : kAny;
    });
  }

  // e >= 0 by one of the guards.
  static bool IsGuarded(const Affine& e, const Context& context) {
    return std::ranges::any_of(context.guards, [&](const Affine& guard) {
      const Affine over = e - guard;
      return over.IsConstant() && over.constant() >= 0;
    });
  }

  void Name(tc::ExprId read, size_t axis, const Context& context) {
    const bool again = std::ranges::any_of(
        found_, [&](const Gathered& g) { return g.read == read && g.axis == axis; });
    if (again) return;
    Gathered gathered{.read = read,
                      .axis = axis,
                      .needs = context.guards,
                      .guards = context.guards,
                      .decisions = context.decisions};
    AddIndices(program_[read].args[axis], gathered.needs);
    for (const Values::Decision& d : context.decisions) AddIndices(d.condition, gathered.needs);
    found_.push_back(std::move(gathered));
  }

  void AddIndices(tc::ExprId id, std::vector<Affine>& needs) const {
    const tc::Expr& e = program_[id];
    if (e.kind == tc::ExprKind::kIndex) needs.push_back(unit_.index[e.position]);
    for (const tc::ExprId arg : e.args) AddIndices(arg, needs);
  }

  const Plan& plan_;
  const tc::Program& program_;
  const Unit& unit_;
  std::vector<Gathered> found_;
};

}  // namespace

std::vector<Gathered> Values::FindGathered(const Unit& unit) const {
  return Finder(plan_, unit).Run();
}

loops::StmtId Values::Let(Active& active, const Gathered& gathered) {
  active_ = &active;
  const tc::Expr& read = program_[gathered.read];
  const View& view = storage_.views[read.tensor.index];
  loops::Stmt let{.kind = loops::StmtKind::kLet, .buffer = view.buffer};
  loops::ExprId value = Value(read.args[gathered.axis], gathered.guards);
  // Where nobody reads, 0 is in range whatever the guarded parts gave.
  const Dtype dtype = nest_[value].dtype;
  const loops::ExprId zero = loops::AddLiteral(nest_, dtype, 0);
  const auto choose = [&](loops::ExprId test, loops::ExprId yes, loops::ExprId no) {
    value = loops::AddOp(nest_, ScalarOp::kSelect, dtype, {test, yes, no});
  };
  for (const Affine& g : gathered.guards) {
    if (!scope_.Surely(g)) choose(Condition(g), value, zero);
  }
  for (const Decision& d : gathered.decisions) {
    const loops::ExprId test = Value(d.condition, gathered.guards);
    d.holds ? choose(test, value, zero) : choose(test, zero, value);
  }
  let.value = value;
  let.var = loops::AddVar(nest_, "at");
  let.lo = {0};
  let.hi = {program_[read.tensor].extents[gathered.axis]};
  active.lets[{gathered.read.index, gathered.axis}] = let.var;
  return loops::AddStmt(nest_, std::move(let));
}

}  // namespace weft::polyhedral::lower
