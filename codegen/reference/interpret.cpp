#include "codegen/reference/interpret.h"

#include <fmt/format.h>

#include <algorithm>

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

// Runs all actors of a team or block from barrier to barrier.
Status RunTogether(std::vector<Machine>& actors, KernelFault* fault, int64_t& steps) {
  for (;;) {
    for (size_t t = 0; t < actors.size(); t += loops::kWarp) {
      const size_t end = std::min<size_t>(actors.size(), t + loops::kWarp);
      WEFT_TRY(RunWarp(std::span(actors).subspan(t, end - t), fault, steps));
    }
    for (const Machine& m : actors) {
      if (m.pc() == actors[0].pc()) continue;
      return Internal(
          fmt::format("a barrier that not all reach: statement {} and {}", actors[0].pc(), m.pc()));
    }
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
    if (s.kind != loops::StmtKind::kFor || s.loop < LoopKind::kBlockX) continue;
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
    int64_t& extent =
        grid.extent[static_cast<size_t>(s.loop) - static_cast<size_t>(LoopKind::kBlockX)];
    extent = std::max(extent, trip);
  }
  return grid;
}

constexpr int64_t kMostThreads = 1024;  // of a block

Status RunLaunch(const LoopNest& nest, CheckedMemory& memory, std::span<const int64_t> params,
                 KernelFault* fault, const InterpretOptions& options, int64_t& steps) {
  WEFT_TRY(const Grid grid, GridOf(nest, params));
  Program program = Flatten(nest);
  const auto& n = grid.extent;
  const int64_t threads = n[3] * n[4] * n[5], blocks = n[0] * n[1] * n[2];
  if (threads > kMostThreads) return Internal(fmt::format("{} threads in a block", threads));
  std::vector<Machine> actors(static_cast<size_t>(threads),
                              Machine(program, memory, params, options.check));
  for (int64_t block = 0; block < blocks; ++block) {
    memory.ForgetLocals();
    for (int64_t t = 0; t < threads; ++t) {
      const std::array<int64_t, 6> place = {block % n[0], block / n[0] % n[1], block / n[0] / n[1],
                                            t % n[3],     t / n[3] % n[4],     t / n[3] / n[4]};
      const auto thread = static_cast<int32_t>(t);
      actors[t].Place({.block = block, .thread = thread}, thread, static_cast<int32_t>(threads),
                      place);
    }
    WEFT_TRY(RunTogether(actors, fault, steps));
  }
  return {};
}

Status RunGrid(const LoopNest& nest, std::span<void* const> buffers,
               std::span<const int64_t> params, KernelFault* fault,
               const InterpretOptions& options) {
  const std::vector<LoopNest> launches = loops::LaunchesOf(nest);
  int64_t threads = 1;
  for (const LoopNest& launch : launches) {
    WEFT_TRY(const Grid grid, GridOf(launch, params));
    threads = std::max(threads, grid.extent[3] * grid.extent[4] * grid.extent[5]);
  }
  if (threads > kMostThreads) return Internal(fmt::format("{} threads in a block", threads));
  CheckedMemory memory(nest, buffers, params, static_cast<int32_t>(threads), options.check);
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
  CheckedMemory memory(nest, buffers, params, team, options.check);
  std::vector<Machine> actors(options.team_size, Machine(program, memory, params, options.check));
  for (int32_t rank = 0; rank < team; ++rank) actors[rank].Place({.thread = rank}, rank, team, {});
  int64_t steps = options.max_steps;
  return RunTogether(actors, fault, steps);
}

}  // namespace weft::codegen
