// Contractions and convolutions: the loops around a tile of accumulators.
#include <algorithm>

#include "polyhedral/loops/matrix_tiles.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/propose/register_tile.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The loops around a contraction's tile of registers.
class LoopMaker {
 public:
  LoopMaker(const Operands& operands, const RegisterTile& tile) : o_(operands), tile_(tile) {}

  Cluster Run(bool swap_order, Choice& choice) {
    const std::vector<std::string> names = StatementNames(o_.program);
    for (const int32_t s : o_.view.statements) cluster_.statements.push_back(names[s]);
    FillOrder(swap_order);
    if (tile_.copies) AddPack(o_.Copied(tile_.lane), tile_.lane, LanesOfPanel(), choice);
    AddPack(LaneOperand(), tile_.lane, LanesOfPanel(), choice);
    if (LaneOperand() == o_.c.w)
      for (const tc::ExprId beside : o_.c.beside_w)
        AddPack(beside, tile_.lane, LanesOfPanel(), choice);
    if (tile_.row >= 0) AddPack(o_.Streamed(tile_.row), tile_.row, tile_.shape.rows, choice);
    AddPacksOfOthers(choice);
    return cluster_;
  }

 private:
  tc::ExprId LaneOperand() const { return o_.Streamed(tile_.lane); }
  tc::ExprId RowOperand() const { return o_.Broadcast(tile_.lane); }

  // Lanes that lie side by side in the lanes' operand: a register's, where that is a matrix.
  int64_t LanesOfPanel() const {
    constexpr int64_t kOfMatrix = loops::MatrixTiles::kLanes;
    return tile_.matrix && tile_.shape.lanes % kOfMatrix == 0 ? kOfMatrix : tile_.shape.lanes;
  }

  // The sums of matrices are too many for registers: what follows takes a row of them at a time,
  // but if results lie side by side along rows, which are transposed then, all at once.
  bool RunsTogether() const {
    return tile_.matrix && o_.OutputLane() == tile_.lane &&
           o_.view.anchor + 1 < o_.view.statements.size() &&
           std::none_of(o_.view.statements.begin() + static_cast<ptrdiff_t>(o_.view.anchor) + 1,
                        o_.view.statements.end(),
                        [&](int32_t s) { return tc::Reduces(o_.program.statements[s]); });
  }

  // Bytes of the lanes' operand that one tile of lanes walks over.
  int64_t PanelBytes() const {
    return o_.Bytes(LaneOperand()) * tile_.shape.lanes /
           std::max<int64_t>(1, o_.Extent(tile_.lane));
  }

  // Lanes outside keep a panel of one operand in the cache while the other streams by, once for
  // each panel; rows outside the other way round. Whichever moves fewer bytes into the cache, of
  // which those from memory count twice.
  bool LanesOutside() const {
    const int64_t half = o_.view.request->target.l2_bytes / 2;
    int64_t batches = 1, places = 1;
    for (const int32_t i : o_.c.kept) {
      if (i != tile_.lane)
        (o_.MovesBoth(i) ? batches : places) *= std::max<int64_t>(1, o_.Extent(i));
    }
    const int64_t lane_bytes = o_.Bytes(LaneOperand()) / batches,
                  row_bytes = o_.Bytes(RowOperand()) / batches;
    const int64_t panels = (o_.Extent(tile_.lane) + tile_.shape.lanes - 1) / tile_.shape.lanes;
    const bool in_blocks = BlocksOfRows();
    const int64_t pass = tile_.shape.rows * (in_blocks ? kRowsPerBlock : 1);
    const double block = in_blocks ? static_cast<double>(row_bytes) / static_cast<double>(places) *
                                         static_cast<double>(pass)
                                   : 0;
    places = std::max<int64_t>(1, places / pass);
    // Of an operand that passes so often, with so many bytes from one time to the next.
    const auto moved = [&](int64_t bytes, int64_t times, double between) {
      const auto shared = static_cast<double>(o_.view.request->target.l3_bytes) / 2;
      const int weight = between > shared ? 2 : 1;
      return static_cast<double>(bytes) *
             (between > static_cast<double>(half) ? static_cast<double>(times) * weight : 1);
    };
    const double all_rows = static_cast<double>(row_bytes),
                 all_lanes = static_cast<double>(lane_bytes);
    const double outside = all_lanes + moved(row_bytes, panels, all_rows),
                 inside = moved(row_bytes, panels, block) + moved(lane_bytes, places, all_lanes);
    if (outside != inside) return outside < inside;
    // Both come from memory once: what passes from the second cache to the nearest decides.
    const auto near = [&](int64_t bytes) { return bytes <= L1() * 4 / 5; };
    const bool kept = near(PanelBytes()) || Blocks();
    const int64_t with_lanes =
                      (kept ? 1 : places) * lane_bytes + (near(row_bytes) ? 1 : panels) * row_bytes,
                  with_rows = row_bytes + (near(lane_bytes) ? 1 : places) * lane_bytes;
    return with_lanes < with_rows;
  }

