#include "polyhedral/propose/tile_model.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/loops/matrix_tiles.h"
#include "polyhedral/propose/propose.h"

namespace weft::polyhedral {
namespace {

constexpr double kStep = 0.25;  // cycles that a step of the loop costs beside its work
constexpr double kLatency = 5;  // of a multiply-add, four, and what is lost where all wait for it
constexpr double kFar = 0.25;   // of a line's way from the second cache, that work doesn't hide
constexpr double kRow = 40;     // of a row's first lines, likewise
constexpr double kPushedOut = 0.5;  // of a row, likewise (a convolution of 512 channels on Zen 4)
constexpr double kKept = 0.8;       // of the nearest cache, what a panel may take
constexpr double kTail = 0.02;      // of all, for a tail: other code, that is compiled and fetched

// The mean of a core of its own and one that a second thread shares, where instructions are issued
// in every other cycle only: three of them a cycle.
double Cycles(const OperandMoves& moves, int64_t rows, int64_t vectors) {
  const auto loads = [&](bool lanes, bool by_rows) {
    return (lanes ? vectors : 1) * (by_rows ? rows : 1);
  };
  const auto fmas = static_cast<double>(rows * vectors);
  const auto all = static_cast<double>(loads(moves.x_lanes, moves.x_rows) * moves.x_loads +
                                       loads(moves.w_lanes, moves.w_rows) * moves.w_loads);
  const double alone = std::max({fmas / 2, all / 2, kLatency}), shared = (fmas + all) / 3;
  return (alone + std::max(alone, shared)) / 2 + kStep;
}

// What of a step is spent waiting for the second cache: for a panel that the nearest one does not
// keep, for rows where the processor does not see that they come, and for those that push each
// other out.
double Far(const Target& target, const OperandMoves& moves, int64_t rows, int64_t lanes) {
  const auto bytes = static_cast<double>(lanes * moves.lane_bytes);
  const bool is_near =
      !moves.crowded && moves.steps * bytes <= kKept * static_cast<double>(target.l1_bytes);
  const double panel = is_near ? 0 : kFar * bytes / static_cast<double>(kLineBytes);
  const double begun =
      moves.block > 0 ? kRow * static_cast<double>(rows) / static_cast<double>(moves.block) : 0;
  return panel + begun +
         kPushedOut * static_cast<double>(CrowdOf(target, moves.row_bytes, rows).lines);
}

// The sum of `cost`, of rows and lanes, over all tiles of an output.
template <typename F>
double Total(TileShape tile, int64_t m, int64_t n, F cost) {
  const int64_t tail_rows = m % tile.rows, tail_lanes = n % tile.lanes;
  const int64_t full_rows = m / tile.rows, full_lanes = n / tile.lanes;
  const auto times = [](int64_t count, double cycles) {
    return static_cast<double>(count) * cycles;
  };
  double total = times(full_rows, times(full_lanes, cost(tile.rows, tile.lanes)));
  if (tail_rows) total += times(full_lanes, cost(tail_rows, tile.lanes));
  if (tail_lanes) total += times(full_rows, cost(tile.rows, tail_lanes));
  if (tail_rows && tail_lanes) total += cost(tail_rows, tail_lanes);
  return total * (1 + kTail * ((tail_rows ? 1 : 0) + (tail_lanes ? 1 : 0)));
}

}  // namespace

Crowd CrowdOf(const Target& target, int64_t bytes_apart, int64_t lines) {
  constexpr int64_t kPage = 4096, kSets = kPage / kLineBytes;
  const int64_t ways = target.l1_bytes / kPage;
  if (bytes_apart < kLineBytes) return {};
  // From here on their places in a page come again.
  const int64_t places = kPage / std::gcd(bytes_apart, kPage);
  std::array<int64_t, kSets> sets{};
  for (int64_t k = 0; k < std::min(lines, places); ++k)
    sets[static_cast<size_t>(bytes_apart % kPage * k % kPage / kLineBytes)] +=
        (lines - k + places - 1) / places;
  Crowd crowd;
  for (const int64_t count : sets) {
    if (count <= ways) continue;
    crowd.lines += count;
    crowd.too_many += count - ways;
  }
  return crowd;
}

int64_t UncrowdedLines(const Target& target, int64_t bytes_apart, int64_t lines) {
  constexpr int64_t kSpread = 64;  // lines, of which a set has few, unless few sets have them
  for (int64_t n = 1; n <= std::min(lines, kSpread); ++n)
    if (CrowdOf(target, bytes_apart, n).lines > 0) return n - 1;
  return lines;
}

std::vector<TileShape> RankTiles(const Target& target, const OperandMoves& moves, int64_t m,
                                 int64_t n, int64_t vector, int64_t most) {
  // Registers for a broadcast and the vectors of one operand, the rest for accumulators.
  const int64_t registers = target.VectorRegisters();
  std::vector<TileShape> tiles;
  for (int64_t nv = 1; nv <= 4; ++nv) {
    // A broadcast that serves vectors of two widths lives until both are done, which spills more.
    const int64_t last = std::min(n, nv * vector) % vector;
    const bool narrow = nv > 1 && last > 0 && last <= vector / 2;
    const int64_t fit = registers == 32 ? (narrow ? 22 : 28) : (narrow ? 10 : 12);
    const int64_t vectors = std::min({fit, registers - nv * moves.parts - moves.spare, most});
    for (int64_t rows = 1; rows <= std::min(vectors / nv, m); ++rows) {
      TileShape tile{rows, std::min(n, nv * vector)};
      if (tile.lanes > loops::kMostLanes) continue;
      tile.cycles = Total(tile, m, n, [&](int64_t r, int64_t lanes) {
        return Cycles(moves, r, (lanes + vector - 1) / vector);
      });
      tile.far =
          Total(tile, m, n, [&](int64_t r, int64_t lanes) { return Far(target, moves, r, lanes); });
      tiles.push_back(tile);
    }
  }
  // Among equals the larger: fewer iterations around it.
  std::ranges::stable_sort(tiles, {}, [](const TileShape& t) {
    return (t.cycles + t.far) * (1 + 0.02 / static_cast<double>(t.rows * t.lanes));
  });
  return tiles;
}

namespace {

// Cycles of a block of sums by matrices (measured on a Xeon with AMX): a product of tiles is 16,
// of which three wait for the one before them if they add to the same sums; a tile of a factor
// comes from the second cache now and then; one of sums is stored and loaded again in 32, and the
// palette changes in 180.
double MatrixCycles(const loops::MatrixTiles& tiles, int64_t quads, double taps) {
  constexpr double kProduct = 16, kLatency = 52, kFactor = 4, kMoved = 32, kBlock = 20;
  const int64_t at_once = loops::MatrixTiles::QuadsAtOnce(quads), rest = quads % at_once != 0;
  const auto sums = static_cast<double>(tiles.sums());
  const double step = std::max(kProduct * sums, kLatency) +
                      kFactor * static_cast<double>(tiles.row_tiles() + tiles.lane_tiles());
  return static_cast<double>(quads / at_once + rest) * taps * step + kBlock +
         static_cast<double>(1 + rest) * kMoved * sums;
}

// The part of an axis in blocks of at most this size, if they are about equal.
int64_t Even(int64_t extent, int64_t most) {
  const int64_t parts = (extent + most - 1) / most;
  return (extent + parts - 1) / parts;
}

}  // namespace

std::vector<TileShape> RankMatrixTiles(int64_t m, int64_t n, int64_t quads, double taps) {
  using loops::MatrixTiles;
  constexpr double kPalette = 180;
  const auto sizes = [](int64_t extent, int64_t part, int64_t most) {
    std::vector<int64_t> found;
    for (int64_t size = part; size <= most; size += part) {
      for (const int64_t s : {std::min(size, extent), Even(extent, size)})
        if (std::ranges::find(found, s) == found.end()) found.push_back(s);
    }
    return found;
  };
  std::vector<TileShape> ranked;
  for (const int64_t rows : sizes(m, MatrixTiles::kRows, 4 * MatrixTiles::kRows)) {
    for (const int64_t lanes : sizes(n, MatrixTiles::kLanes, loops::kMostLanes)) {
      if (!MatrixTiles{rows, lanes}.Fit()) continue;
      double cycles = 0;
      const auto add = [&](int64_t r, int64_t l, int64_t count) {
        if (r > 0 && l > 0)
          cycles += static_cast<double>(count) * MatrixCycles({r, l}, quads, taps);
      };
      add(rows, lanes, (m / rows) * (n / lanes));
      add(m % rows, lanes, n / lanes);
      add(rows, n % lanes, m / rows);
      add(m % rows, n % lanes, 1);
      if (n % lanes != 0) cycles += 2 * kPalette * static_cast<double>(m / rows);
      // A step of the others is a quad, too.
      ranked.push_back({rows, lanes, cycles / (static_cast<double>(quads) * taps)});
    }
  }
  std::ranges::stable_sort(ranked, {}, &TileShape::cycles);
  return ranked;
}

}  // namespace weft::polyhedral
