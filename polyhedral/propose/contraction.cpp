// Contractions and convolutions: the loops around a tile of accumulators.
#include <algorithm>

#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/propose/tile_model.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

// Cycles for an output element that does not leave in a vector: extract and store, bias and
// residual loaded likewise.
constexpr double kScattered = 3;
// The same where rows of the tile lie side by side instead: they are transposed in registers.
constexpr double kTransposed = 0.5;
// Cycles for an element of an operand that is copied: transposed in registers and stored, and
// loaded again from a cache that is farther away. Below so many uses the loops of rows do better.
constexpr double kCopied = 0.3, kLeastUses = 16;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Lanes along a padded axis mask what they load at both ends.
constexpr double kMasked = 1.25;
// Steps that each read another page wait for its translation, and for lines of one set.
constexpr double kLeaping = 1.12;

class Maker {
 public:
  Maker(const ClusterView& view, const Contraction& c)
      : view_(view),
        c_(c),
        program_(view.program()),
        s_(view.At(view.anchor)),
        axes_(view.axes[view.anchor]) {}

  std::optional<Cluster> Run(int variant, Choice& choice) {
    if (!ChooseLane(variant / 2)) return std::nullopt;
    if (copies_ && DotCycles(view_) < cycles_) return std::nullopt;
    ChooseDot();
    ChooseNibbles();
    const std::vector<std::string> names = StatementNames(program_);
    for (const int32_t s : view_.statements) cluster_.statements.push_back(names[s]);
    FillOrder(variant % 2 == 1);
    AddPack(lane_, tile_.lanes, choice);
    if (row_ >= 0) AddPack(row_, tile_.rows, choice);
    AddPacksOfOthers(choice);
    return cluster_;
  }

 private:
  int64_t Extent(int32_t index) const { return view_.Extent(axes_[index]); }

  bool Uses(tc::ExprId read, int32_t index) const {
    return polyhedral::Uses(program_, read, index);
  }

  // d if the index moves the read once in d steps, by floor(index / d) and nothing else; else 1.
  int64_t StepsToMove(tc::ExprId read, int32_t index) const {
    int64_t steps = 0;
    for (const tc::ExprId sub : program_[read].args) {
      const auto e = tc::AsAffine(program_, sub);
      if (!e || !e->Uses(index)) continue;
      for (const Affine::Term& t : e->terms()) {
        if (t.dividend ? !t.dividend->Uses(index) : t.var != index) continue;
        if (!t.dividend || t.dividend->AsVar() != index || steps > 0) return 1;
        steps = t.divisor;
      }
    }
    return std::max<int64_t>(1, steps);
  }

  int32_t AxisOf(tc::ExprId read, int32_t index) const {
    return polyhedral::AxisOf(program_, read, index);
  }

  // The axis of a read whose successive elements the index runs through, from a multiple of its
  // extent on, and which no other index moves by less.
  int32_t AxisAlong(tc::ExprId read, int32_t index) const {
    for (size_t a = 0; a < program_[read].args.size(); ++a) {
      const auto e = tc::AsAffine(program_, program_[read].args[a]);
      if (!e || e->CoefficientOf(index) != 1) continue;
      const Affine rest = *e - Affine::OfVar(index);
      const bool whole = std::ranges::all_of(
          rest.terms(), [&](const Affine::Term& t) { return t.coefficient % Extent(index) == 0; });
      if (!rest.Uses(index) && whole && rest.constant() % Extent(index) == 0)
        return static_cast<int32_t>(a);
    }
    return -1;
  }

  // Statements that share the cluster iterate over this index together; others reduce it.
  bool IsShared(int32_t index) const { return view_.IsShared(axes_[index]); }

  // A constant is packed so that this index is innermost.
  bool Packable(tc::ExprId read, int32_t index) const {
    const std::string& name = program_[program_[read].tensor].name;
    const bool constant = std::ranges::count(view_.request->constants, name) > 0;
    return constant && !view_.request->layouts.contains(name) && AxisOf(read, index) >= 0;
  }