  // Whether an axis that leaves the rows' operand where it is should go round inside the loop over
  // rows: outside it would take all of that operand from memory at each turn, where inside it finds
  // a tile of rows in the cache, and the lanes' operand too.
  bool TurnsInside(int32_t i) const {
    if (tile_.row < 0 || o_.MovesBoth(tile_.row) || o_.Uses(RowOperand(), i)) return false;
    const int64_t half = o_.view.request->target.l2_bytes / 2;
    int64_t batches = 1;
    for (const int32_t k : o_.c.kept)
      if (k != tile_.lane && o_.MovesBoth(k)) batches *= std::max<int64_t>(1, o_.Extent(k));
    const int64_t rows = o_.Bytes(RowOperand()) / batches,
                  tile = rows * tile_.shape.rows / std::max<int64_t>(1, o_.Extent(tile_.row));
    return rows > half && tile <= half && o_.Bytes(LaneOperand()) / batches <= half;
  }

  // Whether a tile's lanes should wait until all rows passed: rows of results lie side by side, as
  // in planes, and before the rest of a line comes, lines of all lanes would push it out of the
  // nearest cache. What the rows read has to be there still for the next lanes.
  bool FillsLines() const {
    const int32_t row = tile_.row;
    if (row < 0 || o_.OutputLane() != row || o_.Extent(row) * o_.ResultBytes() < kLineBytes)
      return false;
    int64_t lines = 1;
    for (const int32_t i : o_.c.kept)
      if (i != tile_.lane && i != row && o_.Uses(RowOperand(), i))
        lines *= std::max<int64_t>(1, o_.Extent(i));
    return o_.Bytes(RowOperand()) / lines <= o_.view.request->target.l2_bytes / 2 &&
           LinesLost(o_, tile_.lane, row, tile_.shape.rows, o_.Extent(tile_.lane)) > 0;
  }

  bool InOrder(int32_t i) const { return std::ranges::count(cluster_.order, o_.axes[i]) > 0; }

