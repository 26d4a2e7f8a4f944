// What a cubin says of its kernel: an ELF file, read without a driver.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace weft::codegen {

struct CudaResources {
  int32_t registers = 0;     // of a thread
  int64_t stack_bytes = 0;   // of a thread, in local memory
  int64_t shared_bytes = 0;  // static, of a block
  // Instructions that read or write local memory, which is device memory: none where nothing was
  // spilled, and no array has an index that is known only when the kernel runs.
  int64_t local_accesses = 0;
  bool operator==(const CudaResources&) const = default;
};

// Of its first kernel. kInvalid if that is no cubin for sm_80 to sm_100. The layout is that of
// ELF's specification and, for NVIDIA's sections, of what cuobjdump -elf shows.
Result<CudaResources> ReadCubin(std::span<const uint8_t> image);

}  // namespace weft::codegen
