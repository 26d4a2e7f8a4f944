#include "tests/oracle/machine.h"

#include <barrier>
#include <cstdlib>
#include <memory>
#include <thread>

namespace weft::oracle {

Result<Machine> Machine::Make(const loops::LoopNest& nest, const Target& target) {
  WEFT_TRY(const codegen::MachineCode code, codegen::EmitMachineCode(nest, target));
  Machine machine;
  WEFT_TRY(machine.kernel_, codegen::LoadKernel(code, nest.name));
  machine.rank_scratch_ = (loops::RankScratchBytes(nest) + 63) / 64 * 64;
  machine.team_scratch_ = (loops::TeamScratchBytes(nest) + 63) / 64 * 64;
  return machine;
}

void Machine::Run(void* const* buffers, const int64_t* params, uint32_t team) const {
  const auto memory = [](int64_t bytes) {
    return std::unique_ptr<void, decltype(&std::free)>(std::aligned_alloc(64, bytes + 64),
                                                       &std::free);
  };
  const auto rank_scratch = memory(rank_scratch_ * team), team_scratch = memory(team_scratch_);
  std::barrier<> barrier(team);
  const auto wait = [](void* b) { static_cast<std::barrier<>*>(b)->arrive_and_wait(); };
  KernelFault fault{};
  const int32_t cancel = 0;
  const KernelArgs args{.buffers = buffers,
                        .params = params,
                        .team_scratch = team_scratch.get(),
                        .rank_scratch = rank_scratch.get(),
                        .rank_scratch_stride = rank_scratch_,
                        .barrier = wait,
                        .barrier_data = &barrier,
                        .fault = &fault,
                        .cancel = &cancel};
  std::vector<std::thread> others;
  for (uint32_t r = 1; r < team; ++r) others.emplace_back(kernel_.function, &args, r, team);
  kernel_.function(&args, 0, team);
  for (std::thread& t : others) t.join();
}

}  // namespace weft::oracle
