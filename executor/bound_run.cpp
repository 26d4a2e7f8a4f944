#include "executor/bound_run.h"

#include <fmt/format.h>

namespace weft::executor {

Result<std::unique_ptr<BoundRun>> BoundRun::Open(Executor& executor, size_t specialization,
                                                 std::span<const Tensor> inputs) {
  std::unique_ptr<BoundRun> run(new BoundRun(executor, specialization));
  for (const Tensor& t : inputs) run->in_.push_back(t.data());
  run->open_.inputs.assign(inputs.begin(), inputs.end());
  for (const plan::BufferId id : run->spec().outputs) {
    const plan::Buffer& buffer = run->spec().buffers[id.index];
    if (IsHeld(buffer)) {
      run->outputs_.emplace_back();
      continue;
    }
    auto output = Tensor::AllocateUnset(buffer.dtype, buffer.shape);
    if (!output.ok())
      return std::move(output.status()).At(fmt::format("output \"{}\"", buffer.name));
    run->outputs_.push_back(*std::move(output));
  }
  for (Tensor& t : run->outputs_) run->out_.push_back(t.mutable_data());
  return run;
}

Status BoundRun::operator()(std::vector<StepTime>* times) {
  WEFT_TRY(executor_.Run(specialization_, in_, out_, nullptr, times, &open_));
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (IsHeld(spec().buffers[spec().outputs[i].index])) outputs_[i] = std::move(open_.outputs[i]);
  return {};
}

}  // namespace weft::executor
