#include "codegen/cuda/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "polyhedral/loops/ranges.h"

namespace weft::codegen {

using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;

namespace {

constexpr int64_t kMostThreads = 1024;  // CUDA C++ Programming Guide, table of compute capabilities

// The trip counts of a loop that no other loop has a say in: its real one is the least of all.
std::vector<Affine> TripsOverParams(const LoopNest& nest, const Stmt& loop) {
  std::vector<Affine> trips;
  for (const Affine& lo : loop.lo) {
    for (const Affine& hi : loop.hi) {
      std::vector<Var> used;
      Affine trip = CeilDiv(hi - lo, loop.step);
      trip.CollectVars(used);
      if (used.empty() || used.back() < nest.params) trips.push_back(std::move(trip));
    }
  }
  return trips;
}

}  // namespace

int64_t LaunchExtent::Eval(std::span<const int64_t> params) const {
  int64_t longest = 1;
  for (const auto& trips : loops) {
    int64_t least = INT64_MAX;
    for (const Affine& trip : trips) least = std::min(least, trip.Eval(params));
    longest = std::max(longest, least);
  }
  return longest;
}

bool LaunchExtent::IsConstant() const {
  return std::ranges::all_of(loops, [](const auto& trips) {
    return std::ranges::all_of(trips, [](const Affine& trip) { return trip.IsConstant(); });
  });
}

int64_t Launch::ThreadsPerBlock() const {
  int64_t threads = 1;
  for (const LaunchExtent& extent : block) {
    if (!extent.IsConstant()) return 0;
    threads *= extent.Eval({});
  }
  return threads;
}

Result<Launch> LaunchOf(const LoopNest& nest) {
  Launch launch;
  std::vector<loops::StmtId> todo = nest.body;
  while (!todo.empty()) {
    const Stmt& s = nest[todo.back()];
    todo.pop_back();
    todo.insert(todo.end(), s.body.begin(), s.body.end());
    todo.insert(todo.end(), s.otherwise.begin(), s.otherwise.end());
    if (s.kind != loops::StmtKind::kFor) continue;
    if (s.loop == LoopKind::kParallel) {
      return Unsupported(fmt::format("nest {} is not mapped to a grid: {} is a parallel loop",
                                     nest.name, nest.vars[s.var]));
    }
    if (!loops::IsGrid(s.loop)) continue;
    if (s.loop == LoopKind::kClusterX) launch.cluster = loops::ConstantTrip(s);
    std::vector<Affine> trips = TripsOverParams(nest, s);
    if (trips.empty()) {
      return Unsupported(fmt::format("nest {}: the launch extent of {} depends on a loop",
                                     nest.name, nest.vars[s.var]));
    }
    const size_t place = loops::GridAxis(s.loop);
    LaunchExtent& extent = place < 3 ? launch.grid[place] : launch.block[place - 3];
    extent.loops.push_back(std::move(trips));
  }
  if (const int64_t threads = launch.ThreadsPerBlock(); threads > kMostThreads) {
    return Limit(fmt::format("nest {}: {} threads in a block", nest.name, threads));
  }
  return launch;
}

}  // namespace weft::codegen
