// A kernel on the first CUDA device, by hand: copied in, launched, copied out. For tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/kernel.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::cuda_test {

class Device {
 public:
  // kMissing, with the reason, if there is none; kUnsupported if nothing can be compiled for it.
  static Result<std::unique_ptr<Device>> Open();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Target& target() const { return target_; }
  Status Run(const codegen::CudaKernel& kernel, const loops::LoopNest& nest,
             std::span<void* const> operands, std::span<const int64_t> params, KernelFault* fault);

 private:
  struct Driver;
  class Memory;
  Device();
  Status Load();
  Status Check(int code, const char* what) const;

  std::unique_ptr<Driver> driver_;
  Target target_;
};

}  // namespace weft::cuda_test
