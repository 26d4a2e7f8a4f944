#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/target.h"
#include "fallback/device.h"

namespace weft::fallback::cudnn {

Result<std::unique_ptr<DeviceCall>> PrepareConvolution(const LibraryCall& call,
                                                       const void* context);
Status CheckConvolution(const LibraryCall& call, Isa isa);  // without a device

// "cudnn 9.19.0"; empty if it can't be loaded.
std::string Version();

}  // namespace weft::fallback::cudnn
