// A specialization with its memory bound once, so that a measured run neither allocates nor copies.
#pragma once

#include <memory>
#include <span>
#include <vector>

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
  const std::vector<Tensor>& outputs() const { return outputs_; }
  const plan::Specialization& spec() const {
    return executor_.plan().specializations[specialization_];
  }

 private:
  BoundRun(Executor& executor, size_t specialization)
      : executor_(executor), specialization_(specialization) {}

  Executor& executor_;
  size_t specialization_;
  std::vector<Tensor> outputs_;
  OpenOperands open_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace weft::executor