  // A copy of an operand is packed likewise, which costs something.
  bool IsCopy(tc::ExprId read) const {
    return view_.request->copies.contains(program_[program_[read].tensor].name);
  }
  bool TakesCopy(tc::ExprId read, int32_t index) const {
    return IsCopy(read) && Uses(read, index) && AxisOf(read, index) >= 0 &&
           CopyCycles(read) * kLeastUses < kCopied * Steps();
  }

  // For an element of the result.
  double CopyCycles(tc::ExprId read) const {
    const int64_t elements = Bytes(read) / SizeBytes(program_[read].dtype);
    double outputs = 1;
    for (const int32_t i : c_.kept) outputs *= static_cast<double>(std::max<int64_t>(1, Extent(i)));
    return kCopied * static_cast<double>(elements) / outputs;
  }

  // Each step of the sum reads the operand in another page, as in long rows of a matrix.
  bool LeapsPages(tc::ExprId read, int32_t lane) const {
    constexpr int64_t kPage = 4096;
    const tc::TensorDecl& tensor = program_[program_[read].tensor];
    const int32_t axis = AxisOf(read, ReductionOrder(lane).back());
    const bool lies = (tensor.role == tc::Role::kInput || IsCopy(read)) && !Packable(read, lane) &&
                      !view_.request->layouts.contains(tensor.name);
    const auto extents = tc::StaticExtents(tensor);
    if (axis < 0 || !lies || !extents) return false;
    int64_t leap = SizeBytes(tensor.dtype);
    for (size_t a = static_cast<size_t>(axis) + 1; a < extents->size(); ++a) leap *= (*extents)[a];
    return leap >= kPage;
  }

  bool Streams(tc::ExprId read, int32_t index) const {
    if (!Uses(read, index) || Packable(read, index)) return true;
    const tc::Expr& e = program_[read];
    if (ContiguousIndex(*view_.request, s_, e.tensor, e.args) == index) return true;
    // Groups of lanes that share an element: one for all lanes, or near each other.
    const int64_t steps = StepsToMove(read, index);
    if (steps == 1) return false;
    const auto near = tc::AsAffine(program_, e.args[Innermost(e)]);
    return steps % Vector() == 0 || (near && near->Uses(index));
  }

  int64_t Vector() const { return view_.request->target.VectorBytes() / SizeBytes(s_.accumulate); }

  bool IsWindow(int32_t index) const {
    for (const tc::ExprId read : {c_.x, c_.w}) {
      if (Uses(read, index) && AxisOf(read, index) < 0) return true;
    }
    return false;
  }

  // The operand that is loaded in vectors.
  tc::ExprId Streamed(int32_t lane) const { return Uses(c_.w, lane) ? c_.w : c_.x; }

  // The kept index that moves one operand and leaves the lanes' operand where it is, so that its
  // loads are used again; the longest, then the innermost.
  int32_t RowFor(int32_t lane) const {
    const tc::ExprId streamed = Streamed(lane);
    int32_t row = -1;
    const auto better = [&](int32_t i) {
      return row < 0 || std::min<int64_t>(Extent(i), 24) >= std::min<int64_t>(Extent(row), 24);
    };
    for (const int32_t i : c_.kept) {
      if (i != lane && Extent(i) >= 2 && IsShared(i) && !Uses(streamed, i) && better(i)) row = i;
    }
    if (row >= 0) return row;
    for (const int32_t i : c_.kept) {  // depthwise: rows still hide latency
      if (i != lane && Extent(i) >= 2 && IsShared(i) && !MovesBoth(i)) row = i;
    }
    return row;
  }

  // No operand stays where it is along the lanes, so that nothing is loaded for several of them:
  // but neighbouring taps of neighbouring places are the same element, and stay in registers if all
  // are written out.
  bool UnrollsTaps(int32_t lane) const {
    return MovesBoth(lane) && StepsToMove(c_.x, lane) == 1 && StepsToMove(c_.w, lane) == 1;
  }

