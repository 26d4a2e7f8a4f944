// Which of a library's ways to do a call is the fastest on a device: measured, since what libraries
// expect is often another one. Ways that are about as fast sum in other orders, so what was
// measured is kept: a plan gives the same bits whenever it is loaded.
#pragma once

#include <cstddef>
#include <memory>

#include "base/cache/file_cache.h"
#include "base/status.h"
#include "executor/cuda/device.h"
#include "fallback/device.h"

namespace weft::executor::cuda {

// An index of the call's ways: that of the cache, if it has one for this device, driver and
// library, else tried on memory of its own and put there. An error if none of them can be run.
// Wants a Scope.
Result<size_t> FastestWay(const std::shared_ptr<const Device>& device,
                          const fallback::LibraryCall& call, fallback::DeviceCall& ways,
                          const FileCache* cache);

}  // namespace weft::executor::cuda
