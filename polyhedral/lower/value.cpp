// Expressions: tc's values as loads and primitive operations, conditions decided where they can be.
#include <algorithm>

#include "base/check.h"
#include "polyhedral/loops/math.h"
#include "polyhedral/lower/emit.h"

namespace weft::polyhedral::lower {

using loops::ExprId;

namespace {

bool IsFmaType(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF64; }

const tc::Statement* OnlyWriter(const tc::Program& program, tc::TensorId tensor) {
  const auto writes = [&](const tc::Statement& s) {
    return s.target == tensor || s.companion == tensor;
  };
  const auto first = std::ranges::find_if(program.statements, writes);
  if (first == program.statements.end()) return nullptr;
  return std::ranges::count_if(program.statements, writes) == 1 ? &*first : nullptr;
}

// Whether `e` is x - m, of an element x and the largest of elements that x is one of: what softmax
// takes the exponential of. It is at most 0 or NaN: m is complete where it is read, or the program
// is refused (E0504).
bool IsBelowMaximum(const tc::Program& program, const tc::Statement& s, const tc::Expr& e) {
  if (e.kind != tc::ExprKind::kOp || e.op != ScalarOp::kSub) return false;
  const tc::Expr &x = program[e.args[0]], &m = program[e.args[1]];
  if (x.kind != tc::ExprKind::kRead || m.kind != tc::ExprKind::kRead) return false;
  const tc::Statement* largest = OnlyWriter(program, m.tensor);
  if (!largest || largest->target != m.tensor || largest->assign != tc::Assign::kMax ||
      !largest->init)
    return false;
  const tc::Expr& of = program[largest->value];
  const bool written_once =
      program[x.tensor].role == tc::Role::kInput || OnlyWriter(program, x.tensor) != nullptr;
  if (of.kind != tc::ExprKind::kRead || of.tensor != x.tensor || !written_once ||
      largest->accumulate != x.dtype || m.dtype != x.dtype)
    return false;
  // The index of s that stands for each index of the maximum: along a reduction any with the same
  // range, else the one by which m is read.
  std::vector<int32_t> stands(largest->indices.size(), -1);
  const auto position = [&](tc::ExprId id) {
    return program[id].kind == tc::ExprKind::kIndex ? program[id].position : -1;
  };
  for (size_t axis = 0; axis < m.args.size(); ++axis) {
    const int32_t to = position(largest->subscripts[axis]), from = position(m.args[axis]);
    if (to < 0 || from < 0) return false;
    stands[to] = from;
  }
  for (size_t axis = 0; axis < x.args.size(); ++axis) {
    const int32_t to = position(of.args[axis]), from = position(x.args[axis]);
    if (to < 0 || from < 0) return false;
    const tc::Index &any = largest->indices[to], &one = s.indices[from];
    if (stands[to] < 0 && any.lo == one.lo && any.hi == one.hi) stands[to] = from;
    if (stands[to] != from) return false;
  }
  return true;
}

}  // namespace

bool IsEmpty(const tc::TensorDecl& tensor) {
  return std::ranges::any_of(tensor.extents, [](const Affine& e) { return e == Affine(0); });
}

ExprId Values::Literal(Dtype dtype, Scalar value) {
  const ExprId id = loops::AddLiteral(nest_, dtype, 0);
  nest_.exprs[id.index].literal = value;  // exact, where a double is not
  return id;
}

ExprId Values::Cast(ExprId value, Dtype dtype) {
  if (nest_[value].dtype == dtype) return value;
  return loops::AddOp(nest_, ScalarOp::kCast, dtype, {value});
}

ExprId Values::Condition(const Affine& e) {
  const Interval range = scope_.Range(e);
  const bool small = range.lo > -(int64_t{1} << 30) && range.hi < (int64_t{1} << 30);
  const Dtype dtype = small ? Dtype::kI32 : Dtype::kI64;
  const ExprId value = loops::AddAffine(nest_, dtype, scope_.Place(e));
  return loops::AddOp(nest_, ScalarOp::kGe, Dtype::kBool,
                      {value, loops::AddLiteral(nest_, dtype, 0)});
}

ExprId Values::Value(tc::ExprId id, const Guards& guards) {
  const tc::Expr& e = program_[id];
  if (e.kind == tc::ExprKind::kLiteral) return Literal(e.dtype, e.literal);
  if (e.kind == tc::ExprKind::kRead) return Read(id, guards);
  if (e.kind == tc::ExprKind::kCheck) {
    const Var checked = active_->lets.at({id.index, 0});
    return loops::AddAffine(nest_, e.dtype, Affine::OfVar(checked));
  }
  if (const auto affine = AffineOf(program_, id, active_->unit->index)) {
    return loops::AddAffine(nest_, e.dtype, scope_.Place(*affine));
  }
  if (e.kind == tc::ExprKind::kIndex) {
    return loops::AddAffine(nest_, e.dtype, scope_.Place(active_->unit->index[e.position]));
  }
  if (e.kind == tc::ExprKind::kParam)
    return loops::AddAffine(nest_, e.dtype, Affine::OfVar(e.position));
  return Op(e, guards);
}

ExprId Values::Op(const tc::Expr& e, const Guards& guards) {
  if (e.op == ScalarOp::kSelect) return Select(e.args[0], e.args[1], e.args[2], e.dtype, guards);
  if (e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr) {
    // Lazy: what the right side reads is guarded by the left side where that is affine.
    const Guards right =
        Under(e.args[0], e.op == ScalarOp::kAnd, {guards, {}}, *active_->unit).guards;
    const ExprId a = Value(e.args[0], guards), b = Value(e.args[1], right);
    return loops::AddOp(nest_, e.op, e.dtype, {a, b});
  }
  if ((e.op == ScalarOp::kAdd || e.op == ScalarOp::kSub) && IsFmaType(e.dtype))
    return Sum(e, guards);
  std::vector<ExprId> args;
  for (const tc::ExprId arg : e.args) args.push_back(Value(arg, guards));
  if (e.op == ScalarOp::kExp && IsFmaType(e.dtype) &&
      IsBelowMaximum(program_, program_.statements[active_->unit->statement], program_[e.args[0]]))
    return loops::ExpandExpBelowZero(nest_, args[0]);
  if (e.op == ScalarOp::kCast && nest_[args[0]].dtype == e.dtype) return args[0];
  return loops::AddOp(nest_, e.op, e.dtype, std::move(args));
}

// a*b + c in one rounding.
ExprId Values::Sum(const tc::Expr& e, const Guards& guards) {
  const auto product = [&](tc::ExprId id) {
    const tc::Expr& p = program_[id];
    return p.kind == tc::ExprKind::kOp && p.op == ScalarOp::kMul && p.dtype == e.dtype;
  };
  const bool subtract = e.op == ScalarOp::kSub;
  const size_t which = product(e.args[0]) ? 0 : 1;
  if (!product(e.args[which])) {
    return loops::AddOp(nest_, e.op, e.dtype, {Value(e.args[0], guards), Value(e.args[1], guards)});
  }
  const tc::Expr& p = program_[e.args[which]];
  ExprId a = Value(p.args[0], guards);
  const ExprId b = Value(p.args[1], guards);
  ExprId c = Value(e.args[1 - which], guards);
  ExprId& negated = which == 0 ? c : a;
  if (subtract) negated = loops::AddOp(nest_, ScalarOp::kNeg, e.dtype, {negated});
  return loops::AddOp(nest_, ScalarOp::kFma, e.dtype, {a, b, c});
}

ExprId Values::Select(tc::ExprId condition, tc::ExprId then, tc::ExprId otherwise, Dtype dtype,
                      const Guards& guards) {
  const std::vector<Affine>& index = active_->unit->index;
  if (const auto all = ConjunctionOf(program_, condition, index)) {
    std::vector<Affine> open;
    for (const Affine& c : *all) {
      if (scope_.Never(c)) return Value(otherwise, guards);
      if (!scope_.Surely(c)) open.push_back(c);
    }
    return Chain(open, 0, then, otherwise, dtype, guards);
  }
  const tc::Expr& c = program_[condition];
  const auto choose = [&](ExprId test, ExprId yes, ExprId no) {
    return loops::AddOp(nest_, ScalarOp::kSelect, dtype, {test, yes, no});
  };
  if (c.kind == tc::ExprKind::kOp && c.op == ScalarOp::kNot) {
    return Select(c.args[0], otherwise, then, dtype, guards);
  }
  // Parts of a condition that are affine guard what the branches read.
  if (c.kind == tc::ExprKind::kOp && (c.op == ScalarOp::kAnd || c.op == ScalarOp::kOr)) {
    const bool is_and = c.op == ScalarOp::kAnd;
    // The left side: as it has to be for the right side to matter, and the other way round.
    const Guards when = Under(c.args[0], is_and, {guards, {}}, *active_->unit).guards,
                 decided = Under(c.args[0], !is_and, {guards, {}}, *active_->unit).guards;
    const ExprId inner = Select(c.args[1], then, otherwise, dtype, when);
    const ExprId test = Value(c.args[0], guards);
    return is_and ? choose(test, inner, Value(otherwise, decided))
                  : choose(test, Value(then, decided), inner);
  }
  return choose(Value(condition, guards), Value(then, guards), Value(otherwise, guards));
}

// select(c0, select(c1, …, otherwise), otherwise): each branch knows what holds in it.
ExprId Values::Chain(const std::vector<Affine>& conditions, size_t at, tc::ExprId then,
                     tc::ExprId otherwise, Dtype dtype, Guards guards) {
  if (at == conditions.size()) return Value(then, guards);
  const Affine& c = conditions[at];
  Guards holds = guards, fails = std::move(guards);
  holds.push_back(c);
  fails.push_back(-c - 1);
  const ExprId yes = Chain(conditions, at + 1, then, otherwise, dtype, std::move(holds));
  const ExprId no = Value(otherwise, fails);
  return loops::AddOp(nest_, ScalarOp::kSelect, dtype, {Condition(c), yes, no});
}

ExprId Values::Read(tc::ExprId read, const Guards& guards) {
  const tc::Expr& e = program_[read];
  const View& view = storage_.views[e.tensor.index];
  if (IsEmpty(program_[e.tensor])) return Literal(e.dtype, {});  // its let is at fault if any is
  if (Inside(e)) return LoadAt(view, Subscripts(read, e.args), {});
  Guards all = guards;
  for (size_t axis = 0; axis < e.args.size(); ++axis) {
    // Checked by a let where it counts; where it doesn't, it may be anywhere.
    const auto at = SubscriptOf(program_, e.args[axis], active_->unit->index);
    if (!at || !active_->lets.contains({read.index, axis})) continue;
    all.push_back(*at);
    all.push_back(program_[e.tensor].extents[axis] - 1 - *at);
  }
  const bool never = std::ranges::any_of(all, [this](const Affine& g) { return scope_.Never(g); });
  return never ? Literal(e.dtype, {}) : LoadAt(view, Subscripts(read, e.args), all);
}

// True if the read stays in its tensor whatever the guards say, and the tensor holds a value there:
// a weight beside a padded tap. It may then be loaded in every lane.
bool Values::Inside(const tc::Expr& read) const {
  const tc::TensorDecl& tensor = program_[read.tensor];
  if (tensor.role != tc::Role::kInput) return false;
  for (size_t axis = 0; axis < read.args.size(); ++axis) {
    const auto e = SubscriptOf(program_, read.args[axis], active_->unit->index);
    if (!e || !scope_.Surely(*e) || !scope_.Surely(tensor.extents[axis] - 1 - *e)) return false;
  }
  return true;
}

ExprId Values::LoadAt(const View& view, const std::vector<Affine>& index, const Guards& guards) {
  std::vector<Affine> open;
  for (const Affine& g : guards) {
    const Affine placed = scope_.Place(g);
    if (!scope_.Surely(g) && std::ranges::count(open, placed) == 0) open.push_back(placed);
  }
  return loops::AddLoad(nest_, view.buffer, index, std::move(open));
}

std::vector<Affine> Values::IndexOf(const View& view, const std::vector<Affine>& over_dims) const {
  std::vector<Affine> index;
  for (size_t axis = 0; axis < over_dims.size(); ++axis) {
    Affine e = over_dims[axis];
    if (view.contracted[axis]) {
      const auto drop = [&](Var v) {
        return std::ranges::binary_search(view.shared, v) ? Affine(0) : Affine::OfVar(v);
      };
      e = e.Substitute(drop) - view.offset[axis];
    }
    index.push_back(scope_.Place(e));
  }
  return index;
}

Affine Values::Offset(const Active& active, tc::ExprId read) {
  active_ = &active;
  const tc::Expr& e = program_[read];
  return loops::ElementOffset(nest_[storage_.views[e.tensor.index].buffer],
                              Subscripts(read, e.args));
}

std::vector<Affine> Values::Subscripts(tc::ExprId read, const std::vector<tc::ExprId>& subscripts) {
  const View& view = storage_.views[program_[read].tensor.index];
  std::vector<Affine> over_dims(subscripts.size());
  std::vector<std::pair<size_t, Var>> lets;
  for (size_t axis = 0; axis < subscripts.size(); ++axis) {
    if (const auto e = SubscriptOf(program_, subscripts[axis], active_->unit->index)) {
      over_dims[axis] = scope_.Simplified(*e);
    } else {
      lets.emplace_back(axis, active_->lets.at({read.index, axis}));
    }
  }
  std::vector<Affine> index = IndexOf(view, over_dims);
  for (const auto& [axis, var] : lets) index[axis] = Affine::OfVar(var);
  return index;
}

}  // namespace weft::polyhedral::lower