  int32_t OutputLane() const {
    const tc::Statement& last = view_.At(view_.statements.size() - 1);
    const int32_t out = ContiguousIndex(*view_.request, last, last.target, last.subscripts);
    if (out < 0) return -1;
    const auto found = std::ranges::find(axes_, view_.axes.back()[out]);
    return found == axes_.end() ? -1 : static_cast<int32_t>(found - axes_.begin());
  }

  double Steps() const {
    double steps = 1;
    for (const int32_t i : c_.reduced)
      steps *= static_cast<double>(std::max<int64_t>(1, Extent(i)));
    return steps;
  }

  struct Option {
    double cycles = 0;  // of the whole statement, for an element of its result
    int32_t lane = -1, row = -1;
    TileShape tile;
    bool copies = false;
  };

  // Rows of a group of channels read the same elements of what the lanes move along.
  int64_t RowsOfGroup(int32_t lane, int32_t row) const {
    return row >= 0 ? StepsToMove(Streamed(lane), row) : 1;
  }

  OperandMoves MovesOf(int32_t lane, int32_t row) const {
    const auto by_row = [&](tc::ExprId read) {
      const bool shares = RowsOfGroup(lane, row) > 1 && read == Streamed(lane);
      return row >= 0 && Uses(read, row) && !shares;
    };
    OperandMoves moves{Uses(c_.x, lane), by_row(c_.x), Uses(c_.w, lane), by_row(c_.w)};
    if (IsNarrow() && IsFloat(s_.accumulate) && !Flushes())
      moves.parts = 2, moves.spare = 3;  // halves
    if (Flushes())
      moves.x_loads = PairLoads(c_.x, lane, row), moves.w_loads = PairLoads(c_.w, lane, row);
    if (IsNarrow() && IsInteger(s_.accumulate) && !HasDotProducts(view_.request->target.isa))
      moves.spare = 2;  // products, before they are added
    return moves;
  }

  // Cycles for an element.
  double StoreCycles(int32_t lane, int32_t row, int64_t rows) const {
    const int32_t output = OutputLane();
    if (lane == output) return 1 / static_cast<double>(Vector());
    if (row < 0 || row != output) return kScattered;
    const tc::TensorDecl& out = program_[view_.At(view_.statements.size() - 1).target];
    const int64_t whole = RoundUp(rows, 16 / SizeBytes(out.dtype));  // 128 bits of rows
    return kTransposed * static_cast<double>(whole) / static_cast<double>(rows);
  }

  // Tiles of registers with `width` lanes each, of those that the lanes' blocks and `fits` allow.
  template <typename F>
  void AddTiles(const OperandMoves& moves, int32_t lane, int32_t row, int64_t width, F fits,
                std::vector<Option>& options) const {
    const Target& target = view_.request->target;
    const int64_t m = row >= 0 ? Extent(row) : 1, n = Extent(lane), group = RowsOfGroup(lane, row);
    const int64_t most = target.VectorRegisters() / (UnrollsTaps(lane) ? 2 : 1);
    const double padded = IsWindow(lane) ? kMasked : 1;
    for (const TileShape& tile : RankTiles(target, moves, m, n, width, most)) {
      const bool ends = view_.DividesBlock(axes_[lane], tile.lanes) &&
                        (row < 0 || view_.DividesBlock(axes_[row], tile.rows)) &&
                        (group == 1 || group % tile.rows == 0);
      if (!ends || !fits(tile.lanes)) continue;
      const tc::ExprId streamed = Streamed(lane);
      double steps = tile.cycles * Steps() * padded / static_cast<double>(m * n);
      const double store = StoreCycles(lane, row, tile.rows);
      if (LeapsPages(Broadcast(lane), lane)) steps *= kLeaping;
      if (Streams(streamed, lane)) {
        const double leaps = LeapsPages(streamed, lane) ? kLeaping : 1;
        options.push_back({steps * leaps + store, lane, row, tile, false});
      }
      if (TakesCopy(streamed, lane))
        options.push_back({steps + store + CopyCycles(streamed), lane, row, tile, true});
    }
  }

