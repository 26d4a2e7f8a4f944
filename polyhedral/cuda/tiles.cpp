#include "polyhedral/cuda/tiles.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/lanes.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral::cuda {

using loops::Buffer;
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

constexpr int64_t kQuad = 4;  // cells side by side: one access of 16 bytes to shared memory
constexpr int64_t kWarp = 32, kMostThreads = 1024, kMostCells = 128;
constexpr int64_t kLeastExtent = 16, kLeastSum = 8, kPart = 16;
constexpr int64_t kMultiprocessors = 132;  // of an H100 (its datasheet)

constexpr TileShape kShapes[] = {{128, 128, 16, 8, 8}, {64, 128, 16, 8, 8}, {128, 64, 16, 8, 4},
                                 {64, 64, 16, 8, 4},   {64, 64, 16, 4, 4},  {32, 64, 16, 4, 4},
                                 {16, 64, 16, 4, 4}};

int64_t Parts(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

// Cycles of a multiprocessor for a cell and step, in those of a multiply-add. A warp's 16 multiply-
// adds of two quads take 4 cycles; its reads of a quad take 4 where all threads read others, along
// a row, and 1 where only its two rows differ.
double CyclesOf(const TileShape& shape) {
  const int64_t rows = shape.thread_rows / kQuad, columns = shape.thread_columns / kQuad;
  return std::max(
      1.0, static_cast<double>(4 * columns + rows) / static_cast<double>(4 * columns * rows));
}

// e >= 0 without its floor, where that is e's only one and stands alone: such conditions are
// proved.
Affine WithoutFloor(const Affine& e) {
  const auto is_floor = [](const Affine::Term& t) { return t.dividend != nullptr; };
  const auto term = std::ranges::find_if(e.terms(), is_floor);
  if (std::ranges::count_if(e.terms(), is_floor) != 1 || std::abs(term->coefficient) != 1) return e;
  const Affine floor = FloorDiv(*term->dividend, term->divisor);
  // floor(x/d) + r >= 0 where x + d*r >= 0; r - floor(x/d) >= 0 where d*r - x + d - 1 >= 0.
  if (term->coefficient == 1) return *term->dividend + (e - floor) * term->divisor;
  return (e + floor) * term->divisor - *term->dividend + (term->divisor - 1);
}

class Mapper {
 public:
  explicit Mapper(LoopNest nest) : nest_(std::move(nest)) {}

  std::optional<Tiles> Run(StmtId outermost, const TileShape* forced) {
    if (!TakeBand(outermost) || !TakeApart()) return std::nullopt;
    SplitGroups();
    if (!ChooseAxes() || !ChooseSum()) return std::nullopt;
    shape_ = forced ? *forced : CheapestShape();
    const int64_t blocks = BlocksOf(shape_);
    if (Parts(rows_.extent, shape_.height) > kMostBlocks || depth_.extent > kMostBlocks)
      return std::nullopt;
    PrivatiseCells();
    a_ = AddStage("rows", shape_.height);
    b_ = AddStage("columns", shape_.width);
    std::vector<StmtId> body = Block();
    nest_.body = Around(std::move(body));
    return Tiles{.nest = Compact(nest_), .shape = shape_, .blocks = blocks};
  }

 private:
  // Marks say nothing here.
  std::vector<StmtId> Flat(const std::vector<StmtId>& body) const {
    std::vector<StmtId> flat;
    for (const StmtId id : body) {
      if (nest_[id].kind != StmtKind::kMark) {
        flat.push_back(id);
        continue;
      }
      const std::vector<StmtId> inner = Flat(nest_[id].body);
      flat.insert(flat.end(), inner.begin(), inner.end());
    }
    return flat;
  }

  static bool IsWholeRange(const Stmt& loop) {
    return loop.lo.size() == 1 && loop.hi.size() == 1 && loop.lo[0].IsConstant() &&
           loop.hi[0].IsConstant() && loop.step == 1 && loops::ConstantTrip(loop) > 0;
  }
  int64_t Extent(StmtId loop) const { return loops::ConstantTrip(nest_[loop]); }
  Var VarOf(StmtId loop) const { return nest_[loop].var; }

  // The axes of the band and what an iteration does; false if the ends are not constant.
  bool TakeBand(StmtId outermost) {
    if (Flat(nest_.body) != std::vector{outermost}) return false;
    band_ = loops::ParallelBand(nest_, outermost);
    if (band_.size() == 1) band_ = Split(nest_, outermost);
    body_ = Flat(nest_[band_.back()].body);
    return band_.size() > 1 &&
           std::ranges::all_of(band_, [this](StmtId id) { return IsWholeRange(nest_[id]); });
  }

  // The band's body in its three pieces; false if it has another form.
  bool TakeApart() {
    for (const StmtId id : body_) {
      const Stmt& s = nest_[id];
      if (s.kind == StmtKind::kStore) {
        (chain_.empty() ? before_ : after_).push_back(id);
      } else if (s.kind == StmtKind::kFor && chain_.empty()) {
        if (!TakeSum(id)) return false;
      } else {
        return false;
      }
    }
    const auto fills_cell = [this](StmtId id) { return IsLocal(nest_[id].buffer); };
    return !chain_.empty() && std::ranges::all_of(before_, fills_cell) && AreCells();
  }

  bool TakeSum(StmtId outermost) {
    std::vector<StmtId> body = {outermost};
    while (body.size() == 1 && nest_[body[0]].kind != StmtKind::kStore) {
      const Stmt& s = nest_[body[0]];
      if (s.kind == StmtKind::kFor) {
        if (s.loop != LoopKind::kSerial && s.loop != LoopKind::kUnroll) return false;
        chain_.push_back(body[0]);
      } else if (s.kind == StmtKind::kIf && s.otherwise.empty()) {
        conditions_.insert(conditions_.end(), s.conditions.begin(), s.conditions.end());
      } else {
        return false;
      }
      body = Flat(s.body);
    }
    if (body.size() != 1 || nest_[body[0]].kind != StmtKind::kStore) return false;
    update_ = body[0];
    const Stmt& s = nest_[update_];
    const Expr& e = nest_[s.value];
    if (e.kind != ExprKind::kOp || e.op != ScalarOp::kFma || e.dtype != Dtype::kF32) return false;
    const Expr& old = nest_[e.args[2]];
    if (old.kind != ExprKind::kLoad || old.buffer != s.buffer || old.index != s.index ||
        !old.guards.empty()) {
      return false;
    }
    const auto loads_cell = [this](const Expr& x) {
      return x.kind == ExprKind::kLoad && IsLocal(x.buffer);
    };
    return !AnyBelow(nest_, e.args[0], loads_cell) && !AnyBelow(nest_, e.args[1], loads_cell);
  }

  bool IsLocal(BufferId id) const { return nest_[id].access == loops::Access::kLocal; }

  // Whatever is local is a cell of one iteration of the band.
  bool AreCells() const {
    if (!IsLocal(nest_[update_].buffer)) return false;
    std::set<BufferId> written;
    for (const Touch& t : TouchesOf(nest_, body_)) {
      const Buffer& b = nest_[t.buffer];
      if (!IsLocal(t.buffer)) continue;
      const bool fixed =
          std::ranges::all_of(t.index, [](const Affine& i) { return i.IsConstant(); });
      if (!fixed || b.space == Space::kShared || !b.fold.empty()) return false;
      if (t.is_write) written.insert(t.buffer);
      if (!written.contains(t.buffer)) return false;
    }
    return true;
  }

  // A loop of the band whose iterations belong to groups, as output channels do, becomes two: of
  // groups, and of those in a group. That is where a factor knows the group alone, floor(v/size).
  void SplitGroups() {
    const Expr& product = nest_[nest_[update_].value];
    const ExprId factors[] = {product.args[0], product.args[1]};
    std::vector<StmtId> split;
    for (const StmtId id : band_) {
      const Var v = VarOf(id);
      int64_t size = 0;
      for (const ExprId factor : factors) size = std::max(size, GroupSize(factor, v));
      if (size < 2 || nest_[id].lo[0] != Affine(0) || Extent(id) % size != 0) {
        split.push_back(id);
        continue;
      }
      const std::string& name = nest_.vars[static_cast<size_t>(v)];
      const Var group = loops::AddVar(nest_, name + "_group"),
                member = loops::AddVar(nest_, name + "_member");
      split.push_back(Loop(group, 0, {Extent(id) / size}, LoopKind::kParallel, {}));
      split.push_back(Loop(member, 0, {size}, LoopKind::kParallel, {}));
      const auto replace = [&](std::vector<Affine>& list) {
        for (Affine& e : list) e = InGroups(e, v, size, group, member);
      };
      for (Expr& e : nest_.exprs) replace(e.index), replace(e.guards);
      for (Stmt& s : nest_.stmts)
        replace(s.lo), replace(s.hi), replace(s.conditions), replace(s.index);
      replace(conditions_);
    }
    band_ = std::move(split);
  }

  // The size, if all that a factor knows of v is floor(v/size); else 0.
  int64_t GroupSize(ExprId factor, Var v) const {
    int64_t size = 0;
    const bool other = AnyBelow(nest_, factor, [&](const Expr& e) {
      const auto knows_more = [&](const Affine& index) {
        return std::ranges::any_of(index.terms(), [&](const Affine::Term& t) {
          if (!t.dividend) return t.var == v;
          if (!t.dividend->Uses(v)) return false;
          const bool fits = *t.dividend == Affine::OfVar(v) && (size == 0 || size == t.divisor);
          size = t.divisor;
          return !fits;
        });
      };
      return std::ranges::any_of(e.index, knows_more) || std::ranges::any_of(e.guards, knows_more);
    });
    return other ? 0 : size;
  }

  // e with v = size*group + member.
  static Affine InGroups(const Affine& e, Var v, int64_t size, Var group, Var member) {
    Affine result = e.constant();
    for (const Affine::Term& t : e.terms()) {
      if (!t.dividend) {
        result += t.var == v ? Affine::OfVar(group, size * t.coefficient) +
                                   Affine::OfVar(member, t.coefficient)
                             : Affine::OfVar(t.var, t.coefficient);
      } else if (*t.dividend == Affine::OfVar(v) && t.divisor == size) {
        result += Affine::OfVar(group, t.coefficient);
      } else {
        const Affine dividend = InGroups(*t.dividend, v, size, group, member);
        result += FloorDiv(dividend, t.divisor) * t.coefficient;
      }
    }
    return result;
  }

  bool Moves(ExprId root, Var v) const {
    const auto uses = [v](const Affine& e) { return e.Uses(v); };
    return AnyBelow(nest_, root, [&](const Expr& e) {
      return std::ranges::any_of(e.index, uses) || std::ranges::any_of(e.guards, uses);
    });
  }

  // Whether neighbours along v lie side by side.
  bool IsContiguous(BufferId buffer, const std::vector<Affine>& index, Var v) const {
    return loops::ElementOffset(nest_[buffer], index).CoefficientOf(v) == 1;
  }

  bool ContiguousIn(ExprId root, Var v) const {
    return AnyBelow(nest_, root, [&](const Expr& e) {
      return e.kind == ExprKind::kLoad && IsContiguous(e.buffer, e.index, v);
    });
  }

  bool StoresAlong(Var v) const {
    return std::ranges::any_of(after_, [&](StmtId id) {
      const Stmt& s = nest_[id];
      return !IsLocal(s.buffer) && IsContiguous(s.buffer, s.index, v);
    });
  }

  // Loops that are one axis of the tile, of its sum or of the grid: their iterations by one number,
  // the last loop the fastest.
  struct Axis {
    std::vector<StmtId> loops;
    int64_t extent = 1;
    Var var = -1;  // of the loop over parts
    Affine base;   // where the part begins
  };
  void Append(Axis& axis, StmtId loop) const {
    axis.loops.push_back(loop);
    axis.extent *= Extent(loop);
  }
  bool UsesAny(const Affine& e, const Axis& axis) const {
    return std::ranges::any_of(axis.loops, [&](StmtId id) { return e.Uses(VarOf(id)); });
  }
  bool InTile(const Affine& e) const { return UsesAny(e, rows_) || UsesAny(e, columns_); }

  // Loops of the band along which only one factor moves are an axis of the tile; the columns are
  // those along which results lie side by side. The others are blocks.
  bool ChooseAxes() {
    const Expr& product = nest_[nest_[update_].value];
    ExprId factors[] = {product.args[0], product.args[1]};
    Axis axes[2];
    for (const StmtId id : band_) {
      const bool moves[] = {Moves(factors[0], VarOf(id)), Moves(factors[1], VarOf(id))};
      Append(moves[0] == moves[1] ? depth_ : axes[moves[0] ? 0 : 1], id);
    }
    for (const Axis& axis : axes)
      if (axis.extent < kLeastExtent) return false;
    const auto stored_along = [this](const Axis& axis) {
      return StoresAlong(VarOf(axis.loops.back()));
    };
    const bool turned = stored_along(axes[0]) && !stored_along(axes[1]);
    if (turned) std::swap(axes[0], axes[1]), std::swap(factors[0], factors[1]);
    rows_ = std::move(axes[0]), columns_ = std::move(axes[1]);
    row_factor_ = factors[0], column_factor_ = factors[1];
    return true;
  }

  // The loops that are summed up in parts: the longest, if whole parts are most of it; else as few
  // of the innermost as that takes, or all.
  bool ChooseSum() {
    const auto fills = [](int64_t extent) {
      return 4 * extent >= 3 * Parts(extent, kPart) * kPart;
    };
    const auto trip_of = [this](StmtId id) { return HullOf(id).second - HullOf(id).first; };
    const StmtId longest = *std::ranges::max_element(chain_, {}, trip_of);
    if (fills(trip_of(longest))) {
      sum_.loops = {longest};
    } else {
      int64_t extent = 1;
      for (size_t k = chain_.size(); k-- > 0 && !fills(extent);) {
        extent *= trip_of(chain_[k]);
        sum_.loops.insert(sum_.loops.begin(), chain_[k]);
      }
    }
    for (const StmtId id : chain_) {
      const bool summed = std::ranges::count(sum_.loops, id) > 0;
      const auto moves = [&](const Affine& e) {
        return summed ? !e.IsConstant() : InTile(e) || UsesAny(e, sum_);
      };
      Stmt& s = nest_.stmts[id.index];
      for (const Affine& lo : s.lo)
        if (moves(lo)) conditions_.push_back(WithoutFloor(Affine::OfVar(s.var) - lo));
      for (const Affine& hi : s.hi)
        if (moves(hi)) conditions_.push_back(WithoutFloor(hi - 1 - Affine::OfVar(s.var)));
      std::erase_if(s.lo, moves);
      std::erase_if(s.hi, moves);
      if (s.lo.empty() || s.hi.empty()) return false;
      if (!summed) continue;
      const auto [lo, hi] = HullOf(id);
      s.lo = {lo}, s.hi = {hi};
      if (s.step != 1 || hi <= lo) return false;
      sum_.extent *= hi - lo;
    }
    return sum_.extent >= kLeastSum;
  }

  // The range of a loop by its constant bounds; nothing if it lacks one.
  std::pair<int64_t, int64_t> HullOf(StmtId loop) const {
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    for (const Affine& e : nest_[loop].lo)
      if (e.IsConstant()) lo = std::max(lo, e.constant());
    for (const Affine& e : nest_[loop].hi)
      if (e.IsConstant()) hi = std::min(hi, e.constant());
    return lo == INT64_MIN || hi == INT64_MAX ? std::pair<int64_t, int64_t>{0, 0}
                                              : std::pair{lo, hi};
  }

  int64_t BlocksOf(const TileShape& shape) const {
    return Parts(rows_.extent, shape.height) * Parts(columns_.extent, shape.width) * depth_.extent;
  }

  // Rounds of blocks over the device, times what a block takes.
  TileShape CheapestShape() const {
    return *std::ranges::min_element(kShapes, {}, [this](const TileShape& shape) {
      const auto cells = static_cast<double>(shape.height * shape.width);
      return static_cast<double>(Parts(BlocksOf(shape), kMultiprocessors)) * cells *
             CyclesOf(shape);
    });
  }

  // Cells get the axes of a thread's tile: quads of rows, a row, quads of columns, a column.
  void PrivatiseCells() {
    const std::vector<int64_t> axes = {shape_.thread_rows / kQuad, kQuad,
                                       shape_.thread_columns / kQuad, kQuad};
    for (Buffer& b : nest_.buffers) {
      if (b.access != loops::Access::kLocal) continue;
      b.shape.insert(b.shape.begin(), axes.begin(), axes.end());
      b.layout = Layout::Plain(b.shape.size());
      b.space = Space::kRegister;
    }
    const auto values = [this](const char* name, int64_t cells) {
      return loops::AddBuffer(nest_, {.name = name,
                                      .dtype = Dtype::kF32,
                                      .shape = {cells / kQuad, kQuad},
                                      .layout = Layout::Plain(2),
                                      .space = Space::kRegister});
    };
    row_values_ = values("row_values", shape_.thread_rows);
    column_values_ = values("column_values", shape_.thread_columns);
  }

  // [step of the sum][place]; four words more to a line, so that neighbouring steps lie in other
  // banks and quads stay aligned.
  BufferId AddStage(std::string name, int64_t places) {
    return loops::AddBuffer(nest_, {.name = std::move(name),
                                    .dtype = Dtype::kF32,
                                    .shape = {shape_.steps, places + kQuad},
                                    .layout = Layout::Plain(2),
                                    .space = Space::kShared});
  }

  StmtId Loop(Var v, Affine lo, std::vector<Affine> hi, LoopKind kind, std::vector<StmtId> body,
              int64_t step = 1) {
    return loops::AddStmt(nest_, {.kind = StmtKind::kFor,
                                  .var = v,
                                  .lo = {std::move(lo)},
                                  .hi = std::move(hi),
                                  .step = step,
                                  .loop = kind,
                                  .body = std::move(body)});
  }

  std::vector<StmtId> If(std::vector<Affine> conditions, std::vector<StmtId> body) {
    if (conditions.empty()) return body;
    return {loops::AddStmt(
        nest_,
        {.kind = StmtKind::kIf, .conditions = std::move(conditions), .body = std::move(body)})};
  }

  // All threads of the block.
  template <typename Make>
  StmtId Threads(Make make) {
    const Var y = loops::AddVar(nest_, "y"), x = loops::AddVar(nest_, "x");
    std::vector<StmtId> body = make(Affine::OfVar(y), Affine::OfVar(x));
    const StmtId inner = Loop(x, 0, {shape_.ThreadsX()}, LoopKind::kThreadX, std::move(body));
    return Loop(y, 0, {shape_.ThreadsY()}, LoopKind::kThreadY, {inner});
  }

  // A thread's cells, expanded.
  using Cell = std::vector<Affine>;
  struct ThreadCells {
    Var vars[4];         // quads of rows, a row, quads of columns, a column
    Affine row, column;  // the places in the tile
    Cell Index() const {
      return {Affine::OfVar(vars[0]), Affine::OfVar(vars[1]), Affine::OfVar(vars[2]),
              Affine::OfVar(vars[3])};
    }
  };
  ThreadCells CellsOf(const Affine& y, const Affine& x) {
    ThreadCells c{.vars = {loops::AddVar(nest_, "p"), loops::AddVar(nest_, "i"),
                           loops::AddVar(nest_, "q"), loops::AddVar(nest_, "j")}};
    const auto place = [&](const Affine& thread, int64_t threads, Var quad, Var in_quad) {
      return thread * kQuad + Affine::OfVar(quad, threads * kQuad) + Affine::OfVar(in_quad);
    };
    c.row = place(y, shape_.ThreadsY(), c.vars[0], c.vars[1]);
    c.column = place(x, shape_.ThreadsX(), c.vars[2], c.vars[3]);
    return c;
  }
  std::vector<StmtId> AlongRows(const ThreadCells& c, std::vector<StmtId> body) {
    body = {Loop(c.vars[1], 0, {kQuad}, LoopKind::kUnroll, std::move(body))};
    return {Loop(c.vars[0], 0, {shape_.thread_rows / kQuad}, LoopKind::kUnroll, std::move(body))};
  }
  std::vector<StmtId> AlongColumns(const ThreadCells& c, std::vector<StmtId> body) {
    body = {Loop(c.vars[3], 0, {kQuad}, LoopKind::kUnroll, std::move(body))};
    return {
        Loop(c.vars[2], 0, {shape_.thread_columns / kQuad}, LoopKind::kUnroll, std::move(body))};
  }

  // Other expressions in the place of variables, cells of a thread in that of cells, and guards.
  struct Renaming {
    std::map<Var, Affine> values;
    Cell cell;
    std::vector<Affine> guards;
    std::map<ExprId, ExprId> done;
  };

  static std::vector<Affine> Renamed(const std::vector<Affine>& list, const Renaming& r) {
    std::vector<Affine> result;
    for (const Affine& e : list) {
      result.push_back(e.Substitute([&](Var v) {
        const auto found = r.values.find(v);
        return found == r.values.end() ? Affine::OfVar(v) : found->second;
      }));
    }
    return result;
  }

  std::vector<Affine> IndexOf(BufferId buffer, const std::vector<Affine>& index,
                              const Renaming& r) const {
    std::vector<Affine> result = Renamed(index, r);
    if (IsLocal(buffer)) result.insert(result.begin(), r.cell.begin(), r.cell.end());
    return result;
  }

  ExprId Copy(ExprId id, Renaming& r) {
    if (const auto it = r.done.find(id); it != r.done.end()) return it->second;
    Expr e = nest_[id];
    for (ExprId& arg : e.args) arg = Copy(arg, r);
    if (e.kind == ExprKind::kAffine) e.index = Renamed(e.index, r);
    if (e.kind == ExprKind::kLoad) {
      e.index = IndexOf(e.buffer, e.index, r);
      e.guards = Renamed(e.guards, r);
      if (!IsLocal(e.buffer)) e.guards.insert(e.guards.end(), r.guards.begin(), r.guards.end());
    }
    nest_.exprs.push_back(std::move(e));
    return r.done[id] = ExprId(nest_.exprs.size() - 1);
  }

  StmtId Copy(StmtId id, Renaming& r) {
    Stmt s = nest_[id];
    s.value = Copy(s.value, r);
    s.index = IndexOf(s.buffer, s.index, r);
    return loops::AddStmt(nest_, std::move(s));
  }

  // The values of an axis' loops at a place of its part. Beyond its end one loop runs on, several
  // begin again. Gives what is not negative inside.
  Affine At(const Axis& axis, const Affine& place, Renaming& r) const {
    const Affine number = axis.base + place;
    int64_t below = axis.extent;
    for (const StmtId id : axis.loops) {
      below /= Extent(id);
      const Affine digit =
          axis.loops.size() == 1 ? number : Mod(FloorDiv(number, below), Extent(id));
      r.values[VarOf(id)] = nest_[id].lo[0] + digit;
    }
    return Affine(axis.extent - 1) - number;
  }
  // The same for a load, which is guarded where it may be outside of memory.
  void AtForLoad(const Axis& axis, const Affine& place, int64_t size, Renaming& r) const {
    Affine inside = At(axis, place, r);
    if (axis.loops.size() == 1 && axis.extent % size != 0) r.guards.push_back(std::move(inside));
  }

  Renaming OfBlock() const {
    Renaming r;
    At(depth_, 0, r);
    return r;
  }

  // Stores of an iteration of the band, by each thread for its cells. Cells outside of the band are
  // filled too, since they take part in the sum, from loads that are guarded.
  StmtId Stores(const std::vector<StmtId>& stores, bool fill) {
    return Threads([&](const Affine& y, const Affine& x) {
      const ThreadCells c = CellsOf(y, x);
      std::vector<Affine> conditions;
      Renaming r = OfBlock();
      r.cell = c.Index();
      if (fill) {
        AtForLoad(rows_, c.row, shape_.height, r);
        AtForLoad(columns_, c.column, shape_.width, r);
      } else {
        const Affine inside[] = {At(rows_, c.row, r), At(columns_, c.column, r)};
        if (rows_.extent % shape_.height != 0) conditions.push_back(inside[0]);
        if (columns_.extent % shape_.width != 0) conditions.push_back(inside[1]);
      }
      std::vector<StmtId> body;
      for (const StmtId id : stores) {
        body.push_back(Copy(id, r));
        r.done.clear();  // what was loaded before a store may have changed
      }
      return AlongRows(c, AlongColumns(c, If(std::move(conditions), std::move(body))));
    });
  }

  // A factor's values for the tile and the part of the sum. Along whichever of the two they lie
  // side by side in memory run the threads of a row.
  StmtId Stage(BufferId to, ExprId factor, const Axis& axis, int64_t size, const Axis& other) {
    const bool along = ContiguousIn(factor, VarOf(axis.loops.back()));
    return Threads([&](const Affine& y, const Affine& x) {
      const Var u = loops::AddVar(nest_, "u"), k = loops::AddVar(nest_, "k");
      const int64_t place_threads = along ? shape_.ThreadsX() : shape_.ThreadsY(),
                    step_threads = along ? shape_.ThreadsY() : shape_.ThreadsX();
      const Affine place = (along ? x : y) + Affine::OfVar(u, place_threads),
                   step = (along ? y : x) + Affine::OfVar(k, step_threads);
      std::vector<Affine> in_stage;
      if (size % place_threads != 0) in_stage.push_back(Affine(size - 1) - place);
      if (shape_.steps % step_threads != 0) in_stage.push_back(Affine(shape_.steps - 1) - step);
      Renaming r = OfBlock();
      AtForLoad(axis, place, size, r);
      AtForLoad(sum_, step, shape_.steps, r);
      for (const Affine& condition : conditions_)
        if (!UsesAny(condition, other)) r.guards.push_back(Renamed({condition}, r)[0]);
      const ExprId value = Copy(factor, r);
      const StmtId store = loops::AddStmt(
          nest_, {.kind = StmtKind::kStore, .buffer = to, .index = {step, place}, .value = value});
      std::vector<StmtId> body = If(std::move(in_stage), {store});
      body = {Loop(u, 0, {Parts(size, place_threads)}, LoopKind::kUnroll, std::move(body))};
      return std::vector{
          Loop(k, 0, {Parts(shape_.steps, step_threads)}, LoopKind::kUnroll, std::move(body))};
    });
  }

  StmtId Fetch(BufferId to, std::vector<Affine> at, BufferId from, std::vector<Affine> place) {
    const ExprId value = loops::AddLoad(nest_, from, std::move(place));
    return loops::AddStmt(
        nest_, {.kind = StmtKind::kStore, .buffer = to, .index = std::move(at), .value = value});
  }

  // All values of a step are fetched at once: below conditions they would be fetched for each.
  // Conditions of one axis of the tile stand around the loops along the other, so that a few
  // threads' predicates serve many multiply-adds.
  StmtId Multiply() {
    return Threads([&](const Affine& y, const Affine& x) {
      const Var k = loops::AddVar(nest_, "k");
      const Affine step = Affine::OfVar(k);
      const ThreadCells c = CellsOf(y, x);
      const Stmt s = nest_[update_];
      Cell cell = c.Index();
      cell.insert(cell.end(), s.index.begin(), s.index.end());
      const std::vector<Affine> in_rows = {cell[0], cell[1]}, in_columns = {cell[2], cell[3]};
      const ExprId a = loops::AddLoad(nest_, row_values_, in_rows),
                   b = loops::AddLoad(nest_, column_values_, in_columns),
                   old = loops::AddLoad(nest_, s.buffer, cell);
      const ExprId sum = loops::AddOp(nest_, ScalarOp::kFma, Dtype::kF32, {a, b, old});
      const StmtId store = loops::AddStmt(
          nest_, {.kind = StmtKind::kStore, .buffer = s.buffer, .index = cell, .value = sum});
      Renaming r = OfBlock();
      At(rows_, c.row, r);
      At(columns_, c.column, r);
      At(sum_, step, r);
      std::vector<Affine> of_rows, of_columns, of_both;
      for (const Affine& condition : conditions_) {
        auto& list = !UsesAny(condition, columns_) ? of_rows
                     : !UsesAny(condition, rows_)  ? of_columns
                                                   : of_both;
        list.push_back(Renamed({condition}, r)[0]);
      }
      std::vector<StmtId> body = If(std::move(of_both), {store});
      if (of_rows.empty()) {
        body = AlongColumns(c, If(std::move(of_columns), AlongRows(c, std::move(body))));
      } else {
        body = If(std::move(of_columns), std::move(body));
        body = AlongRows(c, If(std::move(of_rows), AlongColumns(c, std::move(body))));
      }
      std::vector<StmtId> fetched = {
          AlongRows(c, {Fetch(row_values_, in_rows, a_, {step, c.row})})[0],
          AlongColumns(c, {Fetch(column_values_, in_columns, b_, {step, c.column})})[0]};
      body.insert(body.begin(), fetched.begin(), fetched.end());
      const bool whole = sum_.extent % shape_.steps == 0;
      std::vector<Affine> ends = {shape_.steps};
      if (!whole) ends.push_back(Affine(sum_.extent) - sum_.base);
      return std::vector{
          Loop(k, 0, ends, whole ? LoopKind::kUnroll : LoopKind::kSerial, std::move(body))};
    });
  }

  void Number(Axis& axis, std::string_view suffix) {
    std::string name;
    for (const StmtId id : axis.loops)
      name += (name.empty() ? "" : "_") + nest_.vars[static_cast<size_t>(VarOf(id))];
    axis.var = loops::AddVar(nest_, name + std::string(suffix));
    axis.base = Affine::OfVar(axis.var);
  }

  StmtId OverParts(const Axis& axis, int64_t size, LoopKind kind, std::vector<StmtId> body) {
    return Loop(axis.var, 0, {axis.extent}, kind, std::move(body), size);
  }

  std::vector<StmtId> Block() {
    Number(rows_, "_base");
    Number(columns_, "_base");
    Number(sum_, "_base");
    if (!depth_.loops.empty()) Number(depth_, "_block");
    std::vector<StmtId> all;
    if (!before_.empty()) all.push_back(Stores(before_, true));
    std::vector<StmtId> body = {Stage(a_, row_factor_, rows_, shape_.height, columns_),
                                Stage(b_, column_factor_, columns_, shape_.width, rows_),
                                AddBarrier(nest_), Multiply(), AddBarrier(nest_)};
    body = {OverParts(sum_, shape_.steps, LoopKind::kSerial, std::move(body))};
    const Renaming of_block = OfBlock();
    for (size_t k = chain_.size(); k-- > 0;) {
      if (std::ranges::count(sum_.loops, chain_[k]) > 0) continue;
      Stmt& s = nest_.stmts[chain_[k].index];
      s.lo = Renamed(s.lo, of_block), s.hi = Renamed(s.hi, of_block);
      s.body = std::move(body);
      s.loop = LoopKind::kSerial;
      body = {chain_[k]};
    }
    all.insert(all.end(), body.begin(), body.end());
    if (!after_.empty()) all.push_back(Stores(after_, false));
    return all;
  }

  // The launch: columns along x, rows along y, what is left along z.
  std::vector<StmtId> Around(std::vector<StmtId> body) {
    body = {OverParts(columns_, shape_.width, LoopKind::kBlockX, std::move(body))};
    body = {OverParts(rows_, shape_.height, LoopKind::kBlockY, std::move(body))};
    if (depth_.loops.empty()) return body;
    return {OverParts(depth_, 1, LoopKind::kBlockZ, std::move(body))};
  }

  LoopNest nest_;
  std::vector<StmtId> band_, body_, before_, chain_, after_;
  std::vector<Affine> conditions_;  // of an update, each >= 0, besides the loops' ranges
  StmtId update_;                   // c = fma(a, b, c)
  Axis rows_, columns_, sum_, depth_;
  ExprId row_factor_, column_factor_;
  TileShape shape_;
  BufferId a_, b_, row_values_, column_values_;  // stages in shared memory, and of a thread
};

}  // namespace

bool TileShape::IsValid() const {
  const auto quads = [](int64_t size, int64_t cells) {
    return cells >= kQuad && cells % kQuad == 0 && size >= cells && size % cells == 0;
  };
  // Sizes first, so that products stay small.
  constexpr int64_t kMostPlaces = cuda::kSharedBytes / 4;
  if (height > kMostPlaces || width > kMostPlaces || steps < 1 || steps > kMostPlaces ||
      !quads(height, thread_rows) || !quads(width, thread_columns)) {
    return false;
  }
  const int64_t threads = ThreadsX() * ThreadsY();
  return threads % kWarp == 0 && threads <= kMostThreads &&
         thread_rows * thread_columns <= kMostCells &&
         4 * steps * (height + width + 2 * kQuad) <= kSharedBytes;
}
std::span<const TileShape> TileShapes() { return kShapes; }

std::optional<Tiles> MapTiles(LoopNest nest, StmtId outermost, const TileShape* forced) {
  return Mapper(std::move(nest)).Run(outermost, forced);
}

}  // namespace weft::polyhedral::cuda
