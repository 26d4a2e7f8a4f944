#include "polyhedral/cuda/sums.h"

#include <algorithm>
#include <limits>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/lanes.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

bool IsCellOf(const LoopNest& nest, const Stmt& s, ExprId load) {
  const Expr& e = nest[load];
  return e.kind == ExprKind::kLoad && e.buffer == s.buffer && e.index == s.index &&
         e.guards.empty();
}

// A range with one sum: loops, what an iteration does before and after it, and its cells.
struct LongSum {
  std::vector<StmtId> band, before, after;
  Sum sum;
  int64_t width = 1, summands = 1;
};

bool IsWholeRange(const LoopNest& nest, StmtId loop) {
  const Stmt& s = nest[loop];
  return s.lo.size() == 1 && s.lo[0] == Affine(0) && s.step == 1 && loops::ConstantTrip(s) > 0;
}

std::optional<LongSum> AsLongSum(LoopNest& nest, StmtId range) {
  LongSum l{.band = loops::ParallelBand(nest, range)};
  if (l.band.size() == 1) l.band = Split(nest, range);
  const auto whole = [&](StmtId id) { return IsWholeRange(nest, id); };
  if (!std::ranges::all_of(l.band, whole)) return std::nullopt;
  bool found = false;
  for (const StmtId id : nest[l.band.back()].body) {
    if (nest[id].kind == StmtKind::kStore) {
      (found ? l.after : l.before).push_back(id);
      continue;
    }
    auto sum = nest[id].kind == StmtKind::kFor ? AsSum(nest, id) : std::nullopt;
    if (!sum || found || !std::ranges::all_of(sum->loops, whole)) return std::nullopt;
    l.sum = *std::move(sum);
    found = true;
  }
  if (!found) return std::nullopt;
  // Summands follow from what is there before the range.
  const BufferId cell = nest[l.sum.store].buffer;
  for (const Touch& t : TouchesOf(nest, {l.sum.store})) {
    const bool is_local =
        nest[t.buffer].access == loops::Access::kLocal && nest[t.buffer].space != Space::kGrid;
    if (is_local && t.buffer != cell) return std::nullopt;
  }
  for (const StmtId id : l.band) l.width *= TripOf(nest, id);
  for (const StmtId id : l.sum.loops) l.summands *= TripOf(nest, id);
  return l;
}

int64_t PartsWanted(const LoopNest& nest, const LongSum& l) {
  const std::vector<StmtId> body = {l.sum.loops[0]};
  const auto along = [&](StmtId loop) { return MovesOf(nest, body, nest[loop].var).along; };
  return PartsToFill(l.width, l.summands, along(l.band.back()) > along(l.sum.loops.back()));
}

// A number of parts near the wanted one that divides the loop, if there is one.
int64_t PartsOf(int64_t trip, int64_t wanted) {
  wanted = std::min(wanted, trip);
  for (int64_t parts = wanted; 2 * parts > wanted; --parts)
    if (trip % parts == 0) return parts;
  return wanted;
}

StmtId AddLoop(LoopNest& nest, Var v, int64_t trip, LoopKind kind, std::vector<StmtId> body) {
  return loops::AddStmt(nest, {.kind = StmtKind::kFor,
                               .var = v,
                               .lo = {0},
                               .hi = {trip},
                               .loop = kind,
                               .body = std::move(body)});
}

}  // namespace

double IdentityOf(ScalarOp op) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ScalarOp::kAdd:
      return -0.0;  // -0 + x is x, also for x = -0
    case ScalarOp::kMul:
      return 1;
    case ScalarOp::kMin:
      return kInfinity;
    default:
      return -kInfinity;
  }
}

std::optional<Sum> AsSum(const LoopNest& nest, StmtId loop) {
  Sum sum{.loops = {loop}};
  for (;;) {
    const auto& body = nest[sum.loops.back()].body;
    if (body.size() != 1) return std::nullopt;
    if (nest[body[0]].kind != StmtKind::kFor) break;
    sum.loops.push_back(body[0]);
  }
  sum.store = nest[sum.loops.back()].body[0];
  const Stmt& s = nest[sum.store];
  if (s.kind != StmtKind::kStore) return std::nullopt;
  const Expr& e = nest[s.value];
  // 16 bits round at each step, so that order would show more than it may.
  if (!IsFloat(e.dtype) || SizeBytes(e.dtype) < 4 || e.kind != ExprKind::kOp) return std::nullopt;
  const bool fma = e.op == ScalarOp::kFma;
  sum.op = fma ? ScalarOp::kAdd : e.op;
  if (sum.op != ScalarOp::kAdd && sum.op != ScalarOp::kMul && sum.op != ScalarOp::kMin &&
      sum.op != ScalarOp::kMax) {
    return std::nullopt;
  }
  if (!IsCellOf(nest, s, e.args[fma ? 2 : 0])) return std::nullopt;
  size_t loads = 0;
  for (const Touch& t : TouchesOf(nest, {sum.store})) loads += t.buffer == s.buffer && !t.is_write;
  if (loads != 1) return std::nullopt;
  for (const StmtId id : sum.loops) {
    const Stmt& l = nest[id];
    if (l.loop != LoopKind::kSerial && l.loop != LoopKind::kUnroll) return std::nullopt;
    if (std::ranges::any_of(s.index, [&](const Affine& i) { return i.Uses(l.var); }))
      return std::nullopt;
  }
  return sum;
}

