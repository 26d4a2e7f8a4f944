#include "polyhedral/lower/barriers.h"

#include <algorithm>

namespace weft::polyhedral::lower {
namespace {

struct Access {
  tc::TensorId tensor;
  const std::vector<tc::ExprId>* subscripts = nullptr;
  const Unit* unit = nullptr;
  bool writes = false;
};

std::vector<Access> AccessesOf(const Plan& plan, const Step& step) {
  const tc::Program& program = *plan.program;
  std::vector<Access> all;
  for (const int32_t u : step.units) {
    const Unit& unit = plan.units[u];
    const tc::Statement& s = program.statements[unit.statement];
    all.push_back({s.target, &s.subscripts, &unit, true});
    if (s.companion.valid()) all.push_back({s.companion, &s.subscripts, &unit, true});
    for (const tc::ExprId read : tc::Reads(program, s))
      all.push_back({program[read].tensor, &program[read].args, &unit, false});
  }
  return all;
}

// The dimension of the parallel loop that a step is, if it has one only; else -1.
Var ParallelDim(const Step& step) {
  const Step* at = &step;
  while (at->kind == Step::Kind::kLabel) at = at->children.data();
  return at->kind == Step::Kind::kParallel && at->dims.size() == 1 ? at->dims[0] : -1;
}

// The size of the blocks of a tensor's axis of which each iteration of a parallel loop touches its
// own one: block*dim + rest, 0 <= rest < block. 0 if it isn't so, or if storage drops a part.
int64_t BlockOf(const Plan& plan, const View& view, const Access& access, size_t axis, Var dim) {
  const auto e = SubscriptOf(*plan.program, (*access.subscripts)[axis], access.unit->index);
  const auto uses = [&](Var v) { return e->Uses(v); };
  if (!e || (view.contracted[axis] && std::ranges::any_of(view.shared, uses))) return 0;
  const int64_t block = e->CoefficientOf(dim);
  const Affine rest = *e - Affine::OfVar(dim, block);
  if (block <= 0 || rest.Uses(dim)) return 0;
  const Interval range =
      rest.Bounds([&](Var v) { return plan.IsDim(v) ? plan[v].range : Interval{0, kOpen}; });
  return range.lo >= 0 && range.hi < block ? block : 0;
}

}  // namespace

bool NeedBarrier(const Plan& plan, const Storage& storage, const Step& before, const Step& after,
                 bool same_range) {
  const Var from = ParallelDim(before), to = ParallelDim(after);
  const auto apart = [&](const Access& a, const Access& b) {
    if (!same_range || from < 0 || to < 0) return false;
    const View& view = storage.views[a.tensor.index];
    for (size_t axis = 0; axis < a.subscripts->size(); ++axis) {
      const int64_t block = BlockOf(plan, view, a, axis, from);
      if (block > 0 && BlockOf(plan, view, b, axis, to) == block) return true;
    }
    return false;
  };
  const std::vector<Access> first = AccessesOf(plan, before), second = AccessesOf(plan, after);
  return std::ranges::any_of(first, [&](const Access& a) {
    return std::ranges::any_of(second, [&](const Access& b) {
      return a.tensor == b.tensor && (a.writes || b.writes) && !apart(a, b);
    });
  });
}

}  // namespace weft::polyhedral::lower