  void AddOptions(int32_t lane, int32_t row, std::vector<Option>& options) const {
    OperandMoves moves = MovesOf(lane, row);
    const int64_t steps = StepsToMove(c_.x, lane);
    if (steps > 1) {  // a tile of lanes that all read the same element of x
      OperandMoves same = moves;
      same.x_lanes = false;
      const auto fits = [&](int64_t lanes) { return steps % lanes == 0; };
      AddTiles(same, lane, row, std::min(Vector(), steps), fits, options);
      moves.x_loads = 3;  // a row and its permutation, which has one port
    }
    AddTiles(moves, lane, row, Vector(), [](int64_t) { return true; }, options);
  }

  // Lanes, rows and their tile: `rank`-th by the cycles of the whole statement.
  bool ChooseLane(int rank) {
    std::vector<Option> options;
    const int32_t output = OutputLane();
    for (const int32_t lane : c_.kept) {
      if (!IsShared(lane)) continue;
      const auto streams = [&](tc::ExprId read) {
        return Streams(read, lane) || (read == Streamed(lane) && TakesCopy(read, lane));
      };
      if (Extent(lane) < 2 || !streams(c_.x) || !streams(c_.w)) continue;
      if (!Uses(c_.x, lane) && !Uses(c_.w, lane)) continue;
      const int32_t row = RowFor(lane);
      AddOptions(lane, row, options);
      for (const int32_t i : c_.kept) {
        if (i == lane || i == row || !IsShared(i)) continue;
        if ((i == output && Extent(i) > 1) || RowsOfGroup(lane, i) > 1)
          AddOptions(lane, i, options);
      }
    }
    if (options.empty()) return false;
    std::ranges::stable_sort(options, {}, &Option::cycles);
    const Option& pick = options[std::min<size_t>(static_cast<size_t>(rank), options.size() - 1)];
    lane_ = pick.lane;
    row_ = pick.row;
    tile_ = pick.tile;
    cycles_ = pick.cycles;
    copies_ = pick.copies;
    return true;
  }

  // Numbers of at most 16 bits are loaded, multiplied and added up two or four at a time, if those
  // of the rows' operand lie side by side.
  bool IsNarrow() const {
    const Dtype x = program_[c_.x].dtype, w = program_[c_.w].dtype;
    const auto fits = [](Dtype d) {
      return d == Dtype::kI16 || d == Dtype::kI8 || d == Dtype::kU8;
    };
    if (view_.request->target.kind != TargetKind::kCpu) return false;
    if (s_.accumulate == Dtype::kF32) return x == Dtype::kBF16 && w == Dtype::kBF16;
    return s_.accumulate == Dtype::kI32 && fits(x) && fits(w);
  }

  bool Adjacent(tc::ExprId read, int32_t index) const {
    const tc::Expr& e = program_[read];
    const auto inner = tc::AsAffine(program_, e.args[Innermost(e)]);
    return inner && inner->AsVar() == index;
  }

  // Loads of pairs of bfloat16. Those that lie apart are joined: by integer units, which have
  // nothing else to do, if the pair is the same in all lanes.
  int64_t PairLoads(tc::ExprId read, int32_t lane, int32_t row) const {
    const int32_t moved = Uses(read, lane) ? lane : row;
    const bool packed = moved >= 0 && Packable(read, moved);
    if (packed || Adjacent(read, ReductionOrder(lane).back())) return 1;
    return Uses(read, lane) ? 4 : 2;
  }

  bool Flushes() const {
    return IsNarrow() && IsFloat(s_.accumulate) && view_.request->flushes &&
           HasBfloatProducts(view_.request->target.isa);
  }

