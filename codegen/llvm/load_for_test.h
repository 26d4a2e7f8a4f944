// Machine code as a function, for tests and benchmarks; the executor loads by path from its cache.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "codegen/llvm/emit.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

struct LoadedKernel {
  std::shared_ptr<void> library;  // keeps the code mapped
  KernelFunction function = nullptr;
};

Result<LoadedKernel> LoadKernel(const MachineCode& code, const std::string& name);

}  // namespace weft::codegen
