// Contractions and convolutions: a tile of accumulators in registers.
//
// Rows times lanes of the output are kept in registers while the reduction runs. Per step of it, an
// operand costs a load for each vector of lanes (or one broadcast, if lanes don't move it) times the rows
// that move it. The tile is the one whose steps take the fewest cycles over the whole output, tails
// included: two multiply-adds and two loads a cycle, a latency of four cycles.
#include <algorithm>
#include <limits>

#include "polyhedral/axes.h"
#include "polyhedral/propose/propose.h"
#include "polyhedral/tree.h"

namespace weft::polyhedral {
namespace {

bool UsesIndex(const tc::Program& program, tc::ExprId read, int32_t index) {
  for (const tc::ExprId sub : program[read].args) {
    const auto e = tc::AsAffine(program, sub);
    if (e && e->Uses(index)) return true;
  }
  return false;
}

struct TileShape {
  int64_t rows = 1, lanes = 1;           // lanes in elements
};

// What the two operands need per step of the reduction.
struct Loads {
  bool x_lanes = false, x_rows = false, w_lanes = false, w_rows = false;
  double operator()(int64_t rows, int64_t vectors) const {
    const auto count = [&](bool lanes, bool by_rows) { return (lanes ? vectors : 1) * (by_rows ? rows : 1); };
    return static_cast<double>(count(x_lanes, x_rows) + count(w_lanes, w_rows));
  }
};

double Cycles(const Loads& loads, int64_t rows, int64_t vectors) {
  const double fmas = static_cast<double>(rows * vectors);
  return std::max({fmas / 2, loads(rows, vectors) / 2, 4.0});
}

// Over an output of m rows and n elements of lanes, by tiles with exact tails.
double TotalCycles(const Loads& loads, TileShape tile, int64_t m, int64_t n, int64_t vector) {
  const auto vectors = [&](int64_t lanes) { return (lanes + vector - 1) / vector; };
  const int64_t tail_rows = m % tile.rows, tail_lanes = n % tile.lanes;
  double total = static_cast<double>((m / tile.rows) * (n / tile.lanes)) *
                 Cycles(loads, tile.rows, vectors(tile.lanes));
  if (tail_rows) total += static_cast<double>(n / tile.lanes) * Cycles(loads, tail_rows, vectors(tile.lanes));
  if (tail_lanes) {
    total += static_cast<double>(m / tile.rows) * Cycles(loads, tile.rows, vectors(tail_lanes));
    if (tail_rows) total += Cycles(loads, tail_rows, vectors(tail_lanes));
  }
  return total;
}

std::vector<TileShape> RankTiles(const Target& target, const Loads& loads, int64_t m, int64_t n, int64_t vector) {
  // One register a broadcast, the vectors of one operand, the rest accumulators.
  const int64_t registers = target.VectorRegisters();
  std::vector<std::pair<double, TileShape>> ranked;
  for (int64_t nv = 1; nv <= 4; ++nv) {
    const int64_t most = std::min<int64_t>(registers == 32 ? 26 : 12, registers - nv - 1) / nv;
    for (int64_t rows = 1; rows <= std::min(most, m); ++rows) {
      const TileShape tile{rows, std::min(n, nv * vector)};
      if (tile.lanes > 64) continue;
      // Among equals the larger tile: fewer loop iterations.
      const double cycles = TotalCycles(loads, tile, m, n, vector) * (1 + 0.02 / static_cast<double>(rows * nv));
      ranked.push_back({cycles, tile});
    }
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  std::vector<TileShape> tiles;
  for (const auto& [cycles, tile] : ranked) tiles.push_back(tile);
  return tiles;
}

class Maker {
 public:
  Maker(const ClusterView& view, const Contraction& c)
      : view_(view), c_(c), program_(view.program()), s_(view.At(view.anchor)), axes_(view.axes[view.anchor]) {}

  std::optional<Cluster> Run(int variant, std::vector<Pack>& packs) {
    if (!ChooseLane()) return std::nullopt;
    ChooseRows();
    const Loads loads{UsesIndex(program_, c_.x, lane_), row_ >= 0 && UsesIndex(program_, c_.x, row_),
                      UsesIndex(program_, c_.w, lane_), row_ >= 0 && UsesIndex(program_, c_.w, row_)};
    const int64_t vector = view_.request->target.VectorBytes() / SizeBytes(s_.accumulate);
    const int64_t m = row_ >= 0 ? Extent(row_) : 1, n = Extent(lane_);
    const std::vector<TileShape> tiles = RankTiles(view_.request->target, loads, m, n, vector);
    if (tiles.empty()) return std::nullopt;
    const size_t pick = std::min<size_t>(static_cast<size_t>(variant / 2), tiles.size() - 1);
    Fill(tiles[pick], variant % 2 == 1);
    AddPack(tiles[pick], packs);
    return cluster_;
  }

 private:
  int64_t Extent(int32_t index) const {
    const Affine e = s_.indices[index].hi - s_.indices[index].lo;
    return e.IsConstant() ? e.constant() : 0;
  }
  bool IsConstant(tc::ExprId read) const {
    return std::ranges::count(view_.request->constants, program_[program_[read].tensor].name) > 0;
  }
  // A constant that can be packed so that this index is innermost: it stands alone in a subscript.
  bool Packable(tc::ExprId read, int32_t index) const {
    if (!IsConstant(read)) return false;
    return std::ranges::any_of(program_[read].args, [&](tc::ExprId sub) {
      const auto e = tc::AsAffine(program_, sub);
      return e && e->AsVar() == index;
    });
  }
  bool Streams(tc::ExprId read, int32_t index) const {
    if (!UsesIndex(program_, read, index) || Packable(read, index)) return true;
    const tc::Expr& e = program_[read];
    return ContiguousIndex(*view_.request, s_, e.tensor, e.args) == index;
  }

  // The output's contiguous axis, if both operands can be loaded along it.
  bool ChooseLane() {
    const tc::Statement& last = view_.At(view_.statements.size() - 1);
    const int32_t out = ContiguousIndex(*view_.request, last, last.target, last.subscripts);
    if (out < 0) return false;
    const auto found = std::ranges::find(axes_, view_.axes.back()[out]);
    if (found == axes_.end()) return false;
    lane_ = static_cast<int32_t>(found - axes_.begin());
    if (s_.indices[lane_].reduction || Extent(lane_) < 2) return false;
    return Streams(c_.x, lane_) && Streams(c_.w, lane_);
  }

  // The kept index that moves one operand and leaves the lanes' operand where it is: its loads are used
  // again. The longest such; with equal length the innermost.
  void ChooseRows() {
    const bool w_has_lanes = UsesIndex(program_, c_.w, lane_);
    const tc::ExprId streamed = w_has_lanes ? c_.w : c_.x;
    for (const int32_t i : c_.kept) {
      if (i == lane_ || Extent(i) < 2 || UsesIndex(program_, streamed, i)) continue;
      if (row_ < 0 || std::min<int64_t>(Extent(i), 24) >= std::min<int64_t>(Extent(row_), 24)) row_ = i;
    }
    if (row_ >= 0) return;
    for (const int32_t i : c_.kept) {    // depthwise: rows still hide latency
      if (i != lane_ && Extent(i) >= 2 && !(UsesIndex(program_, c_.x, i) && UsesIndex(program_, c_.w, i))) row_ = i;
    }
  }

  int64_t Bytes(tc::ExprId read) const {
    const auto shape = tc::StaticExtents(program_[program_[read].tensor]);
    int64_t bytes = SizeBytes(program_[read].dtype);
    for (const int64_t n : shape.value_or(Shape{})) bytes *= n;
    return bytes;
  }

  // Lanes outside keeps a panel of one operand in the cache while the other streams by, once for each
  // panel; rows outside the other way round. Whichever moves fewer bytes into the cache.
  bool LanesOutside(const TileShape& tile) const {
    const int64_t half = view_.request->target.l2_bytes / 2;
    const bool w_lanes = UsesIndex(program_, c_.w, lane_);
    const int64_t lane_bytes = Bytes(w_lanes ? c_.w : c_.x), row_bytes = Bytes(w_lanes ? c_.x : c_.w);
    const int64_t panels = (Extent(lane_) + tile.lanes - 1) / tile.lanes;
    int64_t places = 1;
    for (const int32_t i : c_.kept) {
      if (i != lane_) places *= std::max<int64_t>(1, Extent(i));
    }
    places = std::max<int64_t>(1, places / tile.rows);
    const int64_t outside = lane_bytes + (row_bytes > half ? panels * row_bytes : row_bytes);
    const int64_t inside = row_bytes + (lane_bytes > half ? places * lane_bytes : lane_bytes);
    return outside < inside;
  }

  void Fill(const TileShape& tile, bool swap_order) {
    const std::vector<std::string> names = StatementNames(program_);
    for (const int32_t s : view_.statements) cluster_.statements.push_back(names[s]);
    const std::string lane = axes_[lane_];
    const bool outside = LanesOutside(tile) != swap_order;
    // Axes that move both operands come first: nothing is used again across them.
    for (const int32_t i : c_.kept) {
      const bool both = UsesIndex(program_, c_.x, i) && UsesIndex(program_, c_.w, i);
      if (i != lane_ && i != row_ && (both || Extent(i) == 0)) cluster_.order.push_back(axes_[i]);
    }
    if (outside) cluster_.order.push_back(lane);
    for (const int32_t i : c_.kept) {
      const bool placed = std::ranges::count(cluster_.order, axes_[i]) > 0;
      if (i != lane_ && i != row_ && !placed) cluster_.order.push_back(axes_[i]);
    }
    if (row_ >= 0) {
      cluster_.order.push_back(axes_[row_]);
      cluster_.tiles.push_back({axes_[row_], {tile.rows}});
      cluster_.unroll.push_back(axes_[row_]);
    }
    if (!outside) cluster_.order.push_back(lane);
    cluster_.tiles.push_back({lane, {tile.lanes}});
    cluster_.vector_axis = lane;
    cluster_.vector_lanes = tile.lanes;
    for (const int32_t i : ReductionOrder()) cluster_.inner.push_back(axes_[i]);
    cluster_.parallel = ParallelPrefix(view_, cluster_);
  }

  // The reduction index along which x is contiguous runs innermost.
  std::vector<int32_t> ReductionOrder() const {
    std::vector<int32_t> order = c_.reduced;
    const tc::Expr& x = program_[UsesIndex(program_, c_.w, lane_) ? c_.x : c_.w];
    const auto sub = x.args.empty() ? std::nullopt : tc::AsAffine(program_, x.args[Innermost(x)]);
    if (!sub) return order;
    std::ranges::stable_partition(order, [&](int32_t i) { return sub->AsVar() != i; });
    return order;
  }

  size_t Innermost(const tc::Expr& read) const {
    const auto found = view_.request->layouts.find(program_[read.tensor].name);
    return found == view_.request->layouts.end() ? read.args.size() - 1 : found->second.axes.back().axis;
  }

  // [blocks of lanes][other kept axes][reduction axes in their order][lanes of a block]
  void AddPack(const TileShape& tile, std::vector<Pack>& packs) {
    const tc::ExprId read = UsesIndex(program_, c_.w, lane_) ? c_.w : c_.x;
    if (!Packable(read, lane_)) return;
    const std::string& tensor = program_[program_[read].tensor].name;
    if (std::ranges::any_of(packs, [&](const Pack& p) { return p.tensor == tensor; })) return;
    const auto axis_of = [&](int32_t index) {
      for (size_t a = 0; a < program_[read].args.size(); ++a) {
        const auto e = tc::AsAffine(program_, program_[read].args[a]);
        if (e && e->AsVar() == index) return static_cast<int32_t>(a);
      }
      return -1;
    };
    Layout layout;
    std::vector<bool> placed(program_[read].args.size(), false);
    const auto place = [&](int32_t axis) {
      if (axis < 0 || placed[axis]) return;
      placed[axis] = true;
      layout.axes.push_back({axis, 0});
    };
    const int32_t lane = axis_of(lane_);
    const bool blocked = tile.lanes < Extent(lane_);
    if (blocked) place(lane);
    placed[lane] = true;
    for (const int32_t i : c_.kept) place(axis_of(i));
    const std::vector<int32_t> reduction = ReductionOrder();
    for (size_t a = 0; a < placed.size(); ++a) {   // what no index names alone stays outside
      const bool plain = std::ranges::any_of(reduction, [&](int32_t i) { return axis_of(i) == static_cast<int32_t>(a); });
      if (!plain) place(static_cast<int32_t>(a));
    }
    for (const int32_t i : reduction) place(axis_of(i));
    layout.axes.push_back({lane, blocked ? tile.lanes : 0});
    packs.push_back({tensor, layout});
  }

  const ClusterView& view_;
  const Contraction& c_;
  const tc::Program& program_;
  const tc::Statement& s_;
  const std::vector<std::string>& axes_;
  Cluster cluster_;
  int32_t lane_ = -1, row_ = -1;
};

}  // namespace

std::optional<Cluster> ContractionCluster(const ClusterView& view, int variant, std::vector<Pack>& packs) {
  const auto contraction = AsContraction(view.program(), view.At(view.anchor));
  if (!contraction) return std::nullopt;
  return Maker(view, *contraction).Run(variant, packs);
}

}  // namespace weft::polyhedral