  // Eight elements of four bits that lie side by side are one load for each lane.
  void ChooseNibbles() {
    constexpr int64_t kOfLane = 8;
    const int32_t along = ReductionOrder(lane_).back();
    if (view_.request->target.kind != TargetKind::kCpu ||
        !SharesBytes(program_[LaneOperand()].dtype))
      return;
    if (!Packable(LaneOperand(), lane_) || AxisAlong(LaneOperand(), along) < 0) return;
    if (Extent(along) % kOfLane != 0 || !view_.DividesBlock(axes_[along], kOfLane)) return;
    dot_ = along;
    dot_steps_ = kOfLane;
  }

  void ChooseDot() {
    const tc::Expr &lanes = program_[LaneOperand()], &rows = program_[RowOperand()];
    if (!IsNarrow() || UnrollsTaps(lane_)) return;
    const int32_t steps_along = ReductionOrder(lane_).back();
    const bool packed = row_ >= 0 && Packable(RowOperand(), row_);
    if (!Flushes() && !packed && !Adjacent(RowOperand(), steps_along)) return;
    const bool bytes = HasDotProducts(view_.request->target.isa) &&
                       ((lanes.dtype == Dtype::kI8 && rows.dtype == Dtype::kU8) ||
                        (lanes.dtype == Dtype::kU8 && rows.dtype == Dtype::kI8));
    const int64_t extent = Extent(steps_along), steps = bytes && extent >= 4 ? 4 : 2;
    if (extent < steps || !view_.DividesBlock(axes_[steps_along], steps)) return;
    dot_ = steps_along;
    dot_steps_ = steps;
  }

  // Of the places that are read: strides skip some.
  int64_t Bytes(tc::ExprId read) const {
    const tc::Expr& e = program_[read];
    const auto shape = tc::StaticExtents(program_[e.tensor]);
    int64_t bits = Bits(e.dtype);
    for (size_t axis = 0; shape && axis < shape->size(); ++axis) {
      const auto sub = tc::AsAffine(program_, e.args[axis]);
      int64_t places = 1;
      for (size_t i = 0; sub && i < s_.indices.size(); ++i) {
        if (sub->Uses(static_cast<Var>(i)))
          places *= std::max<int64_t>(1, Extent(static_cast<int32_t>(i)));
      }
      bits *= sub ? std::min(places, (*shape)[axis]) : (*shape)[axis];
    }
    return bits / 8;
  }

  tc::ExprId LaneOperand() const { return Streamed(lane_); }
  tc::ExprId RowOperand() const { return Broadcast(lane_); }
  tc::ExprId Broadcast(int32_t lane) const { return Uses(c_.w, lane) ? c_.x : c_.w; }

  // Bytes of the lanes' operand that one tile of lanes walks over.
  int64_t PanelBytes() const {
    return Bytes(LaneOperand()) * tile_.lanes / std::max<int64_t>(1, Extent(lane_));
  }

  // Lanes outside keep a panel of one operand in the cache while the other streams by, once for
  // each panel; rows outside the other way round. Whichever moves fewer bytes into the cache.
  bool LanesOutside() const {
    const int64_t half = view_.request->target.l2_bytes / 2;
    int64_t batches = 1, places = 1;
    for (const int32_t i : c_.kept) {
      if (i != lane_) (MovesBoth(i) ? batches : places) *= std::max<int64_t>(1, Extent(i));
    }
    const int64_t lane_bytes = Bytes(LaneOperand()) / batches,
                  row_bytes = Bytes(RowOperand()) / batches;
    const int64_t panels = (Extent(lane_) + tile_.lanes - 1) / tile_.lanes;
    places = std::max<int64_t>(1, places / tile_.rows);
    const int64_t outside = lane_bytes + (row_bytes > half ? panels * row_bytes : row_bytes);
    const int64_t inside = row_bytes + (lane_bytes > half ? places * lane_bytes : lane_bytes);
    return outside < inside;
  }

