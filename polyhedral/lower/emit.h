// Writes the loops of a plan: the scan of its constraints.
#pragma once

#include <map>
#include <vector>

#include "polyhedral/lower/plan.h"
#include "polyhedral/lower/storage.h"

namespace weft::polyhedral::lower {

using Stmts = std::vector<loops::StmtId>;

bool IsEmpty(const tc::TensorDecl& tensor);

// A unit on the way to its leaf: what still has to be seen to.
struct Active {
  const Unit* unit = nullptr;
  std::vector<Constraint> open;                    // not yet certain
  std::map<std::pair<int32_t, size_t>, Var> lets;  // (read, axis) -> the nest's variable
};

// Where the emission stands: the value and range of every dimension that is bound.
class Scope {
 public:
  explicit Scope(const Plan& plan)
      : plan_(plan),
        values_(plan.dims.size()),
        ranges_(plan.dims.size()),
        bound_(plan.dims.size(), false) {}

  void Bind(Var dim, Affine value, Interval range) {
    values_[At(dim)] = std::move(value);
    ranges_[At(dim)] = range;
    bound_[At(dim)] = true;
  }
  void Release(Var dim) { bound_[At(dim)] = false; }
  bool Bound(Var v) const { return !plan_.IsDim(v) || bound_[At(v)]; }
  bool Bound(const Affine& e) const;
  Interval Range(Var v) const {
    if (!plan_.IsDim(v)) return {0, kOpen};
    return bound_[At(v)] ? ranges_[At(v)] : plan_.dims[At(v)].range;
  }
  Interval Range(const Affine& e) const {
    return e.Bounds([this](Var v) { return Range(v); });
  }
  // Without quotients that are always 0, such as those of lanes by their number.
  Affine Simplified(const Affine& e) const {
    Affine out = e;
    for (const Affine::Term& t : e.terms()) {
      if (!t.dividend) continue;
      const Interval dividend = Range(*t.dividend);
      if (dividend.lo >= 0 && dividend.hi < t.divisor)
        out = out - FloorDiv(*t.dividend, t.divisor) * t.coefficient;
    }
    return out;
  }
  // Over the nest's variables; all dimensions of e must be bound.
  Affine Place(const Affine& e) const {
    return e.Substitute(
        [this](Var v) { return plan_.IsDim(v) ? values_[At(v)] : Affine::OfVar(v); });
  }
  bool Surely(const Affine& e) const { return Range(e).lo >= 0; }
  bool Never(const Affine& e) const { return Range(e).hi < 0; }

 private:
  size_t At(Var dim) const { return static_cast<size_t>(dim - plan_.params); }
  const Plan& plan_;
  std::vector<Affine> values_;
  std::vector<Interval> ranges_;
  std::vector<bool> bound_;
};

// Expressions and stores of one unit.
class Values {
 public:
  Values(const Plan& plan, const Storage& storage, const Scope& scope, loops::LoopNest& nest)
      : plan_(plan), program_(*plan.program), storage_(storage), scope_(scope), nest_(nest) {}

  // The stores of a unit whose dimensions are all bound.
  Stmts Leaf(const Active& active);
  // Whether the ends of so many reductions, whose sums are spread over lanes, can be one: those of
  // a loop over `row` that holds nothing else.
  bool CanFinishTogether(const Active& active, Interval rows) const;
  // The same as a leaf for each row. Lanes are halved for all rows at once and results lie side by
  // side, so that few of a register's lanes are idle. `row` is bound in between.
  Stmts FinishTogether(const Active& active, Var row, Interval rows, Scope& scope);

  // What has to hold where an expression is evaluated: affine constraints over dimensions, and
  // conditions on values that are read, each true or false.
  struct Taken {
    std::vector<Affine> guards;
    std::vector<std::pair<tc::ExprId, bool>> conditions;
  };
  // An integer that is loaded (a gathered subscript, a `within`) or that may be used only where
  // something loaded allows it: named by a `let` before it is used.
  struct Gathered {
    tc::ExprId read;
    size_t axis = 0;
    std::vector<Affine> needs;  // expressions over dimensions that must be bound
    Taken taken;
  };
  std::vector<Gathered> FindGathered(const Unit& unit) const;
  loops::StmtId Let(Active& active, const Gathered& gathered);
  // Of what is read, in elements as they lie in memory; all that its subscripts use is bound.
  Affine Offset(const Active& active, tc::ExprId read);

