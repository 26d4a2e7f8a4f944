#include "polyhedral/cuda/works.h"

#include <algorithm>
#include <utility>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

// The index as a loop like `from` has it, as `to` does.
std::vector<Affine> IndexIn(const LoopNest& nest, const Work& from, const Work& to,
                            std::vector<Affine> index) {
  for (Affine& e : index)
    e = e.Substitute([&](Var v) {
      for (size_t k = 0; k < from.loops.size(); ++k)
        if (nest[from.loops[k]].var == v) return Affine::OfVar(nest[to.loops[k]].var);
      return Affine::OfVar(v);
    });
  return index;
}

// Adds what the work's own statements load of operands.
void AddLoaded(const LoopNest& nest, StmtId id, const Work& work, std::vector<Loaded>& found) {
  const auto uses_all = [&](const std::vector<Affine>& index) {
    return std::ranges::all_of(work.loops, [&](StmtId loop) {
      return std::ranges::any_of(index, [&](const Affine& e) { return e.Uses(nest[loop].var); });
    });
  };
  const auto add = [&](const Expr& e) {
    if (e.kind != ExprKind::kLoad || !e.guards.empty() || !uses_all(e.index)) return false;
    if (nest[e.buffer].access != loops::Access::kIn || SharesBytes(e.dtype)) return false;
    const auto same = std::ranges::find_if(found, [&](const Loaded& l) {
      const Work& like = *l.readers[0];
      return l.buffer == e.buffer && SameLoops(nest, like, work) &&
             IndexIn(nest, work, like, e.index) == l.index;
    });
    if (same == found.end()) {
      found.push_back({e.buffer, e.index, id, {&work}});
    } else if (same->readers.back() != &work) {
      same->readers.push_back(&work);
    }
    return false;
  };
  for (const StmtId store : nest[work.loops.back()].body)
    if (nest[store].kind == StmtKind::kStore) AnyBelow(nest, nest[store].value, add);
}

}  // namespace

bool IsConstant(const LoopNest& nest, const Work& work) {
  return std::ranges::all_of(work.loops, [&](StmtId id) {
    const Stmt& s = nest[id];
    return loops::ConstantTrip(s) > 0 && s.step == 1 && s.lo[0] == Affine(0);
  });
}

bool SameLoops(const LoopNest& nest, const Work& a, const Work& b) {
  return a.lanes == b.lanes && std::ranges::equal(a.loops, b.loops, [&](StmtId x, StmtId y) {
           return TripOf(nest, x) == TripOf(nest, y);
         });
}

bool IsPlaceOf(const LoopNest& nest, const std::vector<Affine>& index, const Work& work) {
  if (!IsConstant(nest, work)) return false;
  size_t next = 0;
  for (const Affine& e : index) {
    if (e.IsConstant()) continue;
    if (next == work.loops.size() || e != Affine::OfVar(nest[work.loops[next]].var)) return false;
    ++next;
  }
  return next == work.loops.size();
}

std::vector<Loaded> LoadedAgain(const LoopNest& nest, const std::vector<StmtId>& row,
                                const std::map<StmtId, Work>& works) {
  std::vector<Loaded> found;
  for (const StmtId id : row)
    if (const auto work = works.find(id); work != works.end() && IsConstant(nest, work->second))
      AddLoaded(nest, id, work->second, found);
  std::erase_if(found, [](const Loaded& l) { return l.readers.size() < 2; });
  return found;
}

Copy CopyOnce(LoopNest& nest, const Loaded& l, std::vector<Affine> shape) {
  const Work& like = *l.readers[0];
  Copy copy{.work = {.trip = like.trip, .lanes = like.lanes}};
  copy.kept = loops::AddBuffer(nest, {.name = nest[l.buffer].name + "_kept",
                                      .dtype = nest[l.buffer].dtype,
                                      .shape = std::move(shape),
                                      .layout = Layout::Plain(2),
                                      .space = loops::Space::kRegister});
  const ExprId load = loops::AddLoad(nest, l.buffer, l.index);
  // A share is found by part and lane, whatever the index.
  const std::vector<Affine> anywhere = {0, 0};
  for (const Work* reader : l.readers) {
    const std::vector<Affine> index = IndexIn(nest, like, *reader, l.index);
    for (int32_t i = 0; i < load.index; ++i) {
      Expr& e = nest.exprs[i];
      if (e.kind == ExprKind::kLoad && e.buffer == l.buffer && e.index == index && e.guards.empty())
        e.buffer = copy.kept, e.index = anywhere;
    }
  }
  std::map<Var, Affine> values;
  std::vector<Var> vars;
  for (const StmtId id : like.loops) {
    vars.push_back(loops::AddVar(nest, nest.vars[nest[id].var]));
    values.emplace(nest[id].var, Affine::OfVar(vars.back()));
  }
  const StmtId store = loops::AddStmt(
      nest, {.kind = StmtKind::kStore, .buffer = copy.kept, .index = anywhere, .value = load});
  copy.loop = Rewriter(nest, values).Copy(store);
  for (size_t k = like.loops.size(); k-- > 0;) {
    const StmtId id = like.loops[k];
    Stmt loop{.kind = StmtKind::kFor, .var = vars[k], .lo = nest[id].lo, .hi = nest[id].hi};
    loop.body = {copy.loop};
    copy.loop = loops::AddStmt(nest, std::move(loop));
    copy.work.loops.insert(copy.work.loops.begin(), copy.loop);
  }
  return copy;
}

}  // namespace weft::polyhedral::cuda
