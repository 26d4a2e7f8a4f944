// The CUDA driver of this machine, loaded when it is first asked for: weft starts without it.
//
// Its entries that are used, by the names and signatures of the CUDA Driver API (12 and 13),
// declared here so that building needs no toolkit. Handles are opaque pointers, a device is an int,
// an address on a device an integer, so that nothing on the host follows it by mistake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace weft::executor {

struct CudaDevice {
  int32_t index = 0;             // as the driver counts them
  std::string name;              // as the driver says it, "NVIDIA H100 80GB HBM3"
  int32_t major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
  int32_t multiprocessors = 0;
  std::string driver;  // the newest CUDA that its driver knows, "13.0"
};

// At least one. kMissing, with what to try, if there is no driver, if it does not start, or if it
// sees no device. Asked once a process; thread-safe.
Result<std::vector<CudaDevice>> CudaDevices();

namespace cuda {

using Address = uint64_t;  // CUdeviceptr
using Handle = void*;  // CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUgraph, CUgraphExec

struct Driver {
  int (*error_string)(int, const char**) = nullptr;
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*device_memory)(size_t*, int) = nullptr;
  int (*retain)(Handle*, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*push)(Handle) = nullptr;
  int (*pop)(Handle*) = nullptr;
  int (*load)(Handle*, const void*) = nullptr;
  int (*unload)(Handle) = nullptr;
  int (*function)(Handle*, Handle, const char*) = nullptr;
  int (*function_attribute)(int*, int, Handle) = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*free)(Address) = nullptr;
  int (*allocate_pinned)(void**, size_t, unsigned) = nullptr;
  int (*free_pinned)(void*) = nullptr;
  int (*to_device)(Address, const void*, size_t, Handle) = nullptr;
  int (*to_host)(void*, Address, size_t, Handle) = nullptr;
  int (*on_device)(Address, Address, size_t, Handle) = nullptr;
  int (*fill)(Address, unsigned char, size_t, Handle) = nullptr;
  int (*new_stream)(Handle*, unsigned) = nullptr;
  int (*end_stream)(Handle) = nullptr;
  int (*wait_for_stream)(Handle) = nullptr;
  int (*stream_waits)(Handle, Handle, unsigned) = nullptr;
  int (*begin_capture)(Handle, int) = nullptr;
  int (*end_capture)(Handle, Handle*) = nullptr;
  int (*instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  int (*launch_graph)(Handle, Handle) = nullptr;
  int (*end_graph)(Handle) = nullptr;
  int (*end_executable)(Handle) = nullptr;
  int (*new_event)(Handle*, unsigned) = nullptr;
  int (*end_event)(Handle) = nullptr;
  int (*record)(Handle, Handle) = nullptr;
  int (*wait_for_event)(Handle) = nullptr;
  int (*elapsed_ms)(float*, Handle, Handle) = nullptr;
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                Handle, void**, void**) = nullptr;
};

// Started; stays for the rest of the process. kMissing as above.
Result<const Driver*> LoadDriver();
// What a call that gave `code` failed with, while doing `what`: kLimit if memory ran out, else
// kInternal.
Status Check(const Driver& driver, int code, const char* what);

}  // namespace cuda
}  // namespace weft::executor