 private:
  using Guards = std::vector<Affine>;  // over dimensions, undecided
  loops::ExprId Value(tc::ExprId e, const Guards& guards);
  loops::ExprId Op(const tc::Expr& e, const Guards& guards);
  loops::ExprId Read(tc::ExprId read, const Guards& guards);
  bool Inside(const tc::Expr& read) const;
  Taken Under(tc::ExprId condition, bool holds, Taken taken, const Unit& unit) const;
  bool IsNamed(const tc::Expr& read, size_t axis, const Taken& taken, const Unit& unit) const;
  void CollectIndices(tc::ExprId e, const Unit& unit, std::vector<Affine>& out) const;
  loops::ExprId Select(tc::ExprId condition, tc::ExprId then, tc::ExprId otherwise, Dtype dtype,
                       const Guards& guards);
  loops::ExprId Chain(const std::vector<Affine>& conditions, size_t at, tc::ExprId then,
                      tc::ExprId otherwise, Dtype dtype, Guards guards);
  loops::ExprId Sum(const tc::Expr& e, const Guards& guards);
  loops::ExprId Condition(const Affine& e);
  loops::ExprId Literal(Dtype dtype, Scalar value);
  loops::ExprId Cast(loops::ExprId value, Dtype dtype);
  loops::ExprId LoadAt(const View& view, const std::vector<Affine>& index, const Guards& guards);
  std::vector<Affine> IndexOf(const View& view, const std::vector<Affine>& over_dims) const;
  std::vector<Affine> TargetIndex(const View& view);
  std::vector<Affine> Subscripts(tc::ExprId read, const std::vector<tc::ExprId>& subscripts);
  std::vector<Affine> AccumulatorIndex(const Unit& unit, bool with_lane) const;
  std::vector<Affine> TileIndex(const Unit& unit) const;
  loops::StmtId StoreResult(const View& view, std::vector<Affine> index, loops::ExprId value);
  loops::StmtId Store(loops::BufferId buffer, std::vector<Affine> index, loops::ExprId value);
  Stmts Init();
  Stmts Move();
  std::pair<loops::BufferId, std::vector<Affine>> SumPlace();
  std::vector<Affine> ApartIndex(Affine parity) const;
  Stmts StartApart();
  Stmts JoinApart();
  Stmts Update();
  Stmts Finish();
  loops::ExprId Nothing();
  loops::ExprId Bool(ScalarOp op, std::vector<loops::ExprId> args);
  loops::ExprId Beats(loops::ExprId value, loops::ExprId old);
  Stmts JoinTuples(const AccumulatorBuffer& acc, const std::vector<Affine>& a,
                   const std::vector<Affine>& b);
  Stmts CompanionUpdate(loops::ExprId value, const Guards& guards);
  void HalveLanes(const AccumulatorBuffer& acc, std::vector<Affine> index, Stmts& out);
  template <typename Loads>
  loops::BufferId HalveRows(int64_t rows, int64_t half, Loads loads, Stmts& out);
  Stmts StoreSum(loops::ExprId sum);
  loops::ExprId Combine(tc::Assign assign, Dtype dtype, loops::ExprId a, loops::ExprId b);
  const tc::Statement& Statement() const { return program_.statements[active_->unit->statement]; }

  const Plan& plan_;
  const tc::Program& program_;
  const Storage& storage_;
  const Scope& scope_;
  loops::LoopNest& nest_;
  const Active* active_ = nullptr;
};

// Of its statements, each once.
std::vector<std::string> Origins(const tc::Program& program);

Result<loops::LoopNest> Emit(const ScheduleRequest& request, const Plan& plan);

}  // namespace weft::polyhedral::lower
