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
// Everything that a cubin depends on besides the nest and the target: NVRTC's version and a number
// that grows when the emitted text changes, "nvrtc 13.0 text 1". kMissing without NVRTC.
Result<std::string> CudaCodegenIdentity();

}  // namespace weft::codegen
