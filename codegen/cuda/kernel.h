// A mapped nest, compiled: all that a plan and an executor need to launch it.
#pragma once

#include <string>

#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct CudaKernel {
  CudaText source;  // text, symbol, launch, bytes of scratch
  Cubin cubin;
};

Result<CudaKernel> EmitCuda(const loops::LoopNest& nest, const Target& target);
// Key of a cubin in the code cache: the nest, the architecture, NVRTC's version and a number that
// grows when the emitted text changes. kMissing without NVRTC.
Result<std::string> CudaKernelKey(const loops::LoopNest& nest, const Target& target);

}  // namespace weft::codegen
