// What CUDA C++ has and C++ lacks, as C++: put in front of a kernel's text, it makes a C++ compiler
// take the text as it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/emulate/block.h"

namespace weft::codegen::cuda {

// The library exports these.
inline constexpr const char* kKernelsSymbol =
    "weft_kernels";  // EmulatedKernel, by the texts' order; the last has no symbol
inline constexpr const char* kThreadSymbol = "weft_thread";  // the ThreadState that kernels read

// A function, as the library describes it: those of a text one after another.
struct EmulatedKernel {
  const char* symbol;
  KernelEntry* entry;
  std::byte *shared_begin, *shared_end;  // a block's __shared__ memory
  unsigned arguments;                    // how many, of 8 bytes each
  unsigned cluster;                      // blocks that run together
};

// A launch: all its clusters, one after another, whose shared memory begins as a pattern of ones.
// `state`: that of the kernel's library; `stack_bytes`: of a thread, for its arrays. kInternal if
// threads stand at different barriers, or no clusters make up the grid.
Status RunGrid(const EmulatedKernel& kernel, ThreadState& state, ThreadState::Dim grid,
               ThreadState::Dim block, int64_t stack_bytes, void* const* arguments);

// C++ of all texts: each in a namespace of its own, since their helpers have the same names.
std::string EmulatedText(std::span<const CudaText> texts);

}  // namespace weft::codegen::cuda
