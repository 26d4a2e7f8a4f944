// Scatters as what they mean for each cell: t(i / 3) +=! x(i) becomes t(c) +=! (3 c <= i < 3 c + 3
// ? x(i) : 0), where c is on the left and i a reduction. Statements after this write each cell
// once.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tc_lang/bind_def.h"
#include "tc_lang/region.h"

namespace weft::tc {
namespace {

// Constraints on which e == to.
std::vector<Affine> Equal(const Affine& e, const Affine& to) {
  if (e.terms().size() == 1 && e.terms()[0].dividend != nullptr && e.terms()[0].coefficient == 1) {
    const Affine first = (to - e.constant()) * e.terms()[0].divisor, &x = *e.terms()[0].dividend;
    return {x - first, first + (e.terms()[0].divisor - 1) - x};
  }
  return {e - to, to - e};
}

}  // namespace

bool DefBinder::GatherScatters() {
  Work work;
  for (size_t k = 0; k < program_.statements.size(); ++k) {
    Statement& s = program_.statements[k];
    if (s.assign == Assign::kSet || WritesEachCellOnce(program_, s, work).value_or(false)) continue;
    if (s.companion.valid()) {
      return Error(Problem::kTuple, at_[k],
                   fmt::format("several instances write one cell of '{}', and a tuple can't tell "
                               "which is the first",
                               program_[s.target].name));
    }
    const Result<std::vector<int32_t>> recurrence = RecurrenceIndices(program_, s);
    if (recurrence.ok() && !recurrence->empty()) {
      return Error(Problem::kRecurrence, at_[k],
                   fmt::format("several instances write one cell of '{}', which they also read",
                               program_[s.target].name));
    }
    if (!GatherScatter(s, at_[k])) return false;
  }
  return true;
}

bool DefBinder::GatherScatter(Statement& s, Location at) {
  const auto count = static_cast<Var>(s.indices.size());
  std::vector<Affine> left;
  std::vector<int> uses(s.indices.size(), 0);
  for (ExprId id : s.subscripts) {
    left.push_back(*AsAffineWithParams(program_, s, id));
    std::vector<Var> vars;
    left.back().CollectVars(vars);
    for (Var v : vars) {
      if (v < count) ++uses[static_cast<size_t>(v)];
    }
  }
  const IntBox hull = HullOf(program_, s.target);
  std::vector<Index> indices;  // of the left, then all others
  std::vector<int32_t> place(s.indices.size(), -1);
  std::vector<Affine> guards;  // over indices as they were, params, subscripts as they will be
  for (size_t d = 0; d < left.size(); ++d) {
    const std::optional<Var> plain = left[d].AsVar();
    if (plain && *plain < count && uses[static_cast<size_t>(*plain)] == 1) {
      place[static_cast<size_t>(*plain)] = static_cast<int32_t>(indices.size());
      indices.push_back(s.indices[static_cast<size_t>(*plain)]);
      continue;
    }
    if (!program_[s.target].extents[d].IsConstant()) {
      return Error(Problem::kOpenSize, at,
                   fmt::format("which instances write one cell of '{}' depends on a size that is "
                               "left open",
                               program_[s.target].name),
                   "", Code::kUnsupported);
    }
    for (const Affine& e :
         Equal(left[d], Affine::OfVar(count + static_cast<Var>(program_.params.size() + d)))) {
      guards.push_back(e);
    }
    indices.push_back({.name = fmt::format("cell{}", d), .lo = 0, .hi = hull[d].hi + 1});
  }
  for (size_t i = 0; i < s.indices.size(); ++i) {
    if (place[i] >= 0) continue;
    place[i] = static_cast<int32_t>(indices.size());
    indices.push_back(s.indices[i]);
    indices.back().reduction = true;
  }
  Renumber(s, place);
  s.indices = std::move(indices);
  if (s.tag == Tag::kPointwise || s.tag == Tag::kCopy) s.tag = Tag::kReduction;
  const auto own = static_cast<Var>(s.indices.size());
  const auto moved = [&](Var v) {
    if (v < count) return Affine::OfVar(place[static_cast<size_t>(v)]);
    const Var rest = v - count;
    const auto params = static_cast<Var>(program_.params.size());
    return rest < params ? Affine::OfVar(own + rest) : Affine::OfVar(rest - params);
  };
  const Dtype dtype = program_[s.subscripts[0]].dtype;
  const auto add = [&](ScalarOp op, Dtype type, std::vector<ExprId> args) {
    return exprs_.Add({.kind = ExprKind::kOp, .dtype = type, .op = op, .args = std::move(args)},
                      at);
  };
  std::optional<ExprId> all;
  for (const Affine& guard : guards) {
    const ExprId zero = FromAffine(Affine(0), s, dtype);
    const ExprId holds =
        add(ScalarOp::kGe, Dtype::kBool, {FromAffine(guard.Substitute(moved), s, dtype), zero});
    all = all ? add(ScalarOp::kAnd, Dtype::kBool, {*all, holds}) : holds;
  }
  s.value = Masked(*all, s, at);
  for (size_t d = 0; d < s.subscripts.size(); ++d)
    s.subscripts[d] = FromAffine(Affine::OfVar(static_cast<Var>(d)), s, dtype);
  return true;
}

// Index i stands at place[i] from here on.
void DefBinder::Renumber(const Statement& s, const std::vector<int32_t>& place) {
  std::set<int32_t> done;
  const auto visit = [&](const auto& self, ExprId id) -> void {
    if (!done.insert(id.index).second) return;
    Expr& e = program_.exprs[static_cast<size_t>(id.index)];
    if (e.kind == ExprKind::kIndex) e.position = place[static_cast<size_t>(e.position)];
    for (ExprId arg : std::vector<ExprId>(e.args)) self(self, arg);
  };
  visit(visit, s.value);
}

}  // namespace weft::tc
