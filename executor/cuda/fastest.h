// Which of a library's ways to do a call is the fastest on a device: measured, since what libraries
// expect is often another one.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "executor/cuda/device.h"
#include "fallback/device.h"

namespace weft::executor::cuda {

// An index of the call's ways, tried on memory of its own. An error if none of them can be run.
// Wants a Scope.
Result<size_t> FastestWay(const std::shared_ptr<const Device>& device,
                          const fallback::LibraryCall& call, fallback::DeviceCall& ways);

}  // namespace weft::executor::cuda