StmtId AddTo(LoopNest& nest, ScalarOp op, BufferId x, std::vector<Affine> index, ExprId value) {
  const ExprId old = loops::AddLoad(nest, x, index),
               sum = loops::AddOp(nest, op, nest[x].dtype, {old, value});
  return loops::AddStmt(
      nest, {.kind = StmtKind::kStore, .buffer = x, .index = std::move(index), .value = sum});
}

void Redirect(LoopNest& nest, StmtId store, BufferId to) {
  Expr value = nest[nest[store].value];
  value.args[value.op == ScalarOp::kFma ? 2 : 0] = loops::AddLoad(nest, to, {});
  nest.exprs.push_back(std::move(value));
  Stmt& s = nest.stmts[store.index];
  s.value = ExprId(nest.exprs.size() - 1);
  s.buffer = to;
  s.index = {};
}

std::optional<std::pair<StmtId, StmtId>> SplitSum(LoopNest& nest, StmtId range) {
  const auto l = AsLongSum(nest, range);
  const int64_t wanted = l ? PartsWanted(nest, *l) : 1;
  if (wanted < 2) return std::nullopt;
  const auto trip = [&](StmtId id) { return TripOf(nest, id); };
  auto cut = std::ranges::find_if(l->sum.loops, [&](StmtId id) { return trip(id) >= wanted; });
  if (cut == l->sum.loops.end()) cut = std::ranges::max_element(l->sum.loops, {}, trip);
  const int64_t extent = trip(*cut), parts = PartsOf(extent, wanted),
                size = (extent + parts - 1) / parts;
  if (parts < 2) return std::nullopt;

  const Stmt store = nest[l->sum.store];
  const Dtype dtype = nest[store.buffer].dtype;
  const Var part = loops::AddVar(nest, "part"), again = loops::AddVar(nest, "part");
  std::vector<Affine> shape = {(extent + size - 1) / size}, at = {Affine::OfVar(part)},
                      from = {Affine::OfVar(again)};
  for (const StmtId id : l->band) {
    shape.emplace_back(trip(id));
    at.push_back(Affine::OfVar(nest[id].var));
    from.push_back(Affine::OfVar(nest[id].var));
  }
  const int64_t count = shape[0].constant();
  const Layout layout = Layout::Plain(shape.size());
  const BufferId sums = loops::AddBuffer(
      nest,
      {.name = "sums", .dtype = dtype, .shape = shape, .layout = layout, .space = Space::kGrid});
  const BufferId share = loops::AddBuffer(
      nest,
      {.name = "share", .dtype = dtype, .layout = Layout::Plain(0), .space = Space::kRegister});
  const auto put = [&](BufferId to, std::vector<Affine> index, ExprId value) {
    return loops::AddStmt(
        nest, {.kind = StmtKind::kStore, .buffer = to, .index = std::move(index), .value = value});
  };

  // The parts: the loops of the sum over places of one part, adding to a share.
  const Var v = nest[*cut].var;
  Rewriter rewriter(nest, {{v, Affine::OfVar(v) + Affine::OfVar(part, size)}});
  const StmtId sum = rewriter.Copy(l->sum.loops[0]);
  StmtId inner = sum;
  while (nest[inner].kind == StmtKind::kFor) {
    Stmt& s = nest.stmts[inner.index];
    if (s.var == v) {
      s.hi = {size};
      if (extent % size != 0) s.hi.push_back(Affine(extent) - Affine::OfVar(part, size));
    }
    inner = s.body[0];
  }
  Redirect(nest, inner, share);
  std::vector<StmtId> body = {put(share, {}, loops::AddLiteral(nest, dtype, IdentityOf(l->sum.op))),
                              sum, put(sums, at, loops::AddLoad(nest, share, {}))};
  for (size_t k = l->band.size(); k-- > 0;)
    body = {AddLoop(nest, nest[l->band[k]].var, trip(l->band[k]), LoopKind::kParallel, body)};
  const StmtId first = AddLoop(nest, part, count, LoopKind::kParallel, std::move(body));

  const StmtId add =
      AddTo(nest, l->sum.op, store.buffer, store.index, loops::AddLoad(nest, sums, from));
  body = l->before;
  body.push_back(AddLoop(nest, again, count, LoopKind::kSerial, {add}));
  body.insert(body.end(), l->after.begin(), l->after.end());
  nest.stmts[l->band.back().index].body = std::move(body);
  return std::pair{first, l->band[0]};
}

}  // namespace weft::polyhedral::cuda
