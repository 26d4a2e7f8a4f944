#include "executor/bound_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

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
  const auto is_held = [&](plan::BufferId id) { return IsHeld(run->spec().buffers[id.index]); };
  if (auto device = executor.device(specialization);
      device && std::ranges::none_of(run->spec().inputs, is_held) &&
      std::ranges::none_of(run->spec().outputs, is_held)) {
    WEFT_TRY(run->on_device_, run->ToDevice(std::move(device), inputs));
  }
  return run;
}

Result<BoundRun::OnDevice> BoundRun::ToDevice(std::shared_ptr<const cuda::Device> device,
                                              std::span<const Tensor> inputs) const {
  OnDevice on{.device = std::move(device)};
  const cuda::Scope scope(*on.device);
  for (const Tensor& t : inputs) {
    WEFT_TRY(on.memory.emplace_back(), on.device->Upload(t.data(), t.bytes(), "an input"));
    on.inputs.push_back(on.memory.back().at());
  }
  for (const Tensor& t : outputs_) {
    WEFT_TRY(on.memory.emplace_back(), on.device->Allocate(t.bytes(), "an output"));
    on.outputs.push_back(on.memory.back().at());
  }
  WEFT_TRY(on.stream, on.device->NewStream());
  WEFT_TRY(on.begin, on.device->NewEvent(/*timed=*/true));
  WEFT_TRY(on.end, on.device->NewEvent(/*timed=*/true));
  return on;
}

Status BoundRun::Enqueue(std::vector<StepTime>* times) {
  return executor_.Enqueue(specialization_, on_device_.inputs, on_device_.outputs, 0,
                           on_device_.stream.get(), times);
}

Status BoundRun::operator()(std::vector<StepTime>* times) {
  if (on_device_.device) {
    WEFT_TRY(Enqueue(times));
    return executor_.Wait(specialization_, on_device_.stream.get());
  }
  WEFT_TRY(executor_.Run(specialization_, in_, out_, nullptr, times, &open_));
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (IsHeld(spec().buffers[spec().outputs[i].index])) outputs_[i] = std::move(open_.outputs[i]);
  return {};
}

Result<double> BoundRun::Timed() {
  if (!on_device_.device) {
    const auto begin = std::chrono::steady_clock::now();
    WEFT_TRY((*this)());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
        .count();
  }
  const cuda::Device& device = *on_device_.device;
  const auto record = [&](const cuda::Owned& event) -> Status {
    const cuda::Scope scope(device);
    return device.Check(device.driver().record(event.get(), on_device_.stream.get()), "timing");
  };
  // What is over sooner than the host has started it is timed behind another of its kind, so that
  // the device need not wait for the host.
  constexpr double kShort = 200;  // us
  if (last_us_ < kShort) WEFT_TRY(Enqueue(nullptr));
  WEFT_TRY(record(on_device_.begin));
  WEFT_TRY(Enqueue(nullptr));
  WEFT_TRY(record(on_device_.end));
  WEFT_TRY(executor_.Wait(specialization_, on_device_.stream.get()));
  const cuda::Scope scope(device);
  float ms = 0;
  WEFT_TRY(device.Check(
      device.driver().elapsed_ms(&ms, on_device_.begin.get(), on_device_.end.get()), "timing"));
  return last_us_ = 1e3 * static_cast<double>(ms);
}

Result<std::span<const Tensor>> BoundRun::Outputs() {
  if (on_device_.device) {
    const cuda::Scope scope(*on_device_.device);
    for (size_t i = 0; i < outputs_.size(); ++i)
      WEFT_TRY(on_device_.device->Download(out_[i], on_device_.memory[in_.size() + i]));
  }
  return std::span<const Tensor>(outputs_);
}

}  // namespace weft::executor