  void FillOrder(bool swap_order) {
    const std::optional<Part> part = PartOf();
    const bool outside = (LanesOutside() || (part && part->crowded)) != swap_order;
    const bool blocked = Blocks() && (outside || BlocksOfRows());
    std::vector<int32_t> reduction = o_.ReductionOrder(tile_.lane);
    const int32_t across = TapAcrossRows(o_, tile_.lane, tile_.row);
    if (std::erase(reduction, across) > 0) reduction.push_back(across);
    if (outside) part_ = part;
    // Axes that move both operands come first: nothing is used again across them.
    for (const int32_t i : o_.c.kept) {
      if (!o_.IsShared(i)) cluster_.inner.push_back(o_.axes[i]);
      if (i != tile_.lane && i != tile_.row && o_.IsShared(i) &&
          (o_.MovesBoth(i) || o_.Extent(i) == 0))
        cluster_.order.push_back(o_.axes[i]);
    }
    const bool rows_move_both = tile_.row >= 0 && o_.MovesBoth(tile_.row);
    if (rows_move_both) cluster_.order.push_back(o_.axes[tile_.row]);
    if (outside) cluster_.order.push_back(o_.axes[tile_.lane]);
    for (const int32_t i : o_.c.kept) {
      if (i != tile_.lane && i != tile_.row && o_.IsShared(i) && !InOrder(i) && !TurnsInside(i))
        cluster_.order.push_back(o_.axes[i]);
    }
    const bool around = !outside && !rows_move_both && FillsLines();
    if (around) cluster_.order.push_back(o_.axes[tile_.lane]);
    if (tile_.row >= 0) {
      if (!rows_move_both) cluster_.order.push_back(o_.axes[tile_.row]);
      for (const int32_t i : o_.c.kept) {
        if (i != tile_.lane && i != tile_.row && o_.IsShared(i) && !InOrder(i))
          cluster_.order.push_back(o_.axes[i]);
      }
      cluster_.unroll.push_back(o_.axes[tile_.row]);
      if (RunsTogether()) cluster_.together = o_.axes[tile_.row];
      cluster_.tiles.push_back({o_.axes[tile_.row], {tile_.shape.rows}});
      if (blocked)
        cluster_.tiles.back().sizes.insert(cluster_.tiles.back().sizes.begin(),
                                           tile_.shape.rows * kRowsPerBlock);
      if (part_) {
        cluster_.tiles.back().sizes = {part_->rows, tile_.shape.rows};
        if (part_->line >= 0) cluster_.tiles.push_back({o_.axes[part_->line], {part_->lines, 1}});
      }
    }
    if (!outside && !around) cluster_.order.push_back(o_.axes[tile_.lane]);
    cluster_.tiles.push_back({o_.axes[tile_.lane], {tile_.shape.lanes}});
    cluster_.lanes = {{o_.axes[tile_.lane], {tile_.shape.lanes}}};
    if (part_) {
      cluster_.tiles.push_back({o_.axes[part_->sum], {part_->steps}});
      cluster_.inner = {o_.axes[part_->sum]};
      if (part_->line >= 0) cluster_.inner.push_back(o_.axes[part_->line]);
      cluster_.inner.push_back(o_.axes[tile_.row]);
    }
    if (blocked) {
      const int32_t p = reduction.back();
      const int64_t blocks = (o_.Extent(p) + BlockSize() - 1) / BlockSize();
      cluster_.tiles.push_back(
          {o_.axes[p], {RoundUp((o_.Extent(p) + blocks - 1) / blocks, tile_.dot_steps)}});
      cluster_.inner = {o_.axes[p], o_.axes[tile_.row]};
    }
    const std::optional<Tile> sums = blocked || part_ ? std::nullopt : SumTile(reduction);
    for (const int32_t i : reduction) {
      if (sums && sums->axis == o_.axes[i]) cluster_.inner.push_back(sums->axis);
      cluster_.inner.push_back(o_.axes[i]);
    }
    if (sums) cluster_.tiles.push_back(*sums);
    if (tile_.dot >= 0) {
      if (!blocked) cluster_.tiles.push_back({o_.axes[tile_.dot], {}});
      cluster_.tiles.back().sizes.push_back(tile_.dot_steps);
      cluster_.dot_axis = o_.axes[tile_.dot];
      cluster_.dot_flushes = o_.Flushes();
    }
    if (across >= 0)
      cluster_.unroll.push_back(o_.axes[across]);
    else
      UnrollTaps(reduction);
    cluster_.parallel = ParallelPrefix(o_.view, cluster_);
    if (!blocked && !part_ && CarriesSums()) {
      for (const int32_t i : o_.c.kept) {
        if (o_.IsShared(i)) continue;
        std::erase(cluster_.inner, o_.axes[i]);
        cluster_.order.push_back(o_.axes[i]);
      }
    }
  }

  // Whether a statement that sums what the contraction makes takes each value as soon as it is
  // there, with both's accumulators in registers: then neither is stored, and what both read comes
  // from memory at the same time.
  bool CarriesSums() const {
    const Target& target = o_.view.request->target;
    const int64_t sums = tile_.shape.rows * ((tile_.shape.lanes + o_.Vector() - 1) / o_.Vector());
    return target.kind == TargetKind::kCpu && 4 * sums <= target.VectorRegisters() &&
           o_.IsShared(tile_.lane) && (tile_.row < 0 || o_.IsShared(tile_.row));
  }

