#include "tests/oracle/machine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "codegen/llvm/emit.h"

namespace weft::oracle {

Result<LoadedKernel> LoadedKernel::Make(const loops::LoopNest& nest, const Target& target) {
  WEFT_TRY(const codegen::MachineCode code, codegen::EmitMachineCode(nest, target));
  char path[] = "/tmp/weft-oracle-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return Limit("no temporary file");
  const auto size = static_cast<ssize_t>(code.shared_object.size());
  const bool written = write(fd, code.shared_object.data(), code.shared_object.size()) == size;
  close(fd);
  LoadedKernel kernel;
  if (written) kernel.handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (!kernel.handle_) return Internal(std::string("dlopen: ") + dlerror());
  kernel.function_ = reinterpret_cast<KernelFunction>(dlsym(kernel.handle_, nest.name.c_str()));
  if (!kernel.function_) return Internal("the kernel exports no " + nest.name);
  kernel.rank_scratch_ = (loops::RankScratchBytes(nest) + 63) / 64 * 64;
  kernel.team_scratch_ = (loops::TeamScratchBytes(nest) + 63) / 64 * 64;
  return kernel;
}

LoadedKernel::LoadedKernel(LoadedKernel&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      function_(other.function_),
      rank_scratch_(other.rank_scratch_),
      team_scratch_(other.team_scratch_) {}

LoadedKernel::~LoadedKernel() {
  if (handle_) dlclose(handle_);
}

void LoadedKernel::Run(void* const* buffers, const int64_t* params, uint32_t team) const {
  const auto memory = [](int64_t bytes) {
    return std::unique_ptr<void, decltype(&std::free)>(std::aligned_alloc(64, bytes + 64), &std::free);
  };
  const auto rank_scratch = memory(rank_scratch_ * team), team_scratch = memory(team_scratch_);
  std::barrier<> barrier(team);
  const auto wait = [](void* b) { static_cast<std::barrier<>*>(b)->arrive_and_wait(); };
  KernelFault fault{};
  const int32_t cancel = 0;
  const KernelArgs args{.buffers = buffers, .params = params, .team_scratch = team_scratch.get(),
                        .rank_scratch = rank_scratch.get(), .rank_scratch_stride = rank_scratch_,
                        .barrier = wait, .barrier_data = &barrier, .fault = &fault, .cancel = &cancel};
  std::vector<std::thread> others;
  for (uint32_t r = 1; r < team; ++r) others.emplace_back(function_, &args, r, team);
  function_(&args, 0, team);
  for (std::thread& t : others) t.join();
}

Result<bool> RunMachineCode(const loops::LoopNest& nest, const Target& target, const std::vector<void*>& buffers,
                            const std::vector<int64_t>& params, uint32_t team) {
  WEFT_TRY(const LoadedKernel kernel, LoadedKernel::Make(nest, target));
  kernel.Run(buffers.data(), params.data(), team);
  return true;
}

}  // namespace weft::oracle
