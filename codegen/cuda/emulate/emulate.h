// Emitted CUDA C++ on a CPU: the very text that NVRTC gets, compiled by a C++ compiler behind a few
// words (words.h), run block after block and thread after thread (block.h). A second witness of a
// nest, and the only one of its text, where there is no device.
//
// Slow, and no judge of races: the interpreter (codegen/reference) finds those.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "codegen/cuda/emit.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

class EmulatedKernels {
 public:
  // One run of the compiler for all. kMissing without one; kInternal if it refuses the texts.
  static Result<EmulatedKernels> Compile(std::vector<CudaText> texts);
  ~EmulatedKernels();
  EmulatedKernels(EmulatedKernels&&) noexcept;
  EmulatedKernels& operator=(EmulatedKernels&&) noexcept;

  // Kernel k of the texts. Operands as for Interpret (codegen/reference/interpret.h). Shared memory
  // and scratch begin as a pattern of ones in every block. kInternal if threads stand at different
  // barriers. From several threads too: runs take turns.
  Status Run(size_t k, std::span<void* const> operands, std::span<const int64_t> params,
             KernelFault* fault);

  // Kernel k against its nest (codegen/reference/agree.h).
  Status Check(size_t k, const loops::LoopNest& nest, std::span<void* const> operands,
               std::span<const int64_t> params, KernelFault* fault);

 private:
  struct Loaded;
  explicit EmulatedKernels(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace weft::codegen