  bool MovesBoth(int32_t i) const { return Uses(c_.x, i) && Uses(c_.w, i); }

  // Whether an axis that leaves the rows' operand where it is should go round inside the loop over
  // rows: outside it would take all of that operand from memory at each turn, where inside it finds
  // a tile of rows in the cache, and the lanes' operand too.
  bool TurnsInside(int32_t i) const {
    if (row_ < 0 || MovesBoth(row_) || Uses(RowOperand(), i)) return false;
    const int64_t half = view_.request->target.l2_bytes / 2;
    int64_t batches = 1;
    for (const int32_t k : c_.kept)
      if (k != lane_ && MovesBoth(k)) batches *= std::max<int64_t>(1, Extent(k));
    const int64_t rows = Bytes(RowOperand()) / batches,
                  tile = rows * tile_.rows / std::max<int64_t>(1, Extent(row_));
    return rows > half && tile <= half && Bytes(LaneOperand()) / batches <= half;
  }

  bool InOrder(int32_t i) const { return std::ranges::count(cluster_.order, axes_[i]) > 0; }

  void FillOrder(bool swap_order) {
    const bool outside = LanesOutside() != swap_order;
    const bool blocked = outside && Blocks();
    // Axes that move both operands come first: nothing is used again across them.
    for (const int32_t i : c_.kept) {
      if (!IsShared(i)) cluster_.inner.push_back(axes_[i]);
      if (i != lane_ && i != row_ && IsShared(i) && (MovesBoth(i) || Extent(i) == 0))
        cluster_.order.push_back(axes_[i]);
    }
    const bool rows_move_both = row_ >= 0 && MovesBoth(row_);
    if (rows_move_both) cluster_.order.push_back(axes_[row_]);
    if (outside) cluster_.order.push_back(axes_[lane_]);
    for (const int32_t i : c_.kept) {
      if (i != lane_ && i != row_ && IsShared(i) && !InOrder(i) && !TurnsInside(i))
        cluster_.order.push_back(axes_[i]);
    }
    if (row_ >= 0) {
      if (!rows_move_both) cluster_.order.push_back(axes_[row_]);
      for (const int32_t i : c_.kept) {
        if (i != lane_ && i != row_ && IsShared(i) && !InOrder(i))
          cluster_.order.push_back(axes_[i]);
      }
      cluster_.unroll.push_back(axes_[row_]);
      cluster_.tiles.push_back({axes_[row_], {tile_.rows}});
      if (blocked)
        cluster_.tiles.back().sizes.insert(cluster_.tiles.back().sizes.begin(),
                                           tile_.rows * kRowsPerBlock);
    }
    if (!outside) cluster_.order.push_back(axes_[lane_]);
    cluster_.tiles.push_back({axes_[lane_], {tile_.lanes}});
    cluster_.lanes = {{axes_[lane_], {tile_.lanes}}};
    const std::vector<int32_t> reduction = ReductionOrder(lane_);
    if (blocked) {
      const int32_t p = reduction.back();
      const int64_t blocks = (Extent(p) + BlockSize() - 1) / BlockSize();
      cluster_.tiles.push_back(
          {axes_[p], {RoundUp((Extent(p) + blocks - 1) / blocks, dot_steps_)}});
      cluster_.inner = {axes_[p], axes_[row_]};
    }
    for (const int32_t i : reduction) cluster_.inner.push_back(axes_[i]);
    if (dot_ >= 0) {
      if (!blocked) cluster_.tiles.push_back({axes_[dot_], {}});
      cluster_.tiles.back().sizes.push_back(dot_steps_);
      cluster_.dot_axis = axes_[dot_];
      cluster_.dot_flushes = Flushes();
    }
    UnrollTaps(reduction);
    cluster_.parallel = ParallelPrefix(view_, cluster_);
  }