  // Of a long sum (see Values::Move): the ends of shorter ones take a hundredth of the time, and
  // three to four of that of 576 terms in pieces of 384 and 192.
  static constexpr int64_t kSum = 384, kLongSum = 512;
  std::optional<Tile> SumTile(const std::vector<int32_t>& reduction) const {
    if (tile_.dot >= 0 || o_.s.assign != tc::Assign::kSum || !IsFloat(o_.s.accumulate))
      return std::nullopt;
    std::vector<int64_t> extents;
    for (const int32_t i : reduction) extents.push_back(o_.Extent(i));
    const auto shorter = ShorterSums(extents, kLongSum, kSum);
    if (!shorter) return std::nullopt;
    return Tile{o_.axes[reduction[shorter->first]], {shorter->second}};
  }

  // Whether windows of rows beside one another overlap along this index of taps.
  bool RowsShare(int32_t tap) const {
    return tile_.row >= 0 &&
           std::ranges::any_of(o_.program[RowOperand()].args, [&](tc::ExprId sub) {
             const auto at = tc::AsAffine(o_.program, sub);
             const int64_t taps = at ? std::abs(at->CoefficientOf(tap)) : 0,
                           rows = at ? std::abs(at->CoefficientOf(tile_.row)) : 0;
             return taps > 0 && rows > 0 && (rows - 1) / taps + 1 < o_.Extent(tap);
           });
  }

  // Innermost loops of a few iterations, as over the taps of a window, end before the branch
  // predictor knows when; written out while they are no more than the decoder's cache holds.
  void UnrollTaps(const std::vector<int32_t>& reduction) {
    constexpr int64_t kFew = 8, kMostTaps = 32, kMostProducts = 160;
    const bool shared = polyhedral::UnrollsTaps(o_, tile_.lane);
    const int64_t vectors = (tile_.shape.lanes + o_.Vector() - 1) / o_.Vector(),
                  products = tile_.shape.rows * vectors;
    // What rows share is loaded once for two taps and waits in registers, of which sums leave few
    // without AVX-512 (tiles of 6x16 and 12x8 took 1.25 to 2 times as long, those of 5x16 0.6 to
    // 0.8).
    const Target& target = o_.view.request->target;
    const bool spills = !shared && target.kind == TargetKind::kCpu && !target.HasAvx512() &&
                        products + vectors + tile_.shape.rows - 1 > target.VectorRegisters();
    int64_t taps = 1;
    for (size_t k = reduction.size(); tile_.dot < 0 && k-- > 0;) {
      const int64_t extent = o_.Extent(reduction[k]);
      taps *= extent;
      const bool most =
          shared ? taps <= kMostTaps : extent <= kFew && taps * products <= kMostProducts;
      if (taps == 0 || !most || (spills && RowsShare(reduction[k]))) break;
      cluster_.unroll.push_back(o_.axes[reduction[k]]);
    }
  }

  // A long reduction is cut into blocks, so that a block of the lanes' operand stays in the nearest
  // cache while rows pass by; the accumulators of those rows wait in the cache meanwhile. A panel
  // that fits is best read whole, unless rows lie side by side: then tiles of rows share cache
  // lines, which have to stay until the last of them passed.
  static constexpr int64_t kLeastBlock = 32, kRowsPerBlock = 16;
  bool Blocks() const {
    if (o_.c.reduced.size() != 1 || tile_.row < 0 || tile_.matrix) return false;
    const int64_t steps = o_.Extent(o_.c.reduced[0]);
    const bool near = PanelBytes() <= L1() && (!RowsShareLines() || steps * RowBytes() <= L1());
    return !near && steps >= 2 * BlockSize() && o_.Extent(tile_.row) >= 4 * tile_.shape.rows &&
           o_.view.DividesBlock(o_.axes[tile_.row], tile_.shape.rows * kRowsPerBlock);
  }

  // Whether rows outside go in blocks, too, for which each panel of lanes that come from far comes
  // once.
  bool BlocksOfRows() const {
    int64_t batches = 1;
    for (const int32_t i : o_.c.kept)
      if (o_.MovesBoth(i)) batches *= std::max<int64_t>(1, o_.Extent(i));
    return Blocks() && !RowsShareLines() &&
           o_.Bytes(LaneOperand()) / batches > o_.view.request->target.l2_bytes / 2;
  }

