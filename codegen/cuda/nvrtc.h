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

namespace weft::codegen {

struct CudaResources {  // of a kernel, as the assembler reports them
  int32_t registers = 0;
  int64_t spill_bytes = 0;   // stores and loads
  int64_t stack_bytes = 0;   // of a thread
  int64_t shared_bytes = 0;  // static, of a block
};

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
// The figures in ptxas's report on one kernel; absent ones stay 0.
CudaResources ParseResources(std::string_view log);

}  // namespace weft::codegen
