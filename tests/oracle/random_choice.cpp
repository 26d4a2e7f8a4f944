#include "tests/oracle/random_choice.h"

#include <algorithm>
#include <array>
#include <random>

#include "polyhedral/axes.h"
#include "polyhedral/tree.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

class Maker {
 public:
  Maker(const ScheduleRequest& request, uint64_t seed)
      : program_(*request.program), constants_(request.constants), random_(seed) {
    for (const tc::TensorId input : tc::Inputs(program_))
      halves_ |= program_[input].dtype == Dtype::kBF16;
  }

  Choice Run() {
    Choice choice{.group = program_.name};
    const std::vector<std::string> names = StatementNames(program_);
    std::vector<int32_t> group;
    for (size_t s = 0; s < names.size(); ++s) {
      group.push_back(static_cast<int32_t>(s));
      if (s + 1 < names.size() && Chance(60)) continue;
      choice.clusters.push_back(MakeCluster(group, names));
      group.clear();
    }
    if (Chance(40)) AddBlocks(choice);
    for (const tc::TensorId input : tc::Inputs(program_)) {
      if (Chance(50)) choice.prefetches.push_back(program_[input].name);
    }
    return choice;
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

  Cluster MakeCluster(const std::vector<int32_t>& group, const std::vector<std::string>& names) {
    Cluster cluster;
    for (const int32_t s : group) cluster.statements.push_back(names[s]);
    const auto axes = ClusterAxes(program_, group);
    std::vector<std::string> shared = SharedAxes(program_, group, axes), all;
    for (const auto& list : axes) {
      for (const std::string& a : list) {
        if (std::ranges::count(all, a) == 0) all.push_back(a);
      }
    }
    if (all.empty()) return cluster;
    std::ranges::shuffle(shared, random_);
    for (const std::string& a : shared) {
      if (Chance(75)) cluster.order.push_back(a);
    }
    std::ranges::shuffle(all, random_);
    // One that some statements lack, which then run in one of its iterations.
    if (Chance(15) && std::ranges::count(cluster.order, all[0]) == 0)
      cluster.order.insert(cluster.order.begin() + Below(std::ssize(cluster.order) + 1), all[0]);
    for (const std::string& a : all) {
      if (Chance(40)) cluster.tiles.push_back(MakeTile(a));
      const bool in_order = std::ranges::count(cluster.order, a) > 0;
      if (!in_order || (!cluster.tiles.empty() && cluster.tiles.back().axis == a))
        cluster.inner.push_back(a);
      if (Chance(25)) cluster.unroll.push_back(a);
      if (Chance(15)) cluster.turns.push_back(a);
    }
    for (int chance = 70; Chance(chance); chance = 20) {
      Tile lanes{all[Below(static_cast<int64_t>(all.size()))], {1 + Below(8)}};
      if (cluster.LanesOf(lanes.axis) > 0) break;
      FitLanes(cluster, lanes);
      cluster.lanes.push_back(std::move(lanes));
    }
    cluster.parallel = static_cast<int32_t>(Below(static_cast<int64_t>(cluster.order.size()) + 1));
    AddDot(cluster);
    for (const Tile& tile : cluster.tiles)
      if (tile.sizes.size() == 1 && std::ranges::count(cluster.order, tile.axis) > 0 && Chance(30))
        cluster.together = tile.axis;
    return cluster;
  }

  // Points of a tile inside the lanes; of an even number, mostly flushed, which only bfloat16 can
  // be.
  void AddDot(Cluster& cluster) {
    for (Tile& tile : cluster.tiles) {
      if (cluster.LanesOf(tile.axis) > 0 || !Chance(30)) continue;
      if (tile.sizes.size() == 1 && Chance(50)) tile.sizes[0] = 2;
      cluster.dot_axis = tile.axis;
      cluster.dot_flushes = halves_ && tile.sizes.back() % 2 == 0 && Chance(80);
      return;
    }
  }

  // Often of the same size, which is what goes together most of the time.
  void AddBlocks(Choice& choice) {
    const int64_t common = BlockSize();
    const auto count = static_cast<size_t>(1 + Below(2));
    for (size_t c = 0; c < choice.clusters.size(); ++c) {
      Cluster& cluster = choice.clusters[c];
      std::vector<std::string> axes = cluster.order;
      if (axes.size() < count) continue;
      if (Chance(30)) std::ranges::shuffle(axes, random_);
      for (size_t b = 0; b < count; ++b) {
        cluster.blocks.push_back({axes[b], {Chance(80) ? common : BlockSize()}});
        FitTiles(cluster, cluster.blocks.back());
      }
      for (Tile& lanes : cluster.lanes) FitLanes(cluster, lanes);
      cluster.parallel = 0;
      cluster.then = c > 0 && !choice.clusters[c - 1].blocks.empty() && Chance(80);
    }
  }

  int64_t BlockSize() { return std::array{1, 2, 3, 4, 6}[static_cast<size_t>(Below(5))]; }

  int64_t DivisorOf(int64_t n) {
    int64_t divisor = 1 + Below(n);
    while (n % divisor != 0) --divisor;
    return divisor;
  }

  // Tiles that do not end where their block does are refused, and so are lanes that do not end with
  // their tile: a few are enough of either.
  void FitTiles(Cluster& cluster, const Tile& block) {
    if (Chance(5)) return;
    int64_t whole = block.sizes[0];
    for (Tile& tile : cluster.tiles)
      if (tile.axis == block.axis)
        for (int64_t& size : tile.sizes) whole = size = DivisorOf(whole);
  }

  void FitLanes(const Cluster& cluster, Tile& lanes) {
    if (Chance(5)) return;
    int64_t points = 0;
    for (const auto* tiles : {&cluster.blocks, &cluster.tiles})
      for (const Tile& tile : *tiles)
        if (tile.axis == lanes.axis) points = tile.sizes.back();
    if (points > lanes.sizes[0] && points % lanes.sizes[0] != 0) lanes.sizes[0] = DivisorOf(points);
  }

  Tile MakeTile(const std::string& axis) {
    Tile tile{axis, {1 + Below(5)}};
    if (Chance(30)) tile.sizes.insert(tile.sizes.begin(), tile.sizes[0] * (1 + Below(3)));
    return tile;
  }

  const tc::Program& program_;
  const std::vector<std::string>& constants_;
  std::mt19937_64 random_;
  bool halves_ = false;
};

}  // namespace

Choice RandomChoice(const ScheduleRequest& request, uint64_t seed) {
  return Maker(request, seed).Run();
}

}  // namespace weft::oracle
