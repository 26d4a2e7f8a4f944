#include "polyhedral/propose/register_tile.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "polyhedral/loops/matrix_tiles.h"

namespace weft::polyhedral {
namespace {

// Cycles for an output element that does not leave in a vector: extract and store, bias and
// residual loaded likewise.
constexpr double kScattered = 3;
// The same where rows of the tile lie side by side instead: they are transposed in registers.
constexpr double kTransposed = 0.5;
// And where they are part of a line, and lines of the lanes push each other out before the rest of
// them comes: each is fetched and written back for every part (a 1x1 convolution from 24 channels
// to 480 planes of 4 KB took 8 times as long). Those of the few lanes that a tile has without
// AVX-512 come back from the second cache.
constexpr double kCrowdedStore = 8, kFewCrowdedStore = 3;
// Lanes along a padded axis mask what they load at both ends: with registers for masks, and with
// vectors of them and a blend for each step.
constexpr double kMasked = 1.25, kBlended = 2;
// Steps that each read another page wait for its translation, and for lines of one set.
constexpr double kLeaping = 1.12;

// From here on there are rows enough for blocks of a sum (contraction.cpp), whatever the tile.
constexpr int64_t kManyRows = 32;

// What a panel of another width has to gain.
constexpr double kOtherPanel = 0.05;

// What the model may err by between kinds of tiles.
constexpr double kNear = 1.6;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The kept index that moves one operand and leaves the lanes' operand where it is, so that its
// loads are used again; the longest, then the innermost.
int32_t RowFor(const Operands& o, int32_t lane) {
  const tc::ExprId streamed = o.Streamed(lane);
  int32_t row = -1;
  const auto better = [&](int32_t i) {
    return row < 0 || std::min<int64_t>(o.Extent(i), 24) >= std::min<int64_t>(o.Extent(row), 24);
  };
  for (const int32_t i : o.c.kept) {
    if (i != lane && o.Extent(i) >= 2 && o.IsShared(i) && !o.Uses(streamed, i) && better(i))
      row = i;
  }
  if (row >= 0) return row;
  for (const int32_t i : o.c.kept) {  // depthwise: rows still hide latency
    if (i != lane && o.Extent(i) >= 2 && o.IsShared(i) && !o.MovesBoth(i)) row = i;
  }
  return row;
}

// Rows of a group of channels read the same elements of what the lanes move along.
int64_t RowsOfGroup(const Operands& o, int32_t lane, int32_t row) {
  return row >= 0 ? o.StepsToMove(o.Streamed(lane), row) : 1;
}

// Loads of pairs of bfloat16. Those that lie apart are joined: by integer units, which have
// nothing else to do, if the pair is the same in all lanes.
int64_t PairLoads(const Operands& o, tc::ExprId read, int32_t lane, int32_t row) {
  const int32_t moved = o.Uses(read, lane) ? lane : row;
  const bool packed = moved >= 0 && o.Packable(read, moved);
  if (packed || o.Adjacent(read, o.ReductionOrder(lane).back())) return 1;
  return o.Uses(read, lane) ? 4 : 2;
}

OperandMoves MovesOf(const Operands& o, int32_t lane, int32_t row) {
  const bool loads_once = TapAcrossRows(o, lane, row) >= 0;
  const auto by_row = [&](tc::ExprId read) {
    const bool shares = RowsOfGroup(o, lane, row) > 1 && read == o.Streamed(lane);
    return row >= 0 && o.Uses(read, row) && !shares && !loads_once;
  };
  OperandMoves moves{o.Uses(o.c.x, lane), by_row(o.c.x), o.Uses(o.c.w, lane), by_row(o.c.w)};
  if (moves.x_lanes != moves.w_lanes && o.Packable(o.Streamed(lane), lane)) {
    moves.steps = o.Steps();
    moves.lane_bytes = SizeBytes(o.program[o.Streamed(lane)].dtype);
    if (o.c.reduced.size() == 1 && row >= 0 && o.Extent(row) >= kManyRows &&
        moves.steps >= 2 * kSumBlock)
      moves.block = kSumBlock;
  }
  if (row >= 0 && !o.Packable(o.Broadcast(lane), row))
    moves.row_bytes = o.BytesBetween(o.Broadcast(lane), row);
  if (o.IsNarrow() && IsFloat(o.s.accumulate) && !o.Flushes())
    moves.parts = 2, moves.spare = 3;  // halves
  if (o.Flushes())
    moves.x_loads = PairLoads(o, o.c.x, lane, row), moves.w_loads = PairLoads(o, o.c.w, lane, row);
  if (o.IsNarrow() && IsInteger(o.s.accumulate) && !HasDotProducts(o.view.request->target.isa))
    moves.spare = 2;  // products, before they are added
  return moves;
}

// Cycles for an element.
double StoreCycles(const Operands& o, int32_t lane, int32_t row, const TileShape& tile) {
  const int64_t rows = tile.rows;
  const int32_t output = o.OutputLane();
  if (lane == output) return 1 / static_cast<double>(o.Vector());
  if (row < 0 || row != output) return kScattered;
  const int64_t whole = RoundUp(rows, 16 / o.ResultBytes());  // 128 bits of rows
  const double turned = kTransposed * static_cast<double>(whole) / static_cast<double>(rows);
  const double fetched = o.view.request->target.HasAvx512() ? kCrowdedStore : kFewCrowdedStore;
  return turned + fetched * static_cast<double>(LinesLost(o, lane, row, rows, tile.lanes)) /
                      static_cast<double>(tile.lanes);
}

// Whether the steps of a sum without taps push lines of rows out of the nearest cache before the
// next rows want them; a sum with taps goes in parts (contraction.cpp).
bool StepsCrowd(const Operands& o, int32_t lane, int32_t row) {
  const Target& target = o.view.request->target;
  const tc::ExprId rows = o.Broadcast(lane);
  if (target.kind != TargetKind::kCpu || target.HasAvx512() || row < 0 || o.Packable(rows, row))
    return false;
  const int32_t step = o.ReductionOrder(lane).back();
  const int64_t apart = o.BytesBetween(rows, step), extent = o.Extent(step);
  return o.Steps() <= static_cast<double>(extent) && UncrowdedLines(target, apart, extent) < extent;
}

// Cycles in which a step of a tile waits for lines from the second cache, where each step of a sum
// is in another line, and there is a copy to choose instead: of lanes that are loaded where they
// lie, of which the nearest cache does not keep much from one tile of rows to the next, and beside
// lanes of a copy of rows that lie side by side. (With AVX2, products of 96 rows by 512x197 floats:
// 6x16 takes 0.8 of the time of 4x24, of which each step is in another line more, and a packed copy
// 0.8 of that of 6x16.)
double WaitForLines(const Operands& o, int32_t lane, int32_t row, const TileShape& tile,
                    bool copies) {
  constexpr double kLine = 0.6;
  constexpr int64_t kMuch = 2;
  const Target& target = o.view.request->target;
  const tc::ExprId lanes = o.Streamed(lane), rows = o.Broadcast(lane);
  if (target.kind != TargetKind::kCpu || target.HasAvx512() || o.c.reduced.size() != 1 ||
      o.MovesBoth(lane) || row < 0 || !o.Copied(lane).valid() || o.Packable(rows, row))
    return 0;
  // Of so many elements side by side, which begin anywhere in a line; none if steps share it.
  const auto lines = [&](tc::ExprId read, int64_t count) {
    const int64_t apart = o.BytesBetween(read, o.c.reduced[0]),
                  bytes = count * SizeBytes(o.program[read].dtype);
    const int64_t within = std::gcd(std::gcd(apart, bytes), kLineBytes);
    return apart < kLineBytes ? 0 : static_cast<double>(bytes + kLineBytes - within) / kLineBytes;
  };
  double batches = 1;
  for (const int32_t i : o.c.kept)
    if (o.MovesBoth(i)) batches *= static_cast<double>(std::max<int64_t>(1, o.Extent(i)));
  const auto near = static_cast<double>(target.l1_bytes);
  if (!copies)
    return static_cast<double>(o.Bytes(lanes)) / batches > kMuch * near
               ? kLine * lines(lanes, tile.lanes)
               : 0;
  const int64_t panel = tile.lanes * SizeBytes(o.program[lanes].dtype) + kLineBytes;
  return o.Steps() * static_cast<double>(panel) > near ? kLine * lines(rows, tile.rows) : 0;
}

// Tiles of registers with `width` lanes each, of those that the lanes' blocks and `fits` allow.
template <typename F>
void AddTiles(const Operands& o, const OperandMoves& moves, int32_t lane, int32_t row,
              int64_t width, F fits, std::vector<RegisterTile>& options) {
  const Target& target = o.view.request->target;
  const int64_t m = row >= 0 ? o.Extent(row) : 1, n = o.Extent(lane),
                group = RowsOfGroup(o, lane, row);
  const bool shares = UnrollsTaps(o, lane) || TapAcrossRows(o, lane, row) >= 0;
  const int64_t most = target.VectorRegisters() / (shares ? 2 : 1);
  const bool streams = o.Streams(o.c.x, lane) && o.Streams(o.c.w, lane);
  const tc::ExprId streamed = o.Streamed(lane), copied = o.Copied(lane);
  // Lanes of a group that share an element mask nothing. With taps they load each for one tap
  // alone, where lanes along places load it for several (0.8 of the speed for eight channels a
  // group of 56x56).
  const bool same_element = !moves.x_lanes && o.c.reduced.size() == 1;
  const bool windowed = (!same_element && o.IsWindow(o.c.x, lane)) || o.IsWindow(o.c.w, lane);
  const double padded = !windowed ? 1 : target.HasAvx512() ? kMasked : kBlended;
  const bool waits = o.LeapsPages(o.Broadcast(lane), lane) || StepsCrowd(o, lane, row);
  for (const TileShape& tile : RankTiles(target, moves, m, n, width, most)) {
    const bool ends = o.view.DividesBlock(o.axes[lane], tile.lanes) &&
                      (row < 0 || o.view.DividesBlock(o.axes[row], tile.rows)) &&
                      (group == 1 || group % tile.rows == 0);
    if (!ends || !fits(tile.lanes)) continue;
    const double step = tile.cycles + (moves.crowded ? tile.far : 0);
    double steps = step * o.Steps() * padded / static_cast<double>(m * n);
    const double store = StoreCycles(o, lane, row, tile);
    if (waits) steps *= kLeaping;
    const int64_t count = RoundUp(m, tile.rows) / tile.rows * (RoundUp(n, tile.lanes) / tile.lanes);
    const auto wait = [&](bool copies) {
      return WaitForLines(o, lane, row, tile, copies) * o.Steps() * static_cast<double>(count) /
             static_cast<double>(m * n);
    };
    if (streams) {
      const double leaps = o.LeapsPages(streamed, lane) ? kLeaping : 1;
      options.push_back({lane, row, tile, steps * leaps + wait(false) + store, false});
    }
    if (copied.valid())
      options.push_back({lane, row, tile, steps + wait(true) + store + o.CopyCycles(copied), true});
  }
}

// Steps of a sum of bytes or bfloat16 that make up 32 bits of a matrix's row; 0: of none.
int64_t StepsOfQuad(const Operands& o) {
  const auto is_byte = [&](tc::ExprId read) {
    return o.program[read].dtype == Dtype::kI8 || o.program[read].dtype == Dtype::kU8;
  };
  if (!HasMatrixProducts(o.view.request->target.isa) || !o.IsNarrow()) return 0;
  if (o.Flushes()) return 2;
  return is_byte(o.c.x) && is_byte(o.c.w) ? 4 : 0;
}

// Steps that a dot product of a matrix takes: of bytes, whose order is free, those of 32 bits.
int64_t DotOfMatrix(const Operands& o, int32_t along) {
  const int64_t steps = StepsOfQuad(o);
  return o.Flushes() ? steps * loops::MatrixTiles::QuadsAtOnce(o.Extent(along) / steps) : steps;
}

// Whether those along a reduced index lie as instructions for matrices want them: those of the
// rows' operand as they are, those of the lanes' after packing. Guards are for single lanes and
// rows.
bool MultipliesMatrices(const Operands& o, int32_t lane, int32_t row, int32_t along) {
  const int64_t steps = StepsOfQuad(o);
  const tc::ExprId rows = o.Broadcast(lane);
  if (steps == 0 || tc::AsGuarded(o.program, o.s.value)) return false;
  if (o.Flushes() && o.Extent(along) % steps != 0) return false;
  const bool moves_rows =
      row < 0 || (o.Extent(row) > 0 && !o.Uses(o.Streamed(lane), row) && !o.Packable(rows, row));
  return moves_rows && !o.MovesBoth(lane) && o.Adjacent(rows, along) && o.Extent(along) >= steps &&
         o.view.DividesBlock(o.axes[along], DotOfMatrix(o, along));
}

void AddMatrixTiles(const Operands& o, int32_t lane, int32_t row,
                    std::vector<RegisterTile>& options) {
  const int32_t along = o.ReductionOrder(lane).back();
  if (!MultipliesMatrices(o, lane, row, along)) return;
  const tc::ExprId copied = o.Copied(lane);
  const bool packs = o.Packable(o.Streamed(lane), lane);
  if (!packs && !copied.valid()) return;
  const int64_t m = row >= 0 ? o.Extent(row) : 1, n = o.Extent(lane);
  const double taps = o.Steps() / static_cast<double>(o.Extent(along));
  for (const TileShape& tile : RankMatrixTiles(m, n, o.Extent(along) / StepsOfQuad(o), taps)) {
    const bool ends = o.view.DividesBlock(o.axes[lane], tile.lanes) &&
                      (row < 0 || o.view.DividesBlock(o.axes[row], tile.rows));
    if (!ends) continue;
    const double cycles = tile.cycles * o.Steps() / static_cast<double>(m * n) +
                          StoreCycles(o, lane, row, tile) + (packs ? 0 : o.CopyCycles(copied));
    options.push_back({lane, row, tile, cycles, !packs, true});
  }
}

void AddOptions(const Operands& o, int32_t lane, int32_t row, std::vector<RegisterTile>& options) {
  OperandMoves moves = MovesOf(o, lane, row);
  const int64_t steps = o.StepsToMove(o.c.x, lane);
  if (steps > 1) {  // a tile of lanes that all read the same element of x
    OperandMoves same = moves;
    same.x_lanes = false;
    const auto fits = [&](int64_t lanes) { return steps % lanes == 0; };
    AddTiles(o, same, lane, row, std::min(o.Vector(), steps), fits, options);
    moves.x_loads = 3;  // a row and its permutation, which has one port
  }
  // As many loads, and permutations that pick from two registers.
  if (const int64_t stride = o.StrideOf(o.Streamed(lane), lane); stride > 1) {
    const tc::ExprId streamed = o.Streamed(lane);
    const int64_t apart = o.BytesBetween(streamed, o.ReductionOrder(lane).back());
    (streamed == o.c.x ? moves.x_loads : moves.w_loads) = 2 * stride - 1;
    moves.spare += 2;
    moves.steps = o.Steps(), moves.lane_bytes = stride * SizeBytes(o.program[streamed].dtype);
    moves.crowded =
        CrowdOf(o.view.request->target, apart, static_cast<int64_t>(moves.steps)).lines > 0;
  }
  AddTiles(o, moves, lane, row, o.Vector(), [](int64_t) { return true; }, options);
  AddMatrixTiles(o, lane, row, options);
}

// Eight elements of four bits that lie side by side are one load for each lane.
void ChooseNibbles(const Operands& o, RegisterTile& tile) {
  constexpr int64_t kOfLane = 8;
  const int32_t along = o.ReductionOrder(tile.lane).back();
  if (o.view.request->target.kind != TargetKind::kCpu || !o.c.beside_w.empty() ||
      !SharesBytes(o.program[o.Streamed(tile.lane)].dtype))
    return;
  if (!o.Packable(o.Streamed(tile.lane), tile.lane) ||
      o.AxisAlong(o.Streamed(tile.lane), along) < 0)
    return;
  if (o.Extent(along) % kOfLane != 0 || !o.view.DividesBlock(o.axes[along], kOfLane)) return;
  tile.dot = along;
  tile.dot_steps = tile.packed_steps = kOfLane;
}

void ChooseDot(const Operands& o, RegisterTile& tile) {
  if (tile.matrix) {
    tile.dot = o.ReductionOrder(tile.lane).back();
    tile.dot_steps = DotOfMatrix(o, tile.dot);
    tile.packed_steps = StepsOfQuad(o);
    return;
  }
  const tc::Expr &lanes = o.program[o.Streamed(tile.lane)],
                 &rows = o.program[o.Broadcast(tile.lane)];
  if (!o.IsNarrow() || UnrollsTaps(o, tile.lane)) return;
  const int32_t steps_along = o.ReductionOrder(tile.lane).back();
  const bool packed = tile.row >= 0 && o.Packable(o.Broadcast(tile.lane), tile.row);
  if (!o.Flushes() && !packed && !o.Adjacent(o.Broadcast(tile.lane), steps_along)) return;
  const bool bytes = HasDotProducts(o.view.request->target.isa) &&
                     ((lanes.dtype == Dtype::kI8 && rows.dtype == Dtype::kU8) ||
                      (lanes.dtype == Dtype::kU8 && rows.dtype == Dtype::kI8));
  const int64_t extent = o.Extent(steps_along), steps = bytes && extent >= 4 ? 4 : 2;
  if (extent < steps || !o.view.DividesBlock(o.axes[steps_along], steps)) return;
  tile.dot = steps_along;
  tile.dot_steps = tile.packed_steps = steps;
}

// What lanes and rows run along, whether lanes are copied, multiplied as matrices, read one
// element.
using Kind = std::tuple<int32_t, int32_t, bool, bool, bool>;
Kind KindOf(const Operands& o, const RegisterTile& t) {
  const int64_t steps = o.StepsToMove(o.c.x, t.lane);
  return {t.lane, t.row, t.copies, t.matrix, steps > 1 && t.shape.lanes <= steps};
}

// Of each kind the tile of the fewest cycles, waits apart.
std::map<Kind, RegisterTile> LeastOfKinds(const Operands& o,
                                          const std::vector<RegisterTile>& options) {
  std::map<Kind, RegisterTile> least;
  for (const RegisterTile& t : options) {
    RegisterTile& best = least.try_emplace(KindOf(o, t), t).first->second;
    if (t.cycles < best.cycles) best = t;
  }
  return least;
}

// Tiles of one kind differ little, and the model is surer about them than about kinds: the best of
// each kind first. How many kinds there are.
size_t BestOfKindsFirst(const Operands& o, std::vector<RegisterTile>& options) {
  const std::map<Kind, RegisterTile> least = LeastOfKinds(o, options);
  std::set<Kind> seen;
  const auto others = std::ranges::stable_partition(
      options, [&](const RegisterTile& t) { return seen.insert(KindOf(o, t)).second; });
  std::stable_sort(options.begin(), others.begin(), [&](const auto& a, const auto& b) {
    return least.at(KindOf(o, a)).cycles < least.at(KindOf(o, b)).cycles;
  });
  return seen.size();
}

// All tiles there are, by cycles.
std::vector<RegisterTile> RegisterTiles(const Operands& o) {
  std::vector<RegisterTile> options;
  const int32_t output = o.OutputLane();
  for (const int32_t lane : o.c.kept) {
    if (!o.IsShared(lane)) continue;
    const auto streams = [&](tc::ExprId read) {
      return o.Streams(read, lane) || read == o.Copied(lane);
    };
    if (o.Extent(lane) < 2 || !streams(o.c.x) || !streams(o.c.w)) continue;
    if (!o.Uses(o.c.x, lane) && !o.Uses(o.c.w, lane)) continue;
    const int32_t row = RowFor(o, lane);
    AddOptions(o, lane, row, options);
    for (const int32_t i : o.c.kept) {
      if (i == lane || i == row || !o.IsShared(i)) continue;
      if ((i == output && o.Extent(i) > 1) || RowsOfGroup(o, lane, i) > 1)
        AddOptions(o, lane, i, options);
    }
  }
  for (RegisterTile& t : options) {
    const int64_t rows = t.row >= 0 ? o.Extent(t.row) : 1;
    t.far = t.shape.far * o.Steps() / static_cast<double>(rows * o.Extent(t.lane));
  }
  // A product's number of rows is often that of a run: plans for others share panels of one width.
  if (o.c.reduced.size() == 1) {
    const std::map<Kind, RegisterTile> least = LeastOfKinds(o, options);
    for (RegisterTile& t : options)
      if (t.shape.lanes != least.at(KindOf(o, t)).shape.lanes) t.far += kOtherPanel * t.cycles;
  }
  std::ranges::stable_sort(options, {}, [](const RegisterTile& t) { return t.cycles + t.far; });
  return options;
}

// Whether all that a statement sums over are taps of windows of one operand: nothing of channels.
bool SumsTapsAlone(const tc::Program& program, const tc::Statement& s) {
  const auto reduced = std::ranges::count_if(s.indices, [](const auto& i) { return i.reduction; });
  return std::ranges::any_of(tc::Reads(program, s), [&](tc::ExprId read) {
    std::set<int32_t> taps;
    for (const Subscript& at : Classify(program, s, program[read].args).subscripts)
      for (const int32_t i : at.indices)
        if (SlidesAlong(s, at) && s.indices[i].reduction) taps.insert(i);
    return std::ssize(taps) == reduced;
  });
}

}  // namespace

int64_t LinesLost(const Operands& o, int32_t lane, int32_t row, int64_t rows, int64_t lanes) {
  const Target& target = o.view.request->target;
  const bool fill = rows * o.ResultBytes() >= kLineBytes || rows >= o.Extent(row);
  if (fill || target.kind != TargetKind::kCpu) return 0;
  return CrowdOf(target, o.BytesBetweenResults(lane), lanes).too_many;
}

bool UnrollsTaps(const Operands& o, int32_t lane) {
  return o.MovesBoth(lane) && o.StepsToMove(o.c.x, lane) == 1 && o.StepsToMove(o.c.w, lane) == 1;
}

int32_t TapAcrossRows(const Operands& o, int32_t lane, int32_t row) {
  constexpr int64_t kMostTaps = 8;  // with nine, 0.65 of the speed
  if (row < 0 || o.Uses(o.c.w, lane) || o.Uses(o.c.w, row) || !o.view.DividesBlock(o.axes[row], 2))
    return -1;
  // With a contraction of channels behind it the sum goes in blocks of single lines.
  const auto sums_others = [&](const tc::Statement& s) {
    return tc::Contracts(s) && !SumsTapsAlone(o.program, s);
  };
  if (std::ranges::any_of(o.program.statements, sums_others)) return -1;
  for (const Subscript& at : Classify(o.program, o.s, o.program[o.c.x].args).subscripts) {
    if (!SlidesAlong(o.s, at) || std::ranges::count(at.indices, row) == 0) continue;
    for (const int32_t i : at.indices)
      if (o.s.indices[i].reduction && o.Extent(i) <= kMostTaps) return i;
  }
  return -1;
}

std::optional<RegisterTile> ChooseRegisterTile(const Operands& o, int rank) {
  std::vector<RegisterTile> options = RegisterTiles(o);
  if (options.empty()) return std::nullopt;
  BestOfKindsFirst(o, options);
  RegisterTile pick = options[std::min<size_t>(static_cast<size_t>(rank), options.size() - 1)];
  ChooseDot(o, pick);
  ChooseNibbles(o, pick);
  return pick;
}

Kinds NearKinds(const Operands& o) {
  std::vector<RegisterTile> options = RegisterTiles(o);
  const size_t all = BestOfKindsFirst(o, options);
  Kinds near;
  for (size_t k = 0; k < all; ++k) {
    if (options[k].cycles > kNear * options[0].cycles) continue;
    ++near.count;
    near.copies |= options[k].copies && o.MovesBoth(options[k].lane);
  }
  return near;
}

}  // namespace weft::polyhedral
