// The CUDA driver of this machine, loaded when it is first asked for: weft starts without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace weft::executor {

struct CudaDevice {
  std::string name;              // as the driver says it, "NVIDIA H100 80GB HBM3"
  int32_t major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
};

// At least one. kMissing, with what to try, if there is no driver, if it does not start, or if it
// sees no device. Asked once a process; thread-safe.
Result<std::vector<CudaDevice>> CudaDevices();

}  // namespace weft::executor
