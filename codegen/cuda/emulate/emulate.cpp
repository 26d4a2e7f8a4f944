#include "codegen/cuda/emulate/emulate.h"

#include <fmt/format.h>

#include <mutex>

#include "base/text.h"
#include "codegen/cuda/emulate/cluster.h"
#include "codegen/cuda/emulate/compiler.h"
#include "codegen/cuda/emulate/words.h"
#include "codegen/reference/agree.h"

namespace weft::codegen {

using cuda::EmulatedKernel;
using cuda::ThreadState;

struct EmulatedKernels::Loaded {
  std::vector<CudaText> texts;
  std::shared_ptr<cuda::HostLibrary> library;
  const EmulatedKernel* kernels = nullptr;
  ThreadState* state = nullptr;
  std::mutex mutex;  // of what the library holds: the thread's state and shared memory
};

namespace {

constexpr int kPattern = 0xff;  // NaN in every floating type, and an index that is out of range
constexpr int64_t kMostBlocks = int64_t{1} << 31;

ThreadState::Dim DimOf(const std::array<LaunchExtent, 3>& extents,
                       std::span<const int64_t> params) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(extents[i].Eval(params)); };
  return {at(0), at(1), at(2)};
}

int64_t CountOf(const std::array<LaunchExtent, 3>& extents, std::span<const int64_t> params) {
  int64_t count = 1;
  for (const LaunchExtent& extent : extents) {
    const int64_t n = extent.Eval(params);
    if (n > kMostBlocks / count) return kMostBlocks + 1;
    count *= n;
  }
  return count;
}

}  // namespace

Status cuda::RunGrid(const EmulatedKernel& kernel, ThreadState& state, ThreadState::Dim grid,
                     ThreadState::Dim block, int64_t stack_bytes, void* const* arguments) {
  if (grid.x % kernel.cluster != 0)
    return Internal(fmt::format("{} blocks along x in clusters of {}", grid.x, kernel.cluster));
  WEFT_TRY(const auto cluster, cuda::Cluster::Make(kernel, state, block, stack_bytes));
  state.grid_dim = grid;
  ThreadState::Dim& at = state.block_index;
  for (at.z = 0; at.z < grid.z; ++at.z)
    for (at.y = 0; at.y < grid.y; ++at.y)
      for (at.x = 0; at.x < grid.x; at.x += kernel.cluster) WEFT_TRY(cluster->Run(arguments));
  return {};
}

EmulatedKernels::EmulatedKernels(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
EmulatedKernels::~EmulatedKernels() = default;
EmulatedKernels::EmulatedKernels(EmulatedKernels&&) noexcept = default;
EmulatedKernels& EmulatedKernels::operator=(EmulatedKernels&&) noexcept = default;

Result<EmulatedKernels> EmulatedKernels::Compile(std::vector<CudaText> texts) {
  auto loaded = std::make_unique<Loaded>();
  WEFT_TRY(loaded->library, cuda::CompileForHost(cuda::EmulatedText(texts)));
  loaded->kernels = static_cast<const EmulatedKernel*>(loaded->library->Find(cuda::kKernelsSymbol));
  loaded->state = static_cast<ThreadState*>(loaded->library->Find(cuda::kThreadSymbol));
  if (loaded->kernels == nullptr || loaded->state == nullptr)
    return Internal("compiled text has no kernels");
  loaded->texts = std::move(texts);
  return EmulatedKernels(std::move(loaded));
}

Status EmulatedKernels::Run(size_t k, std::span<void* const> operands,
                            std::span<const int64_t> params, KernelFault* fault) {
  const CudaText& text = loaded_->texts[k];
  int64_t scratch_bytes = 0;
  for (const CudaText* launch : text.Launches()) {
    const int64_t blocks = CountOf(launch->launch.grid, params);
    if (blocks > kMostBlocks) return Limit(fmt::format("{}: its grid is too large", text.symbol));
    scratch_bytes = std::max(scratch_bytes, text.grid_bytes + launch->scratch_bytes * blocks);
  }
  std::vector<unsigned char> scratch(static_cast<size_t>(scratch_bytes), kPattern);
  unsigned char* scratch_data = scratch.data();
  std::vector<void*> values(operands.begin(), operands.end()), arguments;
  for (void*& value : values) arguments.push_back(static_cast<void*>(&value));
  for (const int64_t& param : params) arguments.push_back(const_cast<int64_t*>(&param));
  arguments.push_back(static_cast<void*>(&scratch_data));
  arguments.push_back(static_cast<void*>(&fault));

  const std::lock_guard lock(loaded_->mutex);
  const EmulatedKernel* kernel = loaded_->kernels;
  for (size_t before = 0; before < k; ++before) kernel += loaded_->texts[before].Launches().size();
  for (const CudaText* launch : text.Launches()) {
    Status status =
        cuda::RunGrid(*kernel++, *loaded_->state, DimOf(launch->launch.grid, params),
                      DimOf(launch->launch.block, params), launch->local_bytes, arguments.data());
    if (!status.ok()) return std::move(status).At("kernel " + PrintString(launch->symbol));
  }
  return {};
}

Status EmulatedKernels::Check(size_t k, const loops::LoopNest& nest,
                              std::span<void* const> operands, std::span<const int64_t> params,
                              KernelFault* fault) {
  const auto run = [&](std::span<void* const> own, KernelFault* found) {
    return Run(k, own, params, found);
  };
  return Agree(nest, operands, params, fault, run);
}

}  // namespace weft::codegen
