#include "polyhedral/cuda/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "polyhedral/cuda/deal.h"
#include "polyhedral/cuda/lanes.h"
#include "polyhedral/cuda/launches.h"
#include "polyhedral/cuda/rewrite.h"
#include "polyhedral/cuda/rows.h"
#include "polyhedral/cuda/tiles.h"
#include "polyhedral/cuda/touches.h"
#include "polyhedral/loops/ranges.h"

namespace weft::polyhedral {

using loops::BufferId;
using loops::LoopKind;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace cuda {

StmtId Deal(LoopNest& nest, StmtId loop, LoopKind outer, LoopKind inner, int64_t count) {
  const int64_t trip = loops::ConstantTrip(nest[loop]);
  if (trip >= 0 && trip <= count) {
    nest.stmts[loop.index].loop = inner;
    return loop;
  }
  const Var base = loops::AddVar(nest, nest.vars[nest[loop].var] + "_base");
  Stmt& s = nest.stmts[loop.index];
  Stmt parts{.kind = StmtKind::kFor,
             .var = base,
             .lo = s.lo,
             .hi = s.hi,
             .step = s.step * count,
             .loop = outer,
             .body = {loop}};
  s.lo = {Affine::OfVar(base)};
  s.hi.insert(s.hi.begin(), Affine::OfVar(base) + s.step * count);
  s.loop = inner;
  return loops::AddStmt(nest, std::move(parts));
}

StmtId DealToBlocks(LoopNest& nest, StmtId loop, LoopKind along) {
  const int64_t each = (TripOf(nest, loop) + kMostBlocks - 1) / kMostBlocks;
  if (each > 1) return Deal(nest, loop, along, LoopKind::kSerial, each);
  nest.stmts[loop.index].loop = along;
  return loop;
}

void Replace(LoopNest& nest, std::vector<StmtId>& body, StmtId from, StmtId to) {
  for (StmtId& id : body) {
    if (id == from) {
      id = to;
    } else {
      Replace(nest, nest.stmts[id.index].body, from, to);
      Replace(nest, nest.stmts[id.index].otherwise, from, to);
    }
  }
}

StmtId AddBarrier(LoopNest& nest) { return loops::AddStmt(nest, {.kind = StmtKind::kBarrier}); }

StmtId AddSingle(LoopNest& nest, std::vector<StmtId> body) {
  return loops::AddStmt(nest, {.kind = StmtKind::kSingle, .body = std::move(body)});
}

int64_t TripOf(const LoopNest& nest, StmtId loop) {
  constexpr int64_t kParamGuess = 64;
  const Stmt& s = nest[loop];
  if (s.lo.size() != 1) return 1;
  int64_t most = INT64_MAX;  // that an end leaves
  for (const Affine& hi : s.hi)
    if (const Affine length = hi - s.lo[0]; length.IsConstant())
      most = std::min(most, CeilDiv(length, s.step).constant());
  if (most != INT64_MAX || s.hi.size() != 1)
    return most == INT64_MAX ? 1 : std::max<int64_t>(1, most);
  std::vector<Var> used;
  const Affine length = CeilDiv(s.hi[0] - s.lo[0], s.step);
  length.CollectVars(used);
  if (used.back() >= nest.params) return 1;
  const std::vector<int64_t> guess(static_cast<size_t>(nest.params), kParamGuess);
  return std::max<int64_t>(1, length.Eval(guess));
}

int64_t RoundUpToWarps(int64_t threads, int64_t most) {
  constexpr int64_t kWarp = 32;
  return std::clamp((threads + kWarp - 1) / kWarp * kWarp, kWarp, most);
}

}  // namespace cuda

namespace {

constexpr int64_t kTeam = 512;  // threads of a block that is alone
constexpr int64_t kMostThreads = 256;
constexpr int64_t kBlocksWanted =
    264;  // two for each multiprocessor of an H100 (its datasheet: 132)
// Below so many iterations, a thread for each leaves most of a device idle (132 x 128 lanes).
constexpr int64_t kFewIterations = 16384;
constexpr int64_t kLongRow = 32;
// Half of the multiprocessors, and as much for a block as outweighs further launches.
constexpr int64_t kFewBlocks = kBlocksWanted / 4, kMuchForABlock = 16384;
// Without shared memory a multiply-add takes two loads, and a multiprocessor has lanes for 32 of
// them against 128 multiply-adds: an eighth of the multiprocessors with tiles do as much as all
// without.
constexpr int64_t kFewTiles = kBlocksWanted / 2 / 8;

// What stands at the top of a nest, marks aside.
struct Outline {
  std::vector<StmtId> parallel;  // outermost loops of parallel bands
  bool has_more = false;         // barriers, singles, loops around parallel loops
};

void Survey(const LoopNest& nest, const std::vector<StmtId>& body, bool nested, Outline& outline) {
  for (const StmtId id : body) {
    const Stmt& s = nest[id];
    if (s.kind == StmtKind::kFor && s.loop == LoopKind::kParallel) {
      outline.parallel.push_back(id);
      outline.has_more |= nested;
      continue;
    }
    outline.has_more |= s.kind == StmtKind::kBarrier || s.kind == StmtKind::kSingle;
    Survey(nest, s.body, nested || s.kind != StmtKind::kMark, outline);
    Survey(nest, s.otherwise, true, outline);
  }
}

int64_t BandTrip(const LoopNest& nest, StmtId outermost) {
  int64_t trip = 1;
  for (const StmtId id : loops::ParallelBand(nest, outermost)) trip *= cuda::TripOf(nest, id);
  return trip;
}

// The band's innermost loop along threads, the others one after another.
StmtId DealBand(LoopNest& nest, StmtId outermost, LoopKind outer, int64_t threads) {
  const std::vector<StmtId> band = loops::ParallelBand(nest, outermost);
  for (const StmtId id : band) nest.stmts[id.index].loop = LoopKind::kSerial;
  const StmtId innermost = cuda::Deal(nest, band.back(), outer, LoopKind::kThreadX, threads);
  if (band.size() == 1) return innermost;
  nest.stmts[band[band.size() - 2].index].body = {innermost};
  return outermost;
}

Mapped Done(CudaMapping mapping, std::vector<int64_t> sizes, int64_t width, LoopNest nest) {
  return {.mapping = mapping,
          .map = {std::string(CudaMappingName(mapping)), std::move(sizes)},
          .width = width,
          .nest = std::move(nest)};
}

// Whether threads along the innermost loop of a band leave few idle, and the rest fits a grid.
bool FillsThreads(const LoopNest& nest, const std::vector<StmtId>& band, int64_t threads) {
  const int64_t trip = cuda::TripOf(nest, band.back()), idle = (threads - trip % threads) % threads;
  const auto fits = [&](StmtId id) { return cuda::TripOf(nest, id) <= cuda::kMostBlocks; };
  return band.size() <= 3 && trip >= threads && 8 * idle <= trip &&
         std::all_of(band.begin(), band.end() - 1, fits);
}

// What an iteration has of its own, and lanes with it; not what is filled before all of them, as
// constants are.
std::set<BufferId> OwnOf(const LoopNest& nest, const std::vector<StmtId>& iteration) {
  std::map<BufferId, int64_t> outside;
  for (const cuda::Touch& t : cuda::TouchesOf(nest, nest.body)) ++outside[t.buffer];
  for (const cuda::Touch& t : cuda::TouchesOf(nest, iteration)) --outside[t.buffer];
  std::set<BufferId> own;
  for (const auto& [id, touches] : outside) {
    const Space space = nest[id].space;
    if (touches == 0 && (space == Space::kCache || space == Space::kRegister)) own.insert(id);
  }
  return own;
}

Mapped MapGrid(LoopNest nest, StmtId outermost, const std::vector<int64_t>& wanted) {
  const int64_t width = BandTrip(nest, outermost);
  std::vector<StmtId> band = loops::ParallelBand(nest, outermost);
  if (band.size() == 1) band = cuda::Split(nest, outermost);
  const std::set<BufferId> own = OwnOf(nest, nest[band.back()].body);
  int64_t lanes = cuda::LanesAlong(nest, band.back(), own);
  const auto too_many = [&] {
    return wanted.size() > 1 ? lanes > wanted[1] : width / lanes < kFewIterations;
  };
  while (lanes > 1 && too_many()) lanes /= 2;
  if (lanes > 1) cuda::TakeLanes(nest, band.back(), lanes, own);
  const int64_t threads = wanted.empty()
                              ? cuda::RoundUpToWarps(width / lanes / kBlocksWanted, kMostThreads)
                              : wanted[0];
  if (band.size() > 1 && !FillsThreads(nest, band, threads) && cuda::CanMerge(nest, band))
    band = {cuda::Merge(nest, band)};
  const StmtId dealt = DealBand(nest, band[0], LoopKind::kBlockX, threads);
  cuda::Replace(nest, nest.body, outermost, dealt);
  // The next loops outwards are blocks too, as far as a grid has axes.
  for (size_t k = 1; k < band.size() && k < 3; ++k) {
    const StmtId loop = band[band.size() - 1 - k];
    const StmtId blocks =
        cuda::DealToBlocks(nest, loop, k == 1 ? LoopKind::kBlockY : LoopKind::kBlockZ);
    if (blocks != loop) cuda::Replace(nest, nest.body, loop, blocks);
  }
  return Done(CudaMapping::kGrid, wanted.empty() ? std::vector{threads, lanes} : wanted, width,
              cuda::Compact(nest));
}

// Of one thread of a grid, with its neighbours.
cuda::Moves MovesOfGrid(LoopNest nest, StmtId outermost) {
  std::vector<StmtId> band = loops::ParallelBand(nest, outermost);
  if (band.size() == 1) band = cuda::Split(nest, outermost);
  return cuda::MovesOf(nest, nest[band.back()].body, nest[band.back()].var);
}

std::optional<Mapped> TilesOf(const LoopNest& nest, StmtId outermost,
                              const cuda::TileShape* wanted) {
  auto tiles = cuda::MapTiles(nest, outermost, wanted);
  if (!tiles || !loops::Verify(tiles->nest).ok()) return std::nullopt;
  if (!wanted && tiles->blocks < kFewTiles) return std::nullopt;
  const cuda::TileShape& s = tiles->shape;
  return Done(CudaMapping::kTiles, {s.height, s.width, s.steps, s.thread_rows, s.thread_columns},
              BandTrip(nest, outermost), std::move(tiles->nest));
}

// Long rows are blocks where they are few, or where threads along them read what lies side by side
// and threads across them do not.
std::optional<Mapped> RowsOf(const LoopNest& nest, StmtId outermost, bool clusters,
                             const std::vector<int64_t>& wanted) {
  const int64_t width = BandTrip(nest, outermost);
  cuda::RowSizes most{.clusters = clusters && wanted.empty()};
  if (!wanted.empty()) most.threads = wanted[0];
  if (wanted.size() > 1 && wanted[1] > 0) most.lanes = wanted[1];
  if (wanted.size() > 2) most.blocks = wanted[2];
  auto rows = cuda::MapRows(nest, outermost, most);
  // A nest with register tiles may have no rows: an index that a thread chooses is no register.
  if (!rows || !loops::Verify(rows->nest).ok()) return std::nullopt;
  if (wanted.empty()) {
    if (rows->longest < kLongRow) return std::nullopt;
    if (width >= kFewIterations && rows->moves.along <= MovesOfGrid(nest, outermost).along)
      return std::nullopt;
  }
  std::vector<int64_t> sizes = wanted;
  if (wanted.empty()) sizes = {rows->threads};
  if (wanted.empty() && rows->blocks > 1) sizes = {rows->threads, 0, rows->blocks};
  Mapped mapped =
      Done(CudaMapping::kRows, std::move(sizes), width * rows->longest, std::move(rows->nest));
  const bool is_across = rows->moves.along < rows->moves.across,
             is_narrow = width * rows->blocks <= kFewBlocks && !rows->holds;
  mapped.starved = rows->longest >= kMuchForABlock && (is_narrow || is_across);
  return mapped;
}

// Columns of several loops, of which a thread of a grid would read each again, are a block's where
// neighbours read what lies side by side and threads along a column do not.
std::optional<Mapped> ColumnsOf(const LoopNest& nest, StmtId outermost,
                                const std::optional<cuda::ColumnSizes>& wanted) {
  constexpr int64_t kLongColumn = 64, kLeastWorks = 2;
  if (!wanted && MovesOfGrid(nest, outermost).along == 0) return std::nullopt;
  auto columns = cuda::MapColumns(nest, outermost, wanted);
  if (!columns || !loops::Verify(columns->nest).ok()) return std::nullopt;
  const bool is_worth = columns->longest >= kLongColumn && columns->works >= kLeastWorks &&
                        columns->moves.across > columns->moves.along;
  if (!wanted && !is_worth) return std::nullopt;
  return Done(CudaMapping::kColumns, {columns->columns, columns->threads},
              BandTrip(nest, outermost) * columns->longest, std::move(columns->nest));
}

Mapped MapBlock(LoopNest nest, const Outline& outline, std::optional<int64_t> wanted) {
  const int64_t team = wanted.value_or(kTeam);
  int64_t width = 1;
  for (const StmtId outermost : outline.parallel) {
    const StmtId innermost = loops::ParallelBand(nest, outermost).back();
    const int64_t threads = cuda::RoundUpToWarps(cuda::TripOf(nest, innermost), team);
    width = std::max(width, std::min(threads, cuda::TripOf(nest, innermost)));
    const StmtId dealt = DealBand(nest, outermost, LoopKind::kSerial, threads);
    cuda::Replace(nest, nest.body, outermost, dealt);
  }
  // A block with one thread would do, but a launch is said by loops alone.
  Stmt block{.kind = StmtKind::kFor,
             .var = loops::AddVar(nest, "block"),
             .lo = {0},
             .hi = {1},
             .loop = LoopKind::kBlockX,
             .body = std::move(nest.body)};
  nest.body = {loops::AddStmt(nest, std::move(block))};
  return Done(CudaMapping::kBlock, {team}, width, std::move(nest));
}

Mapped MapRange(const LoopNest& nest, StmtId range, bool clusters) {
  if (auto tiles = TilesOf(nest, range, nullptr)) return *std::move(tiles);
  if (auto columns = ColumnsOf(nest, range, std::nullopt)) return *std::move(columns);
  if (auto rows = RowsOf(nest, range, clusters, {})) return *std::move(rows);
  return MapGrid(nest, range, {});
}

// Several launches; nullopt if the nest does not consist of ranges, or if one launch does it.
std::optional<Mapped> MapLaunches(const LoopNest& nest, bool clusters) {
  constexpr size_t kMostLaunches = 12;
  const auto ranges = cuda::RangesOf(nest);
  if (!ranges || ranges->size() < 2 || ranges->size() > kMostLaunches) return std::nullopt;
  std::vector<LoopNest> launches;
  int64_t width = 1;
  for (const LoopNest& range : *ranges) {
    Mapped mapped = MapRange(range, range.body[0], clusters);
    width = std::max(width, mapped.width);
    launches.push_back(std::move(mapped.nest));
  }
  LoopNest all = cuda::Join(launches);
  if (!loops::Verify(all).ok()) return std::nullopt;
  const auto count = static_cast<int64_t>(launches.size());
  return Done(CudaMapping::kLaunches, {count}, width, std::move(all));
}

// The nest has one parallel range, and nothing around it, or else it is one block.
Result<Mapped> MapAs(const LoopNest& nest, const Outline& outline, bool one_range, bool clusters,
                     const GridMap& wanted) {
  constexpr int64_t kWarp = 32, kMostOfDevice = 1024;  // CUDA C++ Programming Guide
  const auto invalid = [&](std::string_view expected) {
    return Invalid(fmt::format("found map {} {}, expected {}", wanted.mapping,
                               fmt::join(wanted.sizes, " "), expected));
  };
  const auto misfit = [&] {
    return Unsupported(fmt::format("{} has no mapping as {}", nest.name, wanted.mapping));
  };
  const std::vector<int64_t>& sizes = wanted.sizes;
  if (wanted.mapping == "launches") {
    auto launches = MapLaunches(nest, clusters);
    if (launches && !sizes.empty() && launches->map != wanted)
      return invalid(fmt::format("{}", launches->map.sizes[0]));
    return launches ? Result<Mapped>(*std::move(launches)) : misfit();
  }
  if (wanted.mapping == "tiles") {
    if (sizes.size() != 5) return invalid("five sizes");
    const cuda::TileShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    if (!shape.IsValid()) return invalid("quads of cells, whole warps and what a block has");
    auto tiles = one_range ? TilesOf(nest, outline.parallel[0], &shape) : std::nullopt;
    return tiles ? Result<Mapped>(*std::move(tiles)) : misfit();
  }
  if (wanted.mapping == "columns") {
    if (sizes.size() != 2) return invalid("two sizes");
    const cuda::ColumnSizes columns{sizes[0], sizes[1]};
    if (!columns.IsValid())
      return invalid("whole warps of columns and their threads, at most 1024");
    auto mapped = one_range ? ColumnsOf(nest, outline.parallel[0], columns) : std::nullopt;
    return mapped ? Result<Mapped>(*std::move(mapped)) : misfit();
  }
  const bool is_rows = wanted.mapping == "rows";
  const bool threads = !sizes.empty() && sizes.size() < (is_rows ? 4 : 3) && sizes[0] >= kWarp &&
                       sizes[0] % kWarp == 0 && sizes[0] <= kMostOfDevice;
  if (!threads) return invalid("whole warps, at most 1024 threads");
  if (sizes.size() > 1 && (sizes[1] < (sizes.size() > 2 ? 0 : 1) || wanted.mapping == "block"))
    return invalid("lanes of a grid or of rows, at least 1");
  if (sizes.size() > 2 && (sizes[2] < 1 || sizes[2] > (clusters ? loops::kMostCluster : 1)))
    return invalid(fmt::format("blocks of a row, at most {}", clusters ? loops::kMostCluster : 1));
  if (wanted.mapping == "block") return MapBlock(nest, outline, sizes[0]);
  if (wanted.mapping == "grid")
    return one_range ? Result<Mapped>(MapGrid(nest, outline.parallel[0], sizes)) : misfit();
  if (!is_rows) return invalid("grid, tiles, rows, columns, launches or block");
  auto rows = one_range ? RowsOf(nest, outline.parallel[0], clusters, sizes) : std::nullopt;
  return rows ? Result<Mapped>(*std::move(rows)) : misfit();
}

Mapped MapBest(const LoopNest& nest, const Outline& outline, bool one_range, bool clusters) {
  if (one_range) {
    if (auto tiles = TilesOf(nest, outline.parallel[0], nullptr)) return *std::move(tiles);
    if (auto launches = MapLaunches(nest, clusters)) return *std::move(launches);
    return MapRange(nest, outline.parallel[0], clusters);
  }
  auto launches = MapLaunches(nest, clusters);
  if (launches && launches->width > kMuchForABlock) return *std::move(launches);
  return MapBlock(nest, outline, std::nullopt);
}

}  // namespace

std::string_view CudaMappingName(CudaMapping mapping) {
  constexpr std::string_view kNames[] = {"grid", "tiles", "rows", "columns", "block", "launches"};
  return kNames[static_cast<size_t>(mapping)];
}

Result<Mapped> MapNest(const LoopNest& given, const Target& target, const GridMap& wanted) {
  const bool clusters = HasClusters(target.isa);
  const LoopNest nest = cuda::SideBySide(given);
  Outline outline;
  Survey(nest, nest.body, false, outline);
  const bool one_range = outline.parallel.size() == 1 && !outline.has_more &&
                         loops::TeamScratchBytes(nest) <= cuda::kSharedBytes;
  Mapped mapped;
  if (wanted.mapping.empty()) {
    mapped = MapBest(nest, outline, one_range, clusters);
  } else {
    WEFT_TRY(mapped, MapAs(nest, outline, one_range, clusters, wanted));
  }
  for (loops::Buffer& b : mapped.nest.buffers) {
    if (b.access != loops::Access::kLocal)
      b.align_bytes = std::max(b.align_bytes, cuda::kDeviceAlign);
  }
  Status status = loops::Verify(mapped.nest);
  if (!status.ok())
    return std::move(status).Because(fmt::format("as {}", CudaMappingName(mapped.mapping)));
  return mapped;
}

}  // namespace weft::polyhedral
