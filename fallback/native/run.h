// The door of the native kernels.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fallback/execute.h"

namespace weft::fallback::native {

Result<std::unique_ptr<PreparedCall>> PrepareNative(const LibraryCall& call,
                                                    std::span<const Tensor> constants);

}  // namespace weft::fallback::native
