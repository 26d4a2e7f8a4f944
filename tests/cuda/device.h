// A kernel on the first CUDA device, alone: copied in, launched, copied out. For tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/target.h"
#include "codegen/cuda/kernel.h"
#include "executor/cuda/device.h"
#include "plan/kernel_abi.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::cuda_test {

class Device {
 public:
  // kMissing, with the reason, if there is none; kUnsupported if nothing can be compiled for it.
  static Result<std::unique_ptr<Device>> Open();

  const Target& target() const { return target_; }
  Status Run(const codegen::CudaKernel& kernel, const loops::LoopNest& nest,
             std::span<void* const> operands, std::span<const int64_t> params, KernelFault* fault);

 private:
  Device(std::shared_ptr<const executor::cuda::Device> device, Isa isa)
      : device_(std::move(device)), target_{.kind = TargetKind::kCuda, .isa = isa} {}

  std::shared_ptr<const executor::cuda::Device> device_;
  Target target_;
};

}  // namespace weft::cuda_test