  // A part of a convolution's sum, for a block of its results.
  struct Part {
    int32_t sum = -1;  // the index that is cut, into so many steps
    int64_t steps = 0;
    int32_t line = -1;  // the kept index around the rows, if there is one, and how many of it
    int64_t lines = 1;
    int64_t rows = 0;
    bool crowded = false;  // lines of rows would push each other out
  };

  // The index of a convolution's sum that is cut where it goes in parts, the longest; -1 if it
  // cannot.
  int32_t SumOfParts() const {
    const tc::ExprId lanes = LaneOperand();
    const std::vector<int32_t>& reduced = o_.c.reduced;
    if (reduced.size() < 2 || tile_.row < 0 || tile_.matrix || tile_.dot >= 0 ||
        o_.s.assign != tc::Assign::kSum || !IsFloat(o_.s.accumulate) ||
        !o_.Packable(lanes, tile_.lane) || o_.Uses(lanes, tile_.row) || o_.Extent(tile_.row) <= 0 ||
        std::ranges::any_of(
            reduced, [&](int32_t i) { return o_.Extent(i) <= 0; }) ||
        !std::ranges::all_of(o_.c.kept, [&](int32_t i) { return o_.IsShared(i); }))
      return -1;
    return *std::ranges::max_element(reduced, {}, [&](int32_t i) { return o_.Extent(i); });
  }

  // So many steps of the sum read lines of the rows' operand that the nearest cache keeps until the
  // next rows and taps want them: fewer than there are where those of planes lie in few of its
  // sets, unless parts of so few steps don't pay. A tile of eight lanes a register takes a step in
  // six cycles, in which the second cache would have to bring such a line beside the weights
  // (planes of a page took 1.5 to 1.9 times as long on Zen 3); sixteen lanes take twice as long. In
  // more than a few sets lines come back soon enough, unless weights come from the last cache.
  int64_t UncrowdedSteps(int32_t sum) const {
    constexpr int64_t kLeast = 8, kLeastOfPart = 32, kFew = 16;  // steps; with all taps
    const Target& target = o_.view.request->target;
    const int64_t extent = o_.Extent(sum);
    if (target.kind != TargetKind::kCpu || target.HasAvx512()) return extent;
    const int64_t kept = UncrowdedLines(target, o_.BytesBetween(RowOperand(), sum), extent),
                  steps = std::max(kept, kLeast);
    const double others = o_.Steps() / static_cast<double>(extent);  // as taps, for each of these
    const bool pays =
        2 * steps <= extent && others > 1 && static_cast<double>(steps) * others >= kLeastOfPart;
    const bool crowds = kept < extent && (kept <= kFew || PanelBytes() > target.l2_bytes);
    return crowds && pays ? steps : extent;
  }

  // Where the weights of a tile of lanes are more than the second cache holds beside the rest, each
  // row of results would take all of them from the last cache. With the sum in parts, those of a
  // part stay while lines of results pass by, whose accumulators wait in the cache meanwhile (1.02
  // to 1.45 on Zen 5; whole sums are 1.1 to 1.4 times as fast on Zen 3, which streams them well).
  // So do lines of rows that push each other out of the nearest cache.
  std::optional<Part> PartOf() const {
    const int64_t share = o_.view.request->target.l2_bytes / 4;
    const tc::ExprId lanes = LaneOperand();
    Part part{.sum = SumOfParts()};
    if (part.sum < 0 || share <= 0) return std::nullopt;
    const int64_t extent = o_.Extent(part.sum);
    const auto even = [&](int64_t parts) { return (extent + parts - 1) / parts; };
    const int64_t uncrowded = UncrowdedSteps(part.sum);
    part.crowded = uncrowded < extent;
    part.steps = even(even(uncrowded));  // so many parts, of about equal steps
    if (PanelBytes() > share && o_.view.request->target.HasAvx512()) {
      const int64_t parts = std::min((PanelBytes() + share - 1) / share, extent);
      part.steps = RoundUp(even(parts), o_.Vector());
    }
    if (part.steps >= extent) return std::nullopt;
    for (const int32_t i : o_.c.kept)
      if (i != tile_.lane && i != tile_.row && !o_.Uses(lanes, i) && o_.Extent(i) > 1)
        part.line = i;
    const int64_t row_bytes = tile_.shape.lanes * SizeBytes(o_.s.accumulate),
                  rows = o_.Extent(tile_.row), most = std::max(share / row_bytes, tile_.shape.rows),
                  blocks = (rows + most - 1) / most;
    part.rows = RoundUp((rows + blocks - 1) / blocks, tile_.shape.rows);
    const int64_t line_bytes = part.rows * row_bytes;
    if (tile_.shape.rows * row_bytes > share ||
        !o_.view.DividesBlock(o_.axes[part.sum], part.steps) ||
        !o_.view.DividesBlock(o_.axes[tile_.row], part.rows))
      return std::nullopt;
    if (part.line < 0) return part;
    const int64_t lines = o_.Extent(part.line),
                  threads = std::max(1, o_.view.request->target.threads);
    part.lines = std::clamp<int64_t>(share / line_bytes, 1, (lines + threads - 1) / threads);
    if (!o_.view.DividesBlock(o_.axes[part.line], part.lines)) return std::nullopt;
    return part;
  }

