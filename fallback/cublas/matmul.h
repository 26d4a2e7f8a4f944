#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "fallback/device.h"

namespace weft::fallback::cublas {

Result<std::unique_ptr<DeviceCall>> PrepareMatmul(const LibraryCall& call, const void* context);

Status CheckPresent();

// "cublasLt 13.1.0"; empty if it can't be loaded.
std::string Version();

}  // namespace weft::fallback::cublas
