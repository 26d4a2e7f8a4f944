#include "codegen/reference/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/reference/machine.h"

namespace weft::codegen {

using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;

namespace {

// Runs a warp on to where none of its threads exchanges anything.
Status RunWarp(std::span<Machine> warp, KernelFault* fault, int64_t& steps) {
  for (;;) {
    for (Machine& m : warp) WEFT_TRY(m.Run(fault, steps));
    const auto waits = [](const Machine& m) { return m.across() != 0; };
    if (std::ranges::none_of(warp, waits)) return {};
    std::vector<Scalar> offered;
    for (const Machine& m : warp) {
      if (warp.size() < loops::kWarp || !waits(m) || m.pc() != warp[0].pc())
        return Internal(
            fmt::format("an exchange that not all threads of a warp reach: statement {}",
                        std::ranges::find_if(warp, waits)->pc()));
      offered.push_back(m.offered());
    }
    for (size_t t = 0; t < warp.size(); ++t)
      WEFT_TRY(warp[t].PassExchange(offered[t ^ static_cast<size_t>(warp[t].across())]));
  }
}

Status AtOnePlace(std::span<const Machine> actors) {
  for (const Machine& m : actors) {
    if (m.pc() == actors[0].pc()) continue;
    return Internal(
        fmt::format("a barrier that not all reach: statement {} and {}", actors[0].pc(), m.pc()));
  }
  return {};
}

// Runs all actors of a team or block from barrier to barrier, up to one of their cluster.
Status RunTogether(std::span<Machine> actors, KernelFault* fault, int64_t& steps) {
  for (;;) {
    for (size_t t = 0; t < actors.size(); t += loops::kWarp) {
      const size_t end = std::min<size_t>(actors.size(), t + loops::kWarp);
      WEFT_TRY(RunWarp(actors.subspan(t, end - t), fault, steps));
    }
    WEFT_TRY(AtOnePlace(actors));
    if (actors[0].done() || actors[0].awaits_cluster()) return {};
    for (Machine& m : actors) m.PassBarrier();
  }
}

// Runs the blocks of a cluster, each of so many actors.
Status RunCluster(std::span<Machine> actors, size_t block, KernelFault* fault, int64_t& steps) {
  for (;;) {
    for (size_t t = 0; t < actors.size(); t += block)
      WEFT_TRY(RunTogether(actors.subspan(t, block), fault, steps));
    WEFT_TRY(AtOnePlace(actors));
    if (actors[0].done()) return {};
    for (Machine& m : actors) m.PassBarrier();
  }
}

// The launch: along each dimension as many as the longest loop over it has iterations.
Result<Grid> GridOf(const LoopNest& nest, std::span<const int64_t> params) {
  Grid grid;
  std::vector<loops::StmtId> todo = nest.body;
  while (!todo.empty()) {
    const Stmt& s = nest[todo.back()];
    todo.pop_back();
    todo.insert(todo.end(), s.body.begin(), s.body.end());
    todo.insert(todo.end(), s.otherwise.begin(), s.otherwise.end());
    if (s.kind != loops::StmtKind::kFor || !loops::IsGrid(s.loop)) continue;
    int64_t trip = INT64_MAX;
    for (const Affine& lo : s.lo) {
      for (const Affine& hi : s.hi) {
        std::vector<Var> used;
        const Affine length = CeilDiv(hi - lo, s.step);
        length.CollectVars(used);
        if (used.empty() || used.back() < nest.params) trip = std::min(trip, length.Eval(params));
      }
    }
    if (trip == INT64_MAX)
      return Internal(fmt::format("the launch extent of {} depends on a loop", nest.vars[s.var]));
    int64_t& extent = grid.extent[loops::GridAxis(s.loop)];
    extent = std::max(extent, trip);
    if (s.loop == LoopKind::kClusterX) grid.cluster = std::max(grid.cluster, trip);
  }
  if (grid.cluster > loops::kMostCluster || grid.extent[0] % grid.cluster != 0)
    return Internal(
        fmt::format("{} blocks along x in clusters of {}", grid.extent[0], grid.cluster));
  return grid;
}

constexpr int64_t kMostThreads = 1024;  // of a block

Status RunLaunch(const LoopNest& nest, CheckedMemory& memory, std::span<const int64_t> params,
                 KernelFault* fault, const InterpretOptions& options, int64_t& steps) {
  WEFT_TRY(const Grid grid, GridOf(nest, params));
  Program program = Flatten(nest);
  const auto& n = grid.extent;
  const int64_t threads = n[3] * n[4] * n[5], blocks = n[0] * n[1] * n[2];
  std::vector<Machine> actors(static_cast<size_t>(threads * grid.cluster),
                              Machine(program, memory, params, options.check));
  for (int64_t first = 0; first < blocks; first += grid.cluster) {
    memory.ForgetLocals();
    for (int64_t actor = 0; actor < std::ssize(actors); ++actor) {
      const int64_t t = actor % threads, own = actor / threads, block = first + own;
      const std::array<int64_t, 6> place = {block % n[0], block / n[0] % n[1], block / n[0] / n[1],
                                            t % n[3],     t / n[3] % n[4],     t / n[3] / n[4]};
      actors[actor].Place({.cluster = first / grid.cluster,
                           .block = static_cast<int32_t>(own),
                           .thread = static_cast<int32_t>(actor)},
                          static_cast<int32_t>(t), static_cast<int32_t>(threads), place);
    }
    WEFT_TRY(RunCluster(actors, static_cast<size_t>(threads), fault, steps));
  }
  return {};
}

Status RunGrid(const LoopNest& nest, std::span<void* const> buffers,
               std::span<const int64_t> params, KernelFault* fault,
               const InterpretOptions& options) {
  const std::vector<LoopNest> launches = loops::LaunchesOf(nest);
  Actors most;
  for (const LoopNest& launch : launches) {
    WEFT_TRY(const Grid grid, GridOf(launch, params));
    const int64_t threads = grid.extent[3] * grid.extent[4] * grid.extent[5];
    if (threads > kMostThreads) return Internal(fmt::format("{} threads in a block", threads));
    most.threads = std::max(most.threads, static_cast<int32_t>(threads * grid.cluster));
    most.blocks = std::max(most.blocks, static_cast<int32_t>(grid.cluster));
  }
  CheckedMemory memory(nest, buffers, params, most, options.check);
  int64_t steps = options.max_steps;
  for (const LoopNest& launch : launches) {
    WEFT_TRY(RunLaunch(launch, memory, params, fault, options, steps));
    memory.NextLaunch();
  }
  return {};
}

}  // namespace

Status Interpret(const LoopNest& nest, std::span<void* const> buffers,
                 std::span<const int64_t> params, KernelFault* fault,
                 const InterpretOptions& options) {
  if (buffers.size() != loops::Operands(nest).size() ||
      params.size() != static_cast<size_t>(nest.params)) {
    return Internal(
        fmt::format("nest {}: {} buffers and {} params", nest.name, buffers.size(), params.size()));
  }
  Program program = Flatten(nest);
  if (program.grid) return RunGrid(nest, buffers, params, fault, options);
  const auto team = static_cast<int32_t>(options.team_size);
  CheckedMemory memory(nest, buffers, params, {.threads = team}, options.check);
  std::vector<Machine> actors(options.team_size, Machine(program, memory, params, options.check));
  for (int32_t rank = 0; rank < team; ++rank) actors[rank].Place({.thread = rank}, rank, team, {});
  int64_t steps = options.max_steps;
  return RunCluster(actors, actors.size(), fault, steps);
}

}  // namespace weft::codegen