  // Innermost loops of a few iterations, as over the taps of a window, end before the branch
  // predictor knows when; written out while they are no more than the decoder's cache holds.
  void UnrollTaps(const std::vector<int32_t>& reduction) {
    constexpr int64_t kFew = 8, kMostTaps = 32, kMostProducts = 160;
    const bool shared = UnrollsTaps(lane_);
    const int64_t products = tile_.rows * ((tile_.lanes + Vector() - 1) / Vector());
    int64_t taps = 1;
    for (size_t k = reduction.size(); dot_ < 0 && k-- > 0;) {
      const int64_t extent = Extent(reduction[k]);
      taps *= extent;
      const bool most =
          shared ? taps <= kMostTaps : extent <= kFew && taps * products <= kMostProducts;
      if (taps == 0 || !most) break;
      cluster_.unroll.push_back(axes_[reduction[k]]);
    }
  }

  // A long reduction is cut into blocks, so that a block of the lanes' operand stays in the nearest
  // cache while rows pass by; the accumulators of those rows wait in the cache meanwhile. A panel
  // that fits is best read whole, unless rows lie side by side: then tiles of rows share cache
  // lines, which have to stay until the last of them passed.
  static constexpr int64_t kBlock = 384, kLeastBlock = 32, kRowsPerBlock = 16;
  bool Blocks() const {
    if (c_.reduced.size() != 1 || row_ < 0) return false;
    const int64_t steps = Extent(c_.reduced[0]);
    const bool near = PanelBytes() <= L1() && (!RowsShareLines() || steps * RowBytes() <= L1());
    return !near && steps >= 2 * BlockSize() && Extent(row_) >= 4 * tile_.rows &&
           view_.DividesBlock(axes_[row_], tile_.rows * kRowsPerBlock);
  }

  int64_t BlockSize() const {
    if (!RowsShareLines()) return kBlock;
    const int64_t most = L1() * 2 / 5 / RowBytes() / kLeastBlock * kLeastBlock;
    return std::clamp(most, kLeastBlock, kBlock);
  }

  // Of the row operand, for one step of the reduction and the rows of a block.
  int64_t RowBytes() const {
    const int64_t rows = std::min(Extent(row_), tile_.rows * kRowsPerBlock);
    return rows * SizeBytes(program_[RowOperand()].dtype);
  }

  bool RowsShareLines() const {
    const tc::Expr& x = program_[RowOperand()];
    return ContiguousIndex(*view_.request, s_, x.tensor, x.args) == row_;
  }

  int64_t L1() const { return view_.request->target.l1_bytes; }

  // The reduction index along which the broadcast operand is contiguous runs innermost.
  std::vector<int32_t> ReductionOrder(int32_t lane) const {
    std::vector<int32_t> order = c_.reduced;
    const tc::Expr& x = program_[Broadcast(lane)];
    const auto sub = x.args.empty() ? std::nullopt : tc::AsAffine(program_, x.args[Innermost(x)]);
    if (sub) std::ranges::stable_partition(order, [&](int32_t i) { return sub->AsVar() != i; });
    return order;
  }

  size_t Innermost(const tc::Expr& read) const {
    const auto found = view_.request->layouts.find(program_[read.tensor].name);
    return found == view_.request->layouts.end() ? read.args.size() - 1
                                                 : found->second.axes.back().axis;
  }

