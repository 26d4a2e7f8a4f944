// Machine code of a kernel: from the user's cache, or compiled now.
#pragma once

#include <memory>

#include "executor/executor.h"
#include "plan/kernel_abi.h"

namespace weft::executor {

// Keeps the shared object loaded while it lives.
class LoadedKernel {
 public:
  LoadedKernel(void* handle, KernelFunction function) : handle_(handle), function_(function) {}
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  KernelFunction function() const { return function_; }

 private:
  void* handle_;
  KernelFunction function_;
};

// Code is only ever loaded from the cache directory of the user's own or straight from the
// compiler.
Result<std::unique_ptr<LoadedKernel>> LoadKernel(const plan::Kernel& kernel, const Target& target,
                                                 const LoadOptions& options);
// Compiled now, and put into the cache as an entry of that kind.
Result<std::vector<uint8_t>> CompileCode(const plan::Kernel& kernel, const Target& target,
                                         const LoadOptions& options, std::string_view kind);

}  // namespace weft::executor
