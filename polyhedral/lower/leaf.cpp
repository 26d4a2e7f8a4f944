// The stores at the leaves: whole statements, and the init, update and finish of reductions.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "polyhedral/lower/emit.h"

namespace weft::polyhedral::lower {

using loops::ExprId;

loops::StmtId Values::Store(loops::BufferId buffer, std::vector<Affine> index, ExprId value) {
  loops::Stmt store{.kind = loops::StmtKind::kStore, .buffer = buffer, .index = std::move(index)};
  store.value = Cast(value, nest_[buffer].dtype);
  return loops::AddStmt(nest_, std::move(store));
}

// A value that stays, as opposed to one that is still summed up.
loops::StmtId Values::StoreResult(const View& view, std::vector<Affine> index, ExprId value) {
  const loops::StmtId store = Store(view.buffer, std::move(index), value);
  nest_.stmts[store.index].stream = view.stream;
  return store;
}

std::vector<Affine> Values::TargetIndex(const View& view) {
  std::vector<Affine> over_dims;
  for (const tc::ExprId s : Statement().subscripts) {
    const auto e = AffineOf(program_, s, active_->unit->index);
    WEFT_CHECK(e.has_value(), "a target's subscript is not affine");
    over_dims.push_back(*e);
  }
  return IndexOf(view, over_dims);
}

Stmts Values::Leaf(const Active& active) {
  active_ = &active;
  switch (active.unit->part) {
    case Part::kWhole: {
      const View& view = storage_.views[Statement().target.index];
      const ExprId value = Value(active.unit->value, {});
      return {StoreResult(view, TargetIndex(view), value)};
    }
    case Part::kInit:
      return Init();
    case Part::kLoad:
    case Part::kSpill:
      return Move();
    case Part::kApart:
      return StartApart();
    case Part::kUpdate:
      return Update();
    case Part::kJoin:
      return JoinApart();
    case Part::kFinish:
      return Finish();
  }
  WEFT_UNREACHABLE();
}

std::vector<Affine> Values::AccumulatorIndex(const Unit& unit, bool with_lane) const {
  const Accumulator& acc = plan_.accumulators.at(unit.statement);
  const AccumulatorBuffer& buffer = storage_.accumulators.at(unit.statement);
  const std::vector<Var>& dims = acc.axes.at(unit.part);
  std::vector<Affine> index;
  for (size_t i = 0; i < dims.size(); ++i) {
    index.push_back(scope_.Place(Affine::OfVar(dims[i]) - buffer.offset[i]));
  }
  if (acc.lanes >= 0 && with_lane) {
    const Var lane = unit.part == Part::kInit ? acc.init_lanes : acc.lanes;
    index.push_back(scope_.Place(Affine::OfVar(lane) - buffer.offset.back()));
  }
  return index;
}

std::vector<Affine> Values::TileIndex(const Unit& unit) const {
  const std::vector<Var>& dims = plan_.accumulators.at(unit.statement).tile.at(unit.part);
  const AccumulatorBuffer& buffer = storage_.accumulators.at(unit.statement);
  std::vector<Affine> index;
  for (size_t i = 0; i < dims.size(); ++i) {
    index.push_back(scope_.Place(Affine::OfVar(dims[i]) - buffer.tile_offset[i]));
  }
  return index;
}

// Between all accumulators of a blocked reduction and the tile that its inner loops work on. Floats
// are summed by blocks: each starts at zero and is added when it ends, so that what is rounded are
// small sums, and errors grow with the number of blocks and the length of one rather than with
// their product (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
Stmts Values::Move() {
  const Unit& unit = *active_->unit;
  const tc::Statement& s = Statement();
  const bool apart = s.assign == tc::Assign::kSum && IsFloat(s.accumulate);
  const AccumulatorBuffer& acc = storage_.accumulators.at(unit.statement);
  const View& view = storage_.views[Statement().target.index];
  const loops::BufferId all = acc.is_target ? view.buffer : acc.buffer;
  const std::vector<Affine> at = acc.is_target ? TargetIndex(view) : AccumulatorIndex(unit, true);
  if (unit.part == Part::kLoad) {
    const ExprId start = apart ? Literal(s.accumulate, tc::Identity(s.assign, s.accumulate))
                               : loops::AddLoad(nest_, all, at);
    return {Store(acc.tile, TileIndex(unit), start)};
  }
  const ExprId sum = loops::AddLoad(nest_, acc.tile, TileIndex(unit));
  if (!apart) return {Store(all, at, sum)};
  return {Store(all, at, Combine(s.assign, s.accumulate, loops::AddLoad(nest_, all, at), sum))};
}

Stmts Values::Init() {
  const tc::Statement& s = Statement();
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  const View& view = storage_.views[s.target.index];
  if (acc.is_target) {
    return {Store(view.buffer, TargetIndex(view),
                  Literal(s.accumulate, tc::Identity(s.assign, s.accumulate)))};
  }
  const std::vector<Affine> index = AccumulatorIndex(*active_->unit, true);
  ExprId start = Literal(s.accumulate, tc::Identity(s.assign, s.accumulate));
  if (!s.init && acc.lanes == 1 && plan_.accumulators.at(active_->unit->statement).lanes < 0) {
    start = Cast(LoadAt(view, TargetIndex(view), {}), s.accumulate);
  }
  Stmts stores{Store(acc.buffer, index, start)};
  if (s.companion.valid()) {
    const Dtype dtype = nest_[acc.companion].dtype;
    stores.push_back(Store(acc.companion, index,
                           acc.found.valid() ? loops::AddLiteral(nest_, dtype, 0) : Nothing()));
    if (acc.found.valid())
      stores.push_back(Store(acc.found, index, loops::AddLiteral(nest_, Dtype::kBool, 0)));
  }
  return stores;
}

ExprId Values::Combine(tc::Assign assign, Dtype dtype, ExprId a, ExprId b) {
  ScalarOp op = ScalarOp::kAdd;
  if (assign == tc::Assign::kProduct) op = ScalarOp::kMul;
  if (assign == tc::Assign::kMin) op = ScalarOp::kMin;
  if (assign == tc::Assign::kMax) op = ScalarOp::kMax;
  return loops::AddOp(nest_, op, dtype, {a, b});
}

// Where the sum of an update is.
std::pair<loops::BufferId, std::vector<Affine>> Values::SumPlace() {
  const Unit& unit = *active_->unit;
  const AccumulatorBuffer& acc = storage_.accumulators.at(unit.statement);
  const View& view = storage_.views[Statement().target.index];
  if (plan_.accumulators.at(unit.statement).blocked) return {acc.tile, TileIndex(unit)};
  if (acc.is_target) return {view.buffer, TargetIndex(view)};
  return {acc.buffer, AccumulatorIndex(unit, true)};
}

// Of the sums of even and of odd steps, in all lanes.
std::vector<Affine> Values::ApartIndex(Affine parity) const {
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  std::vector<Affine> index{std::move(parity)};
  for (size_t i = 0; i < acc.apart_lanes.size(); ++i)
    index.push_back(scope_.Place(Affine::OfVar(acc.apart_lanes[i]) - acc.apart_offset[i]));
  return index;
}

Stmts Values::StartApart() {
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  const auto clear = [&](int64_t parity) {
    return Store(acc.apart, ApartIndex(parity), loops::AddLiteral(nest_, Dtype::kF32, 0));
  };
  return {clear(0), clear(1)};
}

Stmts Values::JoinApart() {
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  const auto add = [&](ExprId a, ExprId b) {
    return loops::AddOp(nest_, ScalarOp::kAddFlush, Dtype::kF32, {a, b});
  };
  const auto sum = [&](int64_t parity) {
    return loops::AddLoad(nest_, acc.apart, ApartIndex(parity));
  };
  const auto [buffer, index] = SumPlace();
  return {Store(buffer, index, add(loops::AddLoad(nest_, buffer, index), add(sum(0), sum(1))))};
}

Stmts Values::Update() {
  const tc::Statement& s = Statement();
  const Unit& unit = *active_->unit;
  const AccumulatorBuffer& acc = storage_.accumulators.at(unit.statement);
  Guards guards;  // padding that only single lanes can tell
  for (const Constraint& c : active_->open) {
    if (c.limit == Limit::kGuard) guards.push_back(c.e);
  }
  if (s.companion.valid()) return CompanionUpdate(Value(unit.value, guards), guards);
  const Var apart = plan_.accumulators.at(unit.statement).apart;
  const auto [buffer, index] =
      apart >= 0 ? std::pair(acc.apart, ApartIndex(Mod(scope_.Place(Affine::OfVar(apart)), 2)))
                 : SumPlace();
  const ExprId old = loops::AddLoad(nest_, buffer, index);
  const tc::Expr& e = program_[unit.value];
  const bool fma = s.assign == tc::Assign::kSum && e.kind == tc::ExprKind::kOp &&
                   e.op == ScalarOp::kMul && e.dtype == s.accumulate &&
                   (e.dtype == Dtype::kF32 || e.dtype == Dtype::kF64);
  ExprId sum;
  if (unit.flushes) {
    const auto factor = [&](size_t k) { return nest_[Value(e.args[k], guards)].args[0]; };
    const ExprId a = factor(0), b = factor(1);
    sum = loops::AddOp(nest_, ScalarOp::kFmaFlush, Dtype::kF32, {a, b, old});
  } else if (fma) {
    const ExprId a = Value(e.args[0], guards), b = Value(e.args[1], guards);
    sum = loops::AddOp(nest_, ScalarOp::kFma, e.dtype, {a, b, old});
  } else {
    sum = Combine(s.assign, s.accumulate, old, Cast(Value(unit.value, guards), s.accumulate));
  }
  for (const Affine& g : guards) {
    sum = loops::AddOp(nest_, ScalarOp::kSelect, s.accumulate, {Condition(g), sum, old});
  }
  return {Store(buffer, index, sum)};
}

// A companion that no instance has.
ExprId Values::Nothing() {
  return loops::AddLiteral(nest_, Dtype::kI32, std::numeric_limits<int32_t>::max());
}

ExprId Values::Bool(ScalarOp op, std::vector<ExprId> args) {
  return loops::AddOp(nest_, op, Dtype::kBool, std::move(args));
}

// Whether a value is more extreme than an old one. A NaN wins over numbers and stays.
ExprId Values::Beats(ExprId value, ExprId old) {
  const ScalarOp better = Statement().assign == tc::Assign::kMax ? ScalarOp::kGt : ScalarOp::kLt;
  const ExprId wins = Bool(better, {value, old});
  if (!IsFloat(nest_[value].dtype)) return wins;
  const ExprId number = Bool(ScalarOp::kNot, {Bool(ScalarOp::kIsNan, {old})});
  const ExprId fresh = Bool(ScalarOp::kAnd, {Bool(ScalarOp::kIsNan, {value}), number});
  return Bool(ScalarOp::kOr, {wins, fresh});
}

// The first extreme value wins.
Stmts Values::CompanionUpdate(ExprId value, const Guards& guards) {
  const tc::Statement& s = Statement();
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  const std::vector<Affine> index = AccumulatorIndex(*active_->unit, true);
  const Dtype dtype = s.accumulate, with = nest_[acc.companion].dtype;
  value = Cast(value, dtype);
  const ExprId old = loops::AddLoad(nest_, acc.buffer, index);
  const ExprId kept = loops::AddLoad(nest_, acc.companion, index);
  const ExprId found = acc.found.valid() ? loops::AddLoad(nest_, acc.found, index) : ExprId();
  const ExprId none =
      acc.found.valid() ? Bool(ScalarOp::kNot, {found}) : Bool(ScalarOp::kEq, {kept, Nothing()});
  ExprId wins = Bool(ScalarOp::kOr, {Beats(value, old), none});
  for (const Affine& g : guards) wins = Bool(ScalarOp::kAnd, {Condition(g), wins});
  const ExprId companion = Cast(Value(s.companion_value, guards), with);
  const loops::StmtId next = Store(
      acc.companion, index, loops::AddOp(nest_, ScalarOp::kSelect, with, {wins, companion, kept}));
  const auto best = [&](ExprId won) {
    return Store(acc.buffer, index,
                 loops::AddOp(nest_, ScalarOp::kSelect, dtype, {won, value, old}));
  };
  // Among lanes a companion is that of one instance, so it tells who won.
  if (!found.valid()) return {next, best(Bool(ScalarOp::kEq, {kept, companion}))};
  return {next, best(wins), Store(acc.found, index, Bool(ScalarOp::kOr, {found, wins}))};
}

// Of lanes a and b of a tuple, both parts of the one that came first among the most extreme.
Stmts Values::JoinTuples(const AccumulatorBuffer& acc, const std::vector<Affine>& a,
                         const std::vector<Affine>& b) {
  const Dtype dtype = Statement().accumulate;
  const ExprId va = loops::AddLoad(nest_, acc.buffer, a), vb = loops::AddLoad(nest_, acc.buffer, b);
  const ExprId ca = loops::AddLoad(nest_, acc.companion, a),
               cb = loops::AddLoad(nest_, acc.companion, b);
  const ExprId tie = Bool(ScalarOp::kNot, {Bool(ScalarOp::kOr, {Beats(va, vb), Beats(vb, va)})});
  const ExprId first = Bool(ScalarOp::kAnd, {tie, Bool(ScalarOp::kLt, {cb, ca})});
  const ExprId wins = Bool(ScalarOp::kOr, {Beats(vb, va), first});
  const ExprId next = loops::AddOp(nest_, ScalarOp::kSelect, Dtype::kI32, {wins, cb, ca});
  const ExprId won = Bool(ScalarOp::kEq, {ca, cb});  // once `next` is stored
  return {Store(acc.companion, a, next),
          Store(acc.buffer, a, loops::AddOp(nest_, ScalarOp::kSelect, dtype, {won, vb, va}))};
}

// Lanes l and l + half, as often as it takes to leave one; half is a power of two, so that whole
// registers meet.
void Values::HalveLanes(const AccumulatorBuffer& acc, std::vector<Affine> index, Stmts& out) {
  const tc::Statement& s = Statement();
  int64_t lanes = acc.lanes;
  index.emplace_back(0);
  while (lanes > 1) {
    const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lanes)) / 2);
    const int64_t count = lanes - half;
    loops::Stmt loop{.kind = loops::StmtKind::kFor, .lo = {0}, .hi = {count}};
    loop.loop = loops::LoopKind::kVector;
    std::vector<Affine> low = index, high = index;
    if (count > 1) {
      loop.var = loops::AddVar(nest_, "lane");
      low.back() = Affine::OfVar(loop.var);
    }
    high.back() = low.back() + half;
    Stmts stores;
    if (s.companion.valid()) {
      stores = JoinTuples(acc, low, high);
    } else {
      const ExprId a = loops::AddLoad(nest_, acc.buffer, low),
                   b = loops::AddLoad(nest_, acc.buffer, high);
      stores = {Store(acc.buffer, low, Combine(s.assign, s.accumulate, a, b))};
    }
    if (count > 1) {
      loop.body = std::move(stores);
      stores = {loops::AddStmt(nest_, std::move(loop))};
    }
    out.insert(out.end(), stores.begin(), stores.end());
    lanes = half;
  }
}