  // [axes that move both operands][blocks][other kept axes][reduction axes in their order][places
  // in a block], of the operand that the index moves: in the order of the loops.
  void AddPack(int32_t index, int64_t block, Choice& choice) const {
    const tc::ExprId read = Uses(c_.w, index) ? c_.w : c_.x;
    const bool copy = index == lane_ && copies_;
    if (!copy && !Packable(read, index)) return;
    const std::string& name = program_[program_[read].tensor].name;
    const std::string& tensor = copy ? view_.request->copies.at(name) : name;
    if (std::ranges::any_of(choice.packs, [&](const Pack& p) { return p.tensor == tensor; }))
      return;
    Layout layout;
    std::vector<bool> placed(program_[read].args.size(), false);
    const auto place = [&](int32_t axis) {
      if (axis >= 0 && !placed[axis]) layout.axes.push_back({axis, 0});
      if (axis >= 0) placed[axis] = true;
    };
    const int32_t inner = AxisOf(read, index), dot = dot_ < 0 ? -1 : AxisAlong(read, dot_);
    const bool blocked = block < Extent(index);
    placed[inner] = true;
    for (const int32_t i : c_.kept)
      if (MovesBoth(i)) place(AxisOf(read, i));
    if (blocked) layout.axes.push_back({inner, 0});
    for (const int32_t i : c_.kept) place(AxisOf(read, i));
    const std::vector<int32_t> reduction = ReductionOrder(lane_);
    for (size_t a = 0; a < placed.size(); ++a) {  // what no index names alone stays outside
      const auto names = [&](int32_t i) { return AxisOf(read, i) == static_cast<int32_t>(a); };
      if (!std::ranges::any_of(reduction, names)) place(static_cast<int32_t>(a));
    }
    for (const int32_t i : reduction) place(AxisOf(read, i));
    layout.axes.push_back({inner, blocked ? block : 0});
    if (dot >= 0) layout.axes.push_back({dot, dot_steps_});
    choice.packs.push_back({tensor, layout});
    // Only the lanes' panels follow one another; each waits for the memory if nobody asks for it.
    if (index == lane_ && blocked && !copy && view_.request->target.kind == TargetKind::kCpu)
      choice.prefetches.push_back(tensor);
  }

  // What later statements read of constants along the lanes, in the order of their loops.
  void AddPacksOfOthers(Choice& choice) const {
    const std::string& lane = axes_[lane_];
    for (size_t k = 0; k < view_.statements.size(); ++k) {
      if (k == view_.anchor || !tc::Reduces(view_.At(k))) continue;
      const auto index = std::ranges::find(view_.axes[k], lane) - view_.axes[k].begin();
      for (const tc::ExprId read : tc::Reads(program_, view_.At(k))) {
        const std::string& tensor = program_[program_[read].tensor].name;
        const int32_t axis = AxisOf(read, static_cast<int32_t>(index));
        const bool packed =
            std::ranges::any_of(choice.packs, [&](const Pack& p) { return p.tensor == tensor; });
        if (packed || !Packable(read, static_cast<int32_t>(index))) continue;
        const bool blocked = tile_.lanes < Extent(lane_);
        Layout layout;
        if (blocked) layout.axes.push_back({axis, 0});
        for (int32_t a = 0; a < static_cast<int32_t>(program_[read].args.size()); ++a)
          if (a != axis) layout.axes.push_back({a, 0});
        layout.axes.push_back({axis, blocked ? tile_.lanes : 0});
        choice.packs.push_back({tensor, layout});
        if (blocked && view_.request->target.kind == TargetKind::kCpu)
          choice.prefetches.push_back(tensor);
      }
    }
  }

  const ClusterView& view_;
  const Contraction& c_;
  const tc::Program& program_;
  const tc::Statement& s_;
  const std::vector<std::string>& axes_;
  Cluster cluster_;
  int32_t lane_ = -1, row_ = -1;
  TileShape tile_;
  double cycles_ = 0;    // as Option has them
  bool copies_ = false;  // the lanes' operand
  int32_t dot_ = -1;     // the reduced index of which instructions take several steps
  int64_t dot_steps_ = 1;
};

}  // namespace

std::optional<Cluster> ContractionCluster(const ClusterView& view, int variant, Choice& choice) {
  const auto contraction = AsContraction(view.program(), view.At(view.anchor));
  if (!contraction) return std::nullopt;
  return Maker(view, *contraction).Run(variant, choice);
}

}  // namespace weft::polyhedral
