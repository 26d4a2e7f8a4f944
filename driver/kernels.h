// Kernels of a plan for either kind of target: a nest's symbol, what it is started with, its code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cache/file_cache.h"
#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/cubin.h"
#include "plan/plan.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::driver {

// The compiler behind a target, with its version: "llvm 19.1.7 codegen 1", "nvrtc 13.0 text 1".
// kMissing if it has to be loaded and is not there.
Result<std::string> CodegenIdentity(const Target& target);
// FileCache's kind of what CompileKernel gives: "so" or "cubin".
std::string_view CodeKind(const Target& target);

// The nest under the name that its symbol gets, which tells nests apart: plans of several shapes
// can be merged.
loops::LoopNest WithSymbol(loops::LoopNest nest);
// The nest, which must have its symbol, as a kernel. kUnsupported on CUDA if the grid depends on
// run-time sizes, kLimit if no device takes it.
Result<plan::Kernel> MakeKernel(const loops::LoopNest& nest, const Target& target,
                                std::string_view identity);
// The nest of a kernel from a plan that nobody vouches for: it is verified, and what the kernel
// says besides must follow from it, its key under this compiler included.
Result<loops::LoopNest> CheckKernel(const plan::Kernel& kernel, const Target& target,
                                    std::string_view identity);
// A shared object, or a cubin, of a kernel that is checked first.
Result<std::vector<uint8_t>> CompileKernel(const plan::Kernel& kernel, const Target& target);
// What a kernel for CUDA takes of a device, by its machine code: the cached one, else compiled
// anew.
Result<codegen::CudaResources> ResourcesOf(const plan::Kernel& kernel, const Target& target,
                                           const FileCache* cache);

}  // namespace weft::driver