  int64_t BlockSize() const {
    if (!RowsShareLines()) return kSumBlock;
    const int64_t most = L1() * 2 / 5 / RowBytes() / kLeastBlock * kLeastBlock;
    return std::clamp(most, kLeastBlock, kSumBlock);
  }

  // Of the row operand, for one step of the reduction and the rows of a block.
  int64_t RowBytes() const {
    const int64_t rows = std::min(o_.Extent(tile_.row), tile_.shape.rows * kRowsPerBlock);
    return rows * SizeBytes(o_.program[RowOperand()].dtype);
  }

  bool RowsShareLines() const {
    const tc::Expr& x = o_.program[RowOperand()];
    return ContiguousIndex(*o_.view.request, o_.s, x.tensor, x.args) == tile_.row;
  }

  int64_t L1() const { return o_.view.request->target.l1_bytes; }

  // [axes that move both operands][blocks][other kept axes][parts of the sum][reduction axes in
  // their order][places in a block], of the operand that the index moves: in the order of the
  // loops.
  void AddPack(tc::ExprId read, int32_t index, int64_t block, Choice& choice) const {
    const bool copy = index == tile_.lane && tile_.copies && read == o_.Copied(index);
    if (!copy && !o_.Packable(read, index)) return;
    const std::string& name = o_.program[o_.program[read].tensor].name;
    const std::string& tensor = copy ? o_.view.request->copies.at(name) : name;
    if (std::ranges::any_of(choice.packs, [&](const Pack& p) { return p.tensor == tensor; }))
      return;
    Layout layout;
    std::vector<bool> placed(o_.program[read].args.size(), false);
    const auto place = [&](int32_t axis) {
      if (axis >= 0 && !placed[axis]) layout.axes.push_back({axis, 0});
      if (axis >= 0) placed[axis] = true;
    };
    const int32_t inner = o_.AxisOf(read, index),
                  dot = tile_.dot < 0 ? -1 : o_.AxisAlong(read, tile_.dot);
    const bool blocked = block < o_.Extent(index);
    placed[inner] = true;
    for (const int32_t i : o_.c.kept)
      if (o_.MovesBoth(i)) place(o_.AxisOf(read, i));
    if (blocked) layout.axes.push_back({inner, 0});
    for (const int32_t i : o_.c.kept) place(o_.AxisOf(read, i));
    const std::vector<int32_t> reduction = o_.ReductionOrder(tile_.lane);
    for (size_t a = 0; a < placed.size(); ++a) {  // what no index names alone stays outside
      const auto names = [&](int32_t i) { return o_.AxisOf(read, i) == static_cast<int32_t>(a); };
      if (!std::ranges::any_of(reduction, names)) place(static_cast<int32_t>(a));
    }
    const int32_t cut = part_ && read == LaneOperand() ? o_.AxisOf(read, part_->sum) : -1;
    if (cut >= 0) layout.axes.push_back({cut, 0});
    for (const int32_t i : reduction) {
      if (cut >= 0 && o_.AxisOf(read, i) == cut)
        layout.axes.push_back({cut, part_->steps});
      else
        place(o_.AxisOf(read, i));
    }
    layout.axes.push_back({inner, blocked ? block : 0});
    if (dot >= 0) layout.axes.push_back({dot, tile_.packed_steps});
    choice.packs.push_back({tensor, layout});
    // Only the lanes' panels follow one another; each waits for the memory if nobody asks for it.
    if (index == tile_.lane && blocked && !copy && IsFetched(read))
      choice.prefetches.push_back(tensor);
  }

