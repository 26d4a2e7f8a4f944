// CUDA C++ -> machine code of a device, by NVRTC, which is loaded when it is first wanted.
// WEFT_NVRTC=none hides it.
//
// Neither a device nor a driver is needed. Compiled without contraction, flushing or approximate
// division, so that a kernel rounds where its nest says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/cubin.h"

namespace weft::codegen {

struct Cubin {
  std::vector<uint8_t> image;
  CudaResources resources;
};

// kMissing if no NVRTC can be loaded, kUnsupported if it does not know the target, kInternal with
// the compiler's log if the text does not compile. Thread-safe.
Result<Cubin> CompileCuda(const std::string& text, const std::string& symbol, const Target& target);
// "nvrtc 13.0", what a cubin depends on besides text and target; kMissing as above.
Result<std::string> NvrtcVersion();

std::string_view CudaArchitecture(Isa isa);  // "sm_90"; empty for a CPU's

}  // namespace weft::codegen