// The sums of each row's low and high lanes, row by row: a register buffer of rows * half. `loads`
// gives the two for the place in it.
template <typename Loads>
loops::BufferId Values::HalveRows(int64_t rows, int64_t half, Loads loads, Stmts& out) {
  const tc::Statement& s = Statement();
  const loops::BufferId sums = loops::AddBuffer(nest_, {.name = program_[s.target].name + "_sums",
                                                        .dtype = s.accumulate,
                                                        .shape = {rows * half},
                                                        .layout = Layout::Plain(1),
                                                        .space = loops::Space::kRegister});
  int64_t together = rows;  // rows of one loop over lanes
  while (rows % together != 0 || together * half > loops::kMostLanes) --together;
  for (int64_t first = 0; first < rows; first += together) {
    loops::Stmt loop{.kind = loops::StmtKind::kFor, .lo = {0}, .hi = {together * half}};
    loop.loop = loops::LoopKind::kVector;
    loop.var = loops::AddVar(nest_, "lane");
    const Affine at = Affine::OfVar(loop.var) + first * half;
    const auto [low, high] = loads(at);
    loop.body = {Store(sums, {at}, Combine(s.assign, s.accumulate, low, high))};
    out.push_back(loops::AddStmt(nest_, std::move(loop)));
  }
  return sums;
}

