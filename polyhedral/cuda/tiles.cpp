#include "polyhedral/cuda/tiles.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "polyhedral/cuda/deal.h"
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

constexpr int64_t kColumns = 16;  // of threads; also the steps of a part of the sum
constexpr int64_t kQuad = 4;      // cells side by side: one access of 16 bytes to shared memory
constexpr int64_t kLeastExtent = 16, kLeastSum = 8;
constexpr int64_t kMultiprocessors = 132;  // of an H100 (its datasheet)
constexpr int64_t kMostBlocks = 65535;     // along y and z (CUDA C++ Programming Guide)

constexpr TileShape kShapes[] = {{16, 2, 2}, {8, 2, 2}, {16, 2, 1}, {8, 2, 1},
                                 {16, 1, 1}, {8, 1, 1}, {4, 1, 1}};

int64_t Parts(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

// Cycles of a multiprocessor for a cell and step, in those of a multiply-add. A warp's 16 multiply-
// adds of two quads take 4 cycles; its reads of a quad take 4 where all threads read others, along
// a row, and 1 where only its two rows differ.
double CyclesOf(const TileShape& shape) {
  const auto rows = static_cast<double>(shape.row_quads),
             columns = static_cast<double>(shape.column_quads);
  return std::max(1.0, (4 * columns + rows) / (4 * columns * rows));
}

// What is left of a nest when nobody names the rest.
class Compacter {
 public:
  explicit Compacter(const LoopNest& nest) : from_(nest), to_(nest) {
    to_.exprs.clear();
    to_.stmts.clear();
    to_.body = Body(nest.body);
  }
  LoopNest Take() { return std::move(to_); }

 private:
  ExprId Copy(ExprId id) {
    if (const auto it = exprs_.find(id); it != exprs_.end()) return it->second;
    Expr e = from_[id];
    for (ExprId& arg : e.args) arg = Copy(arg);
    to_.exprs.push_back(std::move(e));
    return exprs_[id] = ExprId(to_.exprs.size() - 1);
  }

  std::vector<StmtId> Body(const std::vector<StmtId>& body) {
    std::vector<StmtId> result;
    for (const StmtId id : body) {
      Stmt s = from_[id];
      if (s.value.valid()) s.value = Copy(s.value);
      s.body = Body(s.body);
      s.otherwise = Body(s.otherwise);
      result.push_back(loops::AddStmt(to_, std::move(s)));
    }
    return result;
  }

  const LoopNest& from_;
  LoopNest to_;
  std::map<ExprId, ExprId> exprs_;
};

LoopNest Compact(const LoopNest& nest) { return Compacter(nest).Take(); }

class Mapper {
 public:
  explicit Mapper(LoopNest nest) : nest_(std::move(nest)) {}

  std::optional<Tiles> Run(StmtId outermost, const TileShape* forced) {
    if (!TakeBand(outermost) || !TakeApart() || !ChooseAxes()) return std::nullopt;
    shape_ = forced ? *forced : CheapestShape();
    const int64_t blocks = BlocksOf(shape_);
    if (Parts(Extent(row_), shape_.Height()) > kMostBlocks || DepthTrip() > kMostBlocks)
      return std::nullopt;
    PrivatiseCells();
    a_ = AddStage("rows", shape_.Height());
    b_ = AddStage("columns", shape_.Width());
    std::vector<StmtId> body = Block();
    nest_.body = Around(std::move(body));
    return Tiles{.nest = Compact(nest_), .blocks = blocks};
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
    const bool whole =
        std::ranges::all_of(band_, [this](StmtId id) { return IsWholeRange(nest_[id]); });
    if (!whole) return false;
    body_ = Flat(nest_[band_.back()].body);
    return band_.size() > 1 || TakeDigits(band_[0]);
  }

  // One loop whose iterations are numbered by digits, the first the slowest: lets at its head,
  // which become loops of the band again.
  bool TakeDigits(StmtId task) {
    const auto end =
        std::ranges::find_if(body_, [this](StmtId id) { return nest_[id].kind != StmtKind::kLet; });
    const std::vector<StmtId> digits(body_.begin(), end);
    body_.erase(body_.begin(), end);
    int64_t below = Extent(task);
    Affine rest = Affine::OfVar(VarOf(task));
    band_.clear();
    for (const StmtId id : digits) {
      Stmt s = nest_[id];
      const Expr& value = nest_[s.value];
      s.kind = StmtKind::kFor;
      s.value = {};
      s.buffer = {};
      if (value.kind != ExprKind::kAffine || !IsWholeRange(s)) return false;
      const int64_t extent = loops::ConstantTrip(s);
      if (below % extent != 0) return false;
      below /= extent;
      const Affine digit = FloorDiv(rest, below);
      if (value.index[0] != digit + s.lo[0]) return false;
      rest = rest - digit * below;
      band_.push_back(loops::AddStmt(nest_, std::move(s)));
    }
    // Whoever still names the task finds no such variable, and Verify says so.
    return below == 1 && band_.size() > 1;
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
    while (body.size() == 1 && nest_[body[0]].kind == StmtKind::kFor) {
      const LoopKind kind = nest_[body[0]].loop;
      if (kind != LoopKind::kSerial && kind != LoopKind::kUnroll) return false;
      chain_.push_back(body[0]);
      body = Flat(nest_[body[0]].body);
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
    return !Any(e.args[0], loads_cell) && !Any(e.args[1], loads_cell);
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

  bool Any(ExprId root, const std::function<bool(const Expr&)>& is) const {
    std::vector<ExprId> todo = {root};
    std::set<ExprId> done;
    while (!todo.empty()) {
      const ExprId id = todo.back();
      todo.pop_back();
      if (!done.insert(id).second) continue;
      if (is(nest_[id])) return true;
      todo.insert(todo.end(), nest_[id].args.begin(), nest_[id].args.end());
    }
    return false;
  }

  bool Moves(ExprId root, Var v) const {
    const auto uses = [v](const Affine& e) { return e.Uses(v); };
    return Any(root, [&](const Expr& e) {
      return std::ranges::any_of(e.index, uses) || std::ranges::any_of(e.guards, uses);
    });
  }

  bool BoundsUse(Var v) const {
    const auto uses = [v](const Affine& e) { return e.Uses(v); };
    return std::ranges::any_of(chain_, [&](StmtId id) {
      return std::ranges::any_of(nest_[id].lo, uses) || std::ranges::any_of(nest_[id].hi, uses);
    });
  }

  // Whether neighbours along v lie side by side.
  bool IsContiguous(BufferId buffer, const std::vector<Affine>& index, Var v) const {
    return loops::ElementOffset(nest_[buffer], index).CoefficientOf(v) == 1;
  }

  bool ContiguousIn(ExprId root, Var v) const {
    return Any(root, [&](const Expr& e) {
      return e.kind == ExprKind::kLoad && IsContiguous(e.buffer, e.index, v);
    });
  }

  bool StoresAlong(Var v) const {
    return std::ranges::any_of(after_, [&](StmtId id) {
      const Stmt& s = nest_[id];
      return !IsLocal(s.buffer) && IsContiguous(s.buffer, s.index, v);
    });
  }

  // The longest axis along which only one factor moves, for each factor; the columns are those
  // along which results lie side by side.
  bool ChooseAxes() {
    const std::vector<ExprId> factors(nest_[nest_[update_].value].args.begin(),
                                      nest_[nest_[update_].value].args.begin() + 2);
    StmtId axes[2];
    for (const StmtId id : band_) {
      const Var v = VarOf(id);
      if (BoundsUse(v)) continue;
      const bool moves[2] = {Moves(factors[0], v), Moves(factors[1], v)};
      for (size_t k = 0; k < 2; ++k) {
        if (!moves[k] || moves[1 - k]) continue;
        const bool better = !axes[k].valid() || Extent(id) > Extent(axes[k]) ||
                            (Extent(id) == Extent(axes[k]) && StoresAlong(v));
        if (better) axes[k] = id;
      }
    }
    if (!axes[0].valid() || !axes[1].valid()) return false;
    const size_t rows = StoresAlong(VarOf(axes[0])) ? 1 : 0;
    row_ = axes[rows], column_ = axes[1 - rows];
    row_factor_ = factors[rows], column_factor_ = factors[1 - rows];
    for (const StmtId id : chain_) {
      if (IsWholeRange(nest_[id]) && !BoundsUse(VarOf(id)) &&
          (!sum_.valid() || Extent(id) >= Extent(sum_)))
        sum_ = id;
    }
    for (const StmtId id : band_) {
      if (id == row_ || id == column_) continue;
      if (!depth_.valid() || Extent(id) > Extent(depth_)) depth_ = id;
    }
    return sum_.valid() && Extent(sum_) >= kLeastSum && Extent(row_) >= kLeastExtent &&
           Extent(column_) >= kLeastExtent;
  }

  int64_t DepthTrip() const { return depth_.valid() ? Extent(depth_) : 1; }

  int64_t BlocksOf(const TileShape& shape) const {
    return Parts(Extent(row_), shape.Height()) * Parts(Extent(column_), shape.Width()) *
           DepthTrip();
  }

  // Rounds of blocks over the device, times what a block takes.
  TileShape CheapestShape() const {
    return *std::ranges::min_element(kShapes, {}, [this](const TileShape& shape) {
      const auto cells = static_cast<double>(shape.Height() * shape.Width());
      return static_cast<double>(Parts(BlocksOf(shape), kMultiprocessors)) * cells *
             CyclesOf(shape);
    });
  }

  // Cells get the axes of a thread's tile: quads of rows, a row, quads of columns, a column.
  void PrivatiseCells() {
    const std::vector<int64_t> axes = {shape_.row_quads, kQuad, shape_.column_quads, kQuad};
    for (Buffer& b : nest_.buffers) {
      if (b.access != loops::Access::kLocal) continue;
      b.shape.insert(b.shape.begin(), axes.begin(), axes.end());
      b.layout = Layout::Plain(b.shape.size());
      b.space = Space::kRegister;
    }
  }

  // [step of the sum][place]; four words more to a line, so that neighbouring steps lie in other
  // banks and quads stay aligned.
  BufferId AddStage(std::string name, int64_t places) {
    return loops::AddBuffer(nest_, {.name = std::move(name),
                                    .dtype = Dtype::kF32,
                                    .shape = {kColumns, places + kQuad},
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

  // All threads of the block.
  template <typename Make>
  StmtId Threads(Make make) {
    const Var y = loops::AddVar(nest_, "y"), x = loops::AddVar(nest_, "x");
    std::vector<StmtId> body = make(Affine::OfVar(y), Affine::OfVar(x));
    const StmtId inner = Loop(x, 0, {kColumns}, LoopKind::kThreadX, std::move(body));
    return Loop(y, 0, {shape_.rows}, LoopKind::kThreadY, {inner});
  }

  // A thread's cells: what `make(row, column, cell)` gives, expanded; places are those in the tile.
  using Cell = std::vector<Affine>;
  template <typename Make>
  StmtId Cells(const Affine& y, const Affine& x, Make make) {
    const Var vars[] = {loops::AddVar(nest_, "p"), loops::AddVar(nest_, "i"),
                        loops::AddVar(nest_, "q"), loops::AddVar(nest_, "j")};
    const int64_t trips[] = {shape_.row_quads, kQuad, shape_.column_quads, kQuad};
    Cell cell;
    for (const Var v : vars) cell.push_back(Affine::OfVar(v));
    std::vector<StmtId> body = make(y * kQuad + cell[0] * (shape_.rows * kQuad) + cell[1],
                                    x * kQuad + cell[2] * (kColumns * kQuad) + cell[3], cell);
    for (size_t k = 4; k-- > 0;)
      body = {Loop(vars[k], 0, {trips[k]}, LoopKind::kUnroll, std::move(body))};
    return body[0];
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

  // A place in a tile as a value of the axis, and that it lies inside, where that is not sure.
  Affine At(StmtId axis, const Affine& base, const Affine& place, int64_t size,
            std::vector<Affine>& conditions) const {
    const Stmt& s = nest_[axis];
    const Affine value = base + place;
    if (Extent(axis) % size != 0) conditions.push_back(s.hi[0] - 1 - value);
    return value;
  }

  // Stores of an iteration of the band, by each thread for its cells. Cells outside of the band are
  // filled too, since they take part in the sum, from loads that are guarded.
  StmtId Stores(const std::vector<StmtId>& stores, bool fill) {
    return Threads([&](const Affine& y, const Affine& x) {
      return std::vector{Cells(y, x, [&](const Affine& row, const Affine& column, Cell cell) {
        std::vector<Affine> conditions;
        Renaming r{.cell = std::move(cell)};
        r.values[VarOf(row_)] = At(row_, row_base_, row, shape_.Height(), conditions);
        r.values[VarOf(column_)] = At(column_, column_base_, column, shape_.Width(), conditions);
        if (fill) r.guards = std::exchange(conditions, {});
        std::vector<StmtId> body;
        for (const StmtId id : stores) {
          body.push_back(Copy(id, r));
          r.done.clear();  // what was loaded before a store may have changed
        }
        if (conditions.empty()) return body;
        return std::vector{loops::AddStmt(
            nest_,
            {.kind = StmtKind::kIf, .conditions = std::move(conditions), .body = std::move(body)})};
      })};
    });
  }

  // A factor's values for the tile and the part of the sum. Along whichever of the two they lie
  // side by side in memory run the threads of a row.
  StmtId Stage(BufferId to, ExprId factor, StmtId axis, const Affine& base, int64_t size) {
    const bool along_axis = ContiguousIn(factor, VarOf(axis));
    return Threads([&](const Affine& y, const Affine& x) {
      const Var u = loops::AddVar(nest_, "u");
      const auto spread = [&](const Affine& thread, int64_t threads) {
        return thread + Affine::OfVar(u, threads);
      };
      std::vector<StmtId> body;
      const auto put = [&](const Affine& step, const Affine& place) {
        Renaming r;
        r.values[VarOf(axis)] = At(axis, base, place, size, r.guards);
        r.values[VarOf(sum_)] = At(sum_, sum_base_, step, kColumns, r.guards);
        const ExprId value = Copy(factor, r);
        return loops::AddStmt(
            nest_,
            {.kind = StmtKind::kStore, .buffer = to, .index = {step, place}, .value = value});
      };
      if (!along_axis) {
        body = {put(x, spread(y, shape_.rows))};
        return std::vector{Loop(u, 0, {size / shape_.rows}, LoopKind::kUnroll, std::move(body))};
      }
      const Var k = loops::AddVar(nest_, "k");
      body = {put(y + Affine::OfVar(k, shape_.rows), spread(x, kColumns))};
      body = {Loop(u, 0, {size / kColumns}, LoopKind::kUnroll, std::move(body))};
      return std::vector{Loop(k, 0, {kColumns / shape_.rows}, LoopKind::kUnroll, std::move(body))};
    });
  }

  StmtId Multiply() {
    return Threads([&](const Affine& y, const Affine& x) {
      const Var k = loops::AddVar(nest_, "k");
      const Affine step = Affine::OfVar(k);
      const StmtId cells = Cells(y, x, [&](const Affine& row, const Affine& column, Cell cell) {
        const Stmt s = nest_[update_];
        cell.insert(cell.end(), s.index.begin(), s.index.end());
        const ExprId a = loops::AddLoad(nest_, a_, {step, row}),
                     b = loops::AddLoad(nest_, b_, {step, column}),
                     c = loops::AddLoad(nest_, s.buffer, cell);
        const ExprId sum = loops::AddOp(nest_, ScalarOp::kFma, Dtype::kF32, {a, b, c});
        return std::vector{loops::AddStmt(
            nest_, {.kind = StmtKind::kStore, .buffer = s.buffer, .index = cell, .value = sum})};
      });
      const bool whole = Extent(sum_) % kColumns == 0;
      std::vector<Affine> ends = {kColumns};
      if (!whole) ends.push_back(nest_[sum_].hi[0] - sum_base_);
      return std::vector{Loop(k, 0, ends, whole ? LoopKind::kUnroll : LoopKind::kSerial, {cells})};
    });
  }

  std::vector<StmtId> Block() {
    const auto base = [this](Var& v, StmtId axis) {
      v = loops::AddVar(nest_, nest_.vars[static_cast<size_t>(VarOf(axis))] + "_base");
      return Affine::OfVar(v);
    };
    row_base_ = base(row_var_, row_);
    column_base_ = base(column_var_, column_);
    Var part = -1;
    sum_base_ = base(part, sum_);
    std::vector<StmtId> all;
    if (!before_.empty()) all.push_back(Stores(before_, true));
    std::vector<StmtId> body = {Stage(a_, row_factor_, row_, row_base_, shape_.Height()),
                                Stage(b_, column_factor_, column_, column_base_, shape_.Width()),
                                AddBarrier(nest_), Multiply(), AddBarrier(nest_)};
    const Stmt sum = nest_[sum_];
    body = {Loop(part, sum.lo[0], sum.hi, LoopKind::kSerial, std::move(body), kColumns)};
    for (size_t k = chain_.size(); k-- > 0;) {
      if (chain_[k] == sum_) continue;
      Stmt& s = nest_.stmts[chain_[k].index];
      s.body = std::move(body);
      s.loop = LoopKind::kSerial;
      body = {chain_[k]};
    }
    all.insert(all.end(), body.begin(), body.end());
    if (!after_.empty()) all.push_back(Stores(after_, false));
    return all;
  }

  // The launch: columns along x, rows along y, the longest other axis along z; the rest in order.
  std::vector<StmtId> Around(std::vector<StmtId> body) {
    for (const StmtId id : band_) {
      if (id == row_ || id == column_ || id == depth_) continue;
      Stmt& s = nest_.stmts[id.index];
      s.loop = LoopKind::kSerial;
      s.body = std::move(body);
      body = {id};
    }
    const Stmt row = nest_[row_], column = nest_[column_];
    body = {Loop(column_var_, column.lo[0], column.hi, LoopKind::kBlockX, std::move(body),
                 shape_.Width())};
    body = {Loop(row_var_, row.lo[0], row.hi, LoopKind::kBlockY, std::move(body), shape_.Height())};
    if (!depth_.valid()) return body;
    Stmt& depth = nest_.stmts[depth_.index];
    depth.loop = LoopKind::kBlockZ;
    depth.body = std::move(body);
    return {depth_};
  }

  LoopNest nest_;
  std::vector<StmtId> band_, body_, before_, chain_, after_;
  StmtId update_;                      // c = fma(a, b, c)
  StmtId row_, column_, sum_, depth_;  // loops as they were: the tile's axes, its sum, blocks
  ExprId row_factor_, column_factor_;
  TileShape shape_;
  BufferId a_, b_;  // stages
  Var row_var_ = -1, column_var_ = -1;
  Affine row_base_, column_base_, sum_base_;  // of the tile and the part
};

}  // namespace

int64_t TileShape::Height() const { return rows * row_quads * kQuad; }
int64_t TileShape::Width() const { return kColumns * column_quads * kQuad; }
std::span<const TileShape> TileShapes() { return kShapes; }

std::optional<Tiles> MapTiles(LoopNest nest, StmtId outermost, const TileShape* forced) {
  return Mapper(std::move(nest)).Run(outermost, forced);
}

}  // namespace weft::polyhedral::cuda
