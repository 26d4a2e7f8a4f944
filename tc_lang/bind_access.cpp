// What a bound statement reads and writes: constraints on its ranges, its index type, hulls.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tc_lang/bind_def.h"

namespace weft::tc {
namespace {

bool IsInt32(const Interval& i) {
  return i.lo >= std::numeric_limits<int32_t>::min() && i.hi <= std::numeric_limits<int32_t>::max();
}

}  // namespace

void DefBinder::CollectAccesses(const Statement& s, ExprId id, bool guarded,
                                std::vector<Constraint>& out, bool final) {
  const Expr& e = program_[id];
  const bool lazy =
      e.kind == ExprKind::kOp &&
      (e.op == ScalarOp::kSelect || e.op == ScalarOp::kAnd || e.op == ScalarOp::kOr) &&
      !segment_guards_.contains(id.index);
  if (e.kind == ExprKind::kRead) {
    const State& state = states_[static_cast<size_t>(e.tensor.index)];
    // Another cell of the target, or a tensor that comes later: a recurrence, which bounds nothing.
    bool same = e.tensor == s.target && e.args.size() == s.subscripts.size();
    for (size_t d = 0; same && d < e.args.size(); ++d) {
      same = AsAffineWithParams(program_, s, e.args[d]) ==
             AsAffineWithParams(program_, s, s.subscripts[d]);
    }
    const bool known = final || (state.defined && (e.tensor != s.target || same));
    for (size_t d = 0; d < e.args.size(); ++d) {
      Constraint c{.subscript = AsAffineWithParams(program_, s, e.args[d]), .guarded = guarded};
      if (known && d < state.lo.size()) c.box = Box1{state.lo[d], state.hi[d]};
      c.tensor = program_[e.tensor].name;
      c.dimension = static_cast<int32_t>(d);
      c.at = exprs_.At(id);
      if (final && !c.subscript && !guarded && c.box) {
        const auto name = [this](Var v) { return program_.params[static_cast<size_t>(v)]; };
        preconditions_.push_back(fmt::format("{} <= subscript {} of {} < {}", c.box->lo.Print(name),
                                             d, c.tensor, c.box->hi.Print(name)));
      }
      out.push_back(std::move(c));
    }
  }
  for (size_t k = 0; k < e.args.size(); ++k)
    CollectAccesses(s, program_[id].args[k], guarded || (lazy && k > 0), out, final);
}

std::vector<Constraint> DefBinder::Constraints(const Statement& s, bool final) {
  std::vector<Constraint> out;
  CollectAccesses(s, s.value, false, out, final);
  if (s.companion_value.valid()) CollectAccesses(s, s.companion_value, false, out, final);
  if (final) return out;
  for (ExprId id : exists_.back()) CollectAccesses(s, id, false, out, false);
  // `op=` reads its target, whose box then bounds its indices.
  const State& target = states_[static_cast<size_t>(s.target.index)];
  if (s.assign != Assign::kSet && !s.init && target.defined) {
    for (size_t d = 0; d < s.subscripts.size() && d < target.lo.size(); ++d) {
      out.push_back({.subscript = AsAffineWithParams(program_, s, s.subscripts[d]),
                     .box = Box1{target.lo[d], target.hi[d]},
                     .tensor = program_[s.target].name,
                     .dimension = static_cast<int32_t>(d),
                     .at = exprs_.At(s.subscripts[d])});
    }
  }
  return out;
}

// An int64 number beside index arithmetic, as canonical text of a wide statement has it.
bool DefBinder::MixesWidths(const Expr& e, const std::vector<std::optional<Interval>>& bounds,
                            size_t first_expr) const {
  if (e.kind != ExprKind::kOp || e.dtype != Dtype::kI64 || e.args.size() != 2) return false;
  for (const auto& [number, other] : {std::pair(e.args[0], e.args[1]), {e.args[1], e.args[0]}}) {
    if (program_[number].kind != ExprKind::kLiteral || !exprs_.IsImplicit(other)) continue;
    const ExprId from = program_[other].args[0];
    if (program_[from].dtype == Dtype::kI32 && program_[from].kind != ExprKind::kLiteral &&
        bounds[static_cast<size_t>(from.index) - first_expr]) {
      return true;
    }
  }
  return false;
}

// By intervals, from the leaves up: whether index arithmetic may leave int32.
bool DefBinder::NeedsWideIndices(const std::vector<IndexRange>& indices, size_t first_expr) const {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  std::vector<std::optional<Interval>> bounds(program_.exprs.size() - first_expr);
  const auto of_affine = [](const Affine& e) {
    return e.Bounds([](Var) { return Interval{0, kMost}; });
  };
  for (size_t k = 0; k < bounds.size(); ++k) {
    const Expr& e = program_.exprs[first_expr + k];
    if (e.dtype != Dtype::kI32) {
      if (MixesWidths(e, bounds, first_expr)) return true;
      continue;
    }
    if (e.kind == ExprKind::kLiteral) bounds[k] = Interval{e.literal.i, e.literal.i};
    if (e.kind == ExprKind::kParam) bounds[k] = Interval{0, kMost};
    if (e.kind == ExprKind::kIndex) {
      const Box1& range = *indices[static_cast<size_t>(e.position)].range;
      bounds[k] = Interval{of_affine(range.lo).lo, of_affine(range.hi).hi - 1};
    }
    if (e.kind == ExprKind::kOp && e.args.size() == 2) {
      const auto a = bounds[static_cast<size_t>(e.args[0].index) - first_expr];
      const auto b = bounds[static_cast<size_t>(e.args[1].index) - first_expr];
      if (!a || !b) continue;
      if (e.op == ScalarOp::kAdd) bounds[k] = Interval{a->lo + b->lo, a->hi + b->hi};
      if (e.op == ScalarOp::kSub) bounds[k] = Interval{a->lo - b->hi, a->hi - b->lo};
      if (e.op == ScalarOp::kMul) {  // operands fit int32, products fit int64
        const auto [lo, hi] =
            std::minmax({a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi});
        bounds[k] = Interval{lo, hi};
      }
      if (e.op == ScalarOp::kDiv && b->lo == b->hi && b->lo > 0) {
        bounds[k] = Interval{weft::FloorDiv(a->lo, b->lo), weft::FloorDiv(a->hi, b->lo)};
      }
      if (e.op == ScalarOp::kMod && b->lo == b->hi && b->lo > 0) bounds[k] = Interval{0, b->lo - 1};
    }
    if (bounds[k] && !bounds[k]->empty() && !IsInt32(*bounds[k])) return true;
  }
  return false;
}

bool DefBinder::GrowHull(const SyntaxStatement& s, const Statement& out, TensorId target,
                         const std::vector<IndexRange>& indices) {
  State& state = states_[static_cast<size_t>(target.index)];
  const bool first = !state.defined;
  for (size_t d = 0; d < out.subscripts.size(); ++d) {
    const Affine e = *AsAffineWithParams(program_, out, out.subscripts[d]);
    Box1 box = ClosedBounds(e, indices);
    box.hi += 1;
    const std::optional<Var> plain = e.AsVar();
    if (plain && *plain < static_cast<Var>(indices.size()))
      box = *indices[static_cast<size_t>(*plain)].range;
    std::vector<Var> vars;
    e.CollectVars(vars);
    const bool given = std::all_of(vars.begin(), vars.end(), [&](Var v) {
      return v >= static_cast<Var>(indices.size()) || indices[static_cast<size_t>(v)].given;
    });
    const auto name = [this](Var v) { return program_.params[static_cast<size_t>(v)]; };
    if (!given && box.lo != Affine(0) && (first || box.lo != state.lo[d])) {
      const std::string index = plain ? indices[static_cast<size_t>(*plain)].name : "…";
      return Error(Problem::kNotZeroBased, s.at,
                   fmt::format("the index '{}' of '{}' is inferred to start at {}, expected 0",
                               index, program_[target].name, box.lo.Print(name)),
                   fmt::format("where {} in {}:{}, or another subscript", index, box.lo.Print(name),
                               box.hi.Print(name)));
    }
    if (first) {
      state.lo.push_back(box.lo);
      state.hi.push_back(box.hi);
      continue;
    }
    const Sign lo = SignOf(box.lo - state.lo[d]), hi = SignOf(state.hi[d] - box.hi);
    if ((lo == Sign::kDepends) || (hi == Sign::kDepends)) {
      return Error(Problem::kOpenSize, s.at,
                   fmt::format("how far '{}' extends depends on sizes", program_[target].name));
    }
    if (lo == Sign::kNegative) state.lo[d] = box.lo;
    if (hi == Sign::kNegative) state.hi[d] = box.hi;
  }
  state.defined = true;
  return true;
}

}  // namespace weft::tc