bool Values::CanFinishTogether(const Active& active, Interval rows) const {
  const Unit& unit = *active.unit;
  const int64_t count = rows.hi - rows.lo + 1;
  if (unit.part != Part::kFinish || !active.open.empty() || count > loops::kMostLanes) return false;
  const AccumulatorBuffer& acc = storage_.accumulators.at(unit.statement);
  const bool laned = !acc.is_target && plan_.accumulators.at(unit.statement).lanes >= 0;
  return laned && std::has_single_bit(static_cast<uint64_t>(acc.lanes)) && acc.lanes > 1 &&
         acc.lanes <= loops::kMostLanes && !program_.statements[unit.statement].companion.valid();
}

Stmts Values::FinishTogether(const Active& active, Var row, Interval rows, Scope& scope) {
  active_ = &active;
  const AccumulatorBuffer& acc = storage_.accumulators.at(active.unit->statement);
  const int64_t count = rows.hi - rows.lo + 1;
  Stmts out;
  int64_t half = acc.lanes / 2;
  loops::BufferId sums = HalveRows(
      count, half,
      [&](const Affine& at) {
        scope.Bind(row, FloorDiv(at, half) + rows.lo, rows);
        std::vector<Affine> low = AccumulatorIndex(*active.unit, false), high = low;
        scope.Release(row);
        low.push_back(Mod(at, half));
        high.push_back(Mod(at, half) + half);
        return std::pair{loops::AddLoad(nest_, acc.buffer, low),
                         loops::AddLoad(nest_, acc.buffer, high)};
      },
      out);
  while (half > 1) {
    const int64_t lanes = half;
    half /= 2;
    const loops::BufferId from = sums;
    sums = HalveRows(
        count, half,
        [&](const Affine& at) {
          const Affine low = FloorDiv(at, half) * lanes + Mod(at, half);
          return std::pair{loops::AddLoad(nest_, from, {low}),
                           loops::AddLoad(nest_, from, {low + half})};
        },
        out);
  }
  loops::Stmt loop{.kind = loops::StmtKind::kFor, .lo = {0}, .hi = {count}};
  loop.loop = loops::LoopKind::kVector;
  loop.var = loops::AddVar(nest_, plan_[row].name);
  scope.Bind(row, Affine::OfVar(loop.var) + rows.lo, rows);
  loop.body = StoreSum(loops::AddLoad(nest_, sums, {Affine::OfVar(loop.var)}));
  scope.Release(row);
  out.push_back(loops::AddStmt(nest_, std::move(loop)));
  return out;
}