  // Where lines of the last cache are for one row each, asking for them takes longer than it gains:
  // 0.75 to 0.79 of the speed; where an element has four bits, converting it takes longer.
  bool IsFetched(tc::ExprId read) const {
    const Target& target = o_.view.request->target;
    // Rows of one matrix pass at once, so that nothing is left to do while its successor comes.
    const bool once = tile_.row < 0 || (tile_.matrix && o_.Extent(tile_.row) <= tile_.shape.rows);
    return target.kind == TargetKind::kCpu &&
           (!once || o_.Bytes(read) >= target.l3_bytes / 2 || SharesBytes(o_.program[read].dtype) ||
            !o_.c.beside_w.empty());
  }

  // What later statements read of constants along the lanes, in the order of their loops.
  void AddPacksOfOthers(Choice& choice) const {
    const std::string& lane = o_.axes[tile_.lane];
    for (size_t k = 0; k < o_.view.statements.size(); ++k) {
      if (k == o_.view.anchor || !tc::Reduces(o_.view.At(k))) continue;
      const auto index = std::ranges::find(o_.view.axes[k], lane) - o_.view.axes[k].begin();
      for (const tc::ExprId read : tc::Reads(o_.program, o_.view.At(k))) {
        const std::string& tensor = o_.program[o_.program[read].tensor].name;
        const int32_t axis = o_.AxisOf(read, static_cast<int32_t>(index));
        const bool packed =
            std::ranges::any_of(choice.packs, [&](const Pack& p) { return p.tensor == tensor; });
        if (packed || !o_.Packable(read, static_cast<int32_t>(index))) continue;
        const bool blocked = tile_.shape.lanes < o_.Extent(tile_.lane);
        Layout layout;
        if (blocked) layout.axes.push_back({axis, 0});
        for (int32_t a = 0; a < static_cast<int32_t>(o_.program[read].args.size()); ++a)
          if (a != axis) layout.axes.push_back({a, 0});
        layout.axes.push_back({axis, blocked ? tile_.shape.lanes : 0});
        choice.packs.push_back({tensor, layout});
        if (blocked && o_.view.request->target.kind == TargetKind::kCpu)
          choice.prefetches.push_back(tensor);
      }
    }
  }

  const Operands& o_;
  const RegisterTile tile_;
  std::optional<Part> part_;
  Cluster cluster_;
};

}  // namespace

std::optional<std::pair<size_t, int64_t>> ShorterSums(const std::vector<int64_t>& extents,
                                                      int64_t most, int64_t terms) {
  int64_t inside = 1;
  for (size_t k = extents.size(); k-- > 0;) {
    const int64_t extent = extents[k];
    if (extent <= 0) return std::nullopt;
    if (inside * extent < most) {
      inside *= extent;
      continue;
    }
    const int64_t blocks = (inside * extent + terms - 1) / terms,
                  points = (extent + blocks - 1) / blocks;
    if (points < 2 || points >= extent) return std::nullopt;
    return std::pair(k, points);
  }
  return std::nullopt;
}

Kinds NearKinds(const ClusterView& view) {
  const auto contraction = AsContraction(view.program(), view.At(view.anchor));
  return contraction ? NearKinds(Operands(view, *contraction)) : Kinds{};
}

std::optional<Cluster> ContractionCluster(const ClusterView& view, int variant, Choice& choice) {
  const auto contraction = AsContraction(view.program(), view.At(view.anchor));
  if (!contraction) return std::nullopt;
  const Operands operands(view, *contraction);
  const std::optional<RegisterTile> tile = ChooseRegisterTile(operands, variant / 2);
  if (!tile || (tile->copies && DotCycles(view) < tile->cycles)) return std::nullopt;
  return LoopMaker(operands, *tile).Run(variant % 2 == 1, choice);
}

}  // namespace weft::polyhedral
