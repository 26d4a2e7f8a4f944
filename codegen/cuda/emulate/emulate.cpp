#include "codegen/cuda/emulate/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/tensor.h"
#include "base/text.h"
#include "codegen/cuda/emulate/block.h"
#include "codegen/cuda/emulate/compiler.h"
#include "codegen/cuda/emulate/words.h"
#include "codegen/reference/interpret.h"

namespace weft::codegen {

using cuda::Block;
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

// The first element where two memories differ, but for the bits of NaNs; -1 if there is none.
int64_t FirstDifference(Dtype dtype, int64_t bytes, const void* a, const void* b) {
  if (bytes == 0 || std::memcmp(a, b, static_cast<size_t>(bytes)) == 0) return -1;
  const int64_t size = SizeBytes(dtype), elems = bytes / size;
  const Tensor x = Tensor::Borrow(dtype, {elems}, nullptr, a);
  const Tensor y = Tensor::Borrow(dtype, {elems}, nullptr, b);
  for (int64_t i = 0; i < elems; ++i) {
    const auto at = [&](const void* p) { return static_cast<const std::byte*>(p) + i * size; };
    if (std::memcmp(at(a), at(b), static_cast<size_t>(size)) == 0) continue;
    if (IsFloat(dtype) && std::isnan(ElemAsDouble(x, i)) && std::isnan(ElemAsDouble(y, i)))
      continue;
    return i;
  }
  return -1;
}

// Operands of a second run of a kernel: what it writes lies in memory of its own, between zones
// that nobody may write.
class OwnOutputs {
 public:
  // What is only written begins as the pattern, there and here.
  OwnOutputs(const loops::LoopNest& nest, std::span<void* const> operands,
             std::span<const int64_t> params) {
    for (const loops::BufferId id : loops::Operands(nest)) {
      const loops::Buffer& buffer = nest[id];
      void* given = operands[operands_.size()];
      if (buffer.access == loops::Access::kIn) {
        operands_.push_back(given);
        continue;
      }
      const int64_t bytes = loops::BufferBytes(buffer, {params.begin(), params.end()});
      auto& held = outputs_.emplace_back(Output{id, operands_.size(), bytes}).held;
      held.resize(static_cast<size_t>(bytes) + 3 * kZone, std::byte{kPattern});
      const auto address = reinterpret_cast<uintptr_t>(held.data());
      std::byte* own = held.data() + kZone + (kZone - address % kZone) % kZone;
      if (bytes > 0 && buffer.access == loops::Access::kInOut)
        std::memcpy(own, given, static_cast<size_t>(bytes));
      if (bytes > 0 && buffer.access == loops::Access::kOut)
        std::memset(given, kPattern, static_cast<size_t>(bytes));
      operands_.push_back(own);
    }
  }

  std::span<void* const> operands() const { return operands_; }

  // Against the operands that another run wrote.
  Status Compare(const loops::LoopNest& nest, std::span<void* const> others) const {
    for (const Output& o : outputs_) {
      const loops::Buffer& buffer = nest[o.id];
      const auto* own = static_cast<const std::byte*>(operands_[o.place]);
      const int64_t at = FirstDifference(buffer.dtype, o.bytes, others[o.place], own);
      if (at >= 0)
        return Internal(fmt::format("the text and its nest differ in element {} of {}", at,
                                    PrintName(buffer.name)));
      const auto intact = [](std::byte b) { return b == std::byte{kPattern}; };
      const std::byte *begin = o.held.data(), *end = begin + o.held.size();
      if (!std::all_of(begin, own, intact) || !std::all_of(own + o.bytes, end, intact))
        return Internal(fmt::format("the text writes outside {}", PrintName(buffer.name)));
    }
    return {};
  }

 private:
  static constexpr size_t kZone = loops::kOperandAlign;
  struct Output {
    loops::BufferId id;
    size_t place;  // among the operands
    int64_t bytes;
    std::vector<std::byte> held;
  };
  std::vector<Output> outputs_;
  std::vector<void*> operands_;
};

}  // namespace

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
  const EmulatedKernel& kernel = loaded_->kernels[k];
  const int64_t blocks = CountOf(text.launch.grid, params);
  if (blocks > kMostBlocks) return Limit(fmt::format("{}: its grid is too large", text.symbol));
  std::vector<unsigned char> scratch(static_cast<size_t>(text.scratch_bytes * blocks), kPattern);
  unsigned char* scratch_data = scratch.data();
  std::vector<void*> values(operands.begin(), operands.end()), arguments;
  for (void*& value : values) arguments.push_back(&value);
  for (const int64_t& param : params) arguments.push_back(const_cast<int64_t*>(&param));
  arguments.push_back(&scratch_data);
  arguments.push_back(static_cast<void*>(&fault));

  const std::lock_guard lock(loaded_->mutex);
  ThreadState& state = *loaded_->state;
  WEFT_TRY(const auto block,
           Block::Make(state, DimOf(text.launch.block, params), text.local_bytes));
  state.grid_dim = DimOf(text.launch.grid, params);
  for (state.block_index.z = 0; state.block_index.z < state.grid_dim.z; ++state.block_index.z) {
    for (state.block_index.y = 0; state.block_index.y < state.grid_dim.y; ++state.block_index.y) {
      for (state.block_index.x = 0; state.block_index.x < state.grid_dim.x; ++state.block_index.x) {
        std::memset(kernel.shared_begin, kPattern,
                    static_cast<size_t>(kernel.shared_end - kernel.shared_begin));
        Status status = block->Run(kernel.entry, arguments.data());
        if (!status.ok()) return std::move(status).At("kernel " + PrintString(text.symbol));
      }
    }
  }
  return {};
}

Status EmulatedKernels::Check(size_t k, const loops::LoopNest& nest,
                              std::span<void* const> operands, std::span<const int64_t> params,
                              KernelFault* fault) {
  const OwnOutputs own(nest, operands, params);
  WEFT_TRY(Interpret(nest, operands, params, fault));
  KernelFault found{};
  WEFT_TRY(Run(k, own.operands(), params, &found));
  const std::string where = "kernel " + PrintString(nest.name);
  if (found.code != fault->code || (found.code != 0 && found.operand != fault->operand))
    return Internal(fmt::format("the text reports fault {} of operand {}, its nest {} of {}",
                                found.code, found.operand, fault->code, fault->operand))
        .At(where);
  Status same = own.Compare(nest, operands);
  if (!same.ok()) return std::move(same).At(where);
  return {};
}

}  // namespace weft::codegen