// A sum whose lanes are joined.
Stmts Values::StoreSum(ExprId sum) {
  const tc::Statement& s = Statement();
  const View& view = storage_.views[s.target.index];
  const std::vector<Affine> target = TargetIndex(view);
  if (!s.init) {
    const ExprId before = Cast(LoadAt(view, target, {}), s.accumulate);
    sum = Combine(s.assign, s.accumulate, before, sum);
  }
  return {StoreResult(view, target, sum)};
}

Stmts Values::Finish() {
  const tc::Statement& s = Statement();
  const AccumulatorBuffer& acc = storage_.accumulators.at(active_->unit->statement);
  if (acc.is_target) return {};
  const View& view = storage_.views[s.target.index];
  Stmts out;
  std::vector<Affine> index = AccumulatorIndex(*active_->unit, false);
  const bool laned = plan_.accumulators.at(active_->unit->statement).lanes >= 0;
  if (laned) {
    HalveLanes(acc, index, out);
    index.emplace_back(0);
  }
  const ExprId value = loops::AddLoad(nest_, acc.buffer, index);
  const Stmts stores = laned ? StoreSum(value) : Stmts{StoreResult(view, TargetIndex(view), value)};
  out.insert(out.end(), stores.begin(), stores.end());
  if (s.companion.valid()) {
    const View& with = storage_.views[s.companion.index];
    out.push_back(
        StoreResult(with, TargetIndex(with), loops::AddLoad(nest_, acc.companion, index)));
  }
  return out;
}

}  // namespace weft::polyhedral::lower
