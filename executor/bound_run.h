// A specialization with its memory bound once, so that a measured run neither allocates nor copies:
// on a device, its inputs and outputs lie there.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "executor/cuda/device.h"
#include "executor/executor.h"

namespace weft::executor {

class BoundRun {
 public:
  // `executor` and the memory of `inputs` (the specialization's, in order) must outlive it. kLimit
  // if there is no memory for the outputs.
  static Result<std::unique_ptr<BoundRun>> Open(Executor& executor, size_t specialization,
                                                std::span<const Tensor> inputs);
  // times: see Executor::Run.
  Status operator()(std::vector<StepTime>* times = nullptr);
  bool IsOnDevice() const { return on_device_.device != nullptr; }
  // One run, and its microseconds: on a device between two events of its stream, so that what the
  // host does behind its back does not count; else by the clock.
  Result<double> Timed();
  // Of the last run, in the memory that the next one writes to.
  Result<std::span<const Tensor>> Outputs();
  const plan::Specialization& spec() const {
    return executor_.plan().specializations[specialization_];
  }

 private:
  BoundRun(Executor& executor, size_t specialization)
      : executor_(executor), specialization_(specialization) {}

  Status Enqueue(std::vector<StepTime>* times);

  Executor& executor_;
  size_t specialization_;
  std::vector<Tensor> outputs_;
  OpenOperands open_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  struct OnDevice {
    std::shared_ptr<const cuda::Device> device;
    std::vector<cuda::Memory> memory;
    std::vector<uint64_t> inputs, outputs;
    cuda::Owned stream, begin, end;  // events
  };
  Result<OnDevice> ToDevice(std::shared_ptr<const cuda::Device> device,
                            std::span<const Tensor> inputs) const;
  OnDevice on_device_;  // without a device, if it runs on the host
  double last_us_ = std::numeric_limits<double>::infinity();  // there
};

}  // namespace weft::executor
