#include "executor/bound_run.h"

#include <fmt/format.h>

namespace weft::executor {

Result<std::unique_ptr<BoundRun>> BoundRun::Open(Executor& executor, size_t specialization,
                                                 std::span<const Tensor> inputs) {
  std::unique_ptr<BoundRun> run(new BoundRun(executor, specialization));
  for (const Tensor& t : inputs) run->in_.push_back(t.data());
  for (const plan::BufferId id : run->spec().outputs) {
    const plan::Buffer& buffer = run->spec().buffers[id.index];
    auto output = Tensor::Allocate(buffer.dtype, buffer.shape);
    if (!output.ok())
      return std::move(output.status()).At(fmt::format("output \"{}\"", buffer.name));
    run->outputs_.push_back(*std::move(output));
  }
  for (Tensor& t : run->outputs_) run->out_.push_back(t.mutable_data());
  return run;
}

Status BoundRun::operator()(std::vector<StepTime>* times) {
  return executor_.Run(specialization_, in_, out_, nullptr, times);
}

}  // namespace weft::executor
