// LoopNest with block and thread loops -> CUDA C++ that a person can read.
//
//   extern "C" __global__ void NAME(operands…, params…, unsigned char* weft_scratch,
//                                   WeftFault* weft_error)
//
// Operands are pointers in the order of the nest; params are `long long`. A block's shared space is
// __shared__ as far as that goes; what does not fit lies in weft_scratch, one slice for each block.
// Of cluster space a block has its own slice in __shared__, and finds those of others by what
// sm_90 added; a launch of clusters is __cluster_dims__. Cache and register space are arrays of
// a thread. Nothing here decides: the nest says which loop is a block or a thread, where barriers
// stand, and what is fused into one rounding. A nest of several launches has a function for each,
// the later ones NAME_1, NAME_2, …. The text is to be compiled without contraction (nvrtc.h does).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/launch.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

struct CudaText {
  std::string text;
  std::string symbol;
  Launch launch;
  int64_t shared_bytes = 0;    // static, of a block
  int64_t scratch_bytes = 0;   // of a block; the launch needs this times its blocks
  int64_t local_bytes = 0;     // cache and register space of a thread
  int64_t grid_bytes = 0;      // scratch of all blocks and launches, before that of blocks
  std::vector<CudaText> then;  // launches that follow, without texts of their own

  // Of this and of what follows.
  std::vector<const CudaText*> Launches() const;
};

// The nest must verify. kUnsupported if it is not mapped to a grid, or if C can't spell its name.
Result<CudaText> EmitCudaText(const loops::LoopNest& nest, const Target& target);

}  // namespace weft::codegen
