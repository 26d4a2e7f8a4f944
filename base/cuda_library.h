// Libraries of the CUDA toolkit, loaded when they are first asked for: weft starts without them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft {

// Where they may lie, each with a slash behind it: first nothing, for the loader's own search path;
// then CUDA_HOME and CUDA_PATH, the wheels that setup installs, and where the toolkit usually is.
std::vector<std::string> CudaFolders();

// A handle for dlsym of the first of `files` that some folder has; never closed. kMissing, with
// what the loader said last.
Result<void*> OpenCudaLibrary(std::span<const std::string_view> files);

}  // namespace weft
