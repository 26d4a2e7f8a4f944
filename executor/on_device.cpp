// Plans for a device: kernels there, everything else here.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/text.h"
#include "executor/state.h"

namespace weft::executor {
namespace {

constexpr uint64_t kOperandAlign = 16;  // kernels load four words at once
constexpr std::string_view kCubin = "cubin";

// What is cached may be of another driver's time: then it is compiled again.
Result<cuda::Function> LoadFunction(const cuda::Device& device, const plan::Kernel& kernel,
                                    const Target& target, const LoadOptions& options) {
  if (options.cache)
    if (const auto image = options.cache->Get(kCubin, kernel.key))
      if (auto loaded = device.Load(*image, kernel); loaded.ok()) return loaded;
  WEFT_TRY(const std::vector<uint8_t> image, CompileCode(kernel, target, options, kCubin));
  return device.Load(image, kernel);
}

Status CheckAddresses(const plan::Specialization& s, const std::vector<plan::BufferId>& buffers,
                      std::span<const uint64_t> addresses, const char* what) {
  if (addresses.size() != buffers.size())
    return Usage(
        fmt::format("found {} {}s, the plan has {}", addresses.size(), what, buffers.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const plan::Buffer& b = s.buffers[buffers[i].index];
    const std::string where = fmt::format("{} {}", what, PrintString(b.name));
    if (IsHeld(b))
      return Unsupported("it is as large as it is given or made, or strings: no memory of a device")
          .At(where);
    if (b.bytes > 0 && addresses[i] == 0) return Usage("no memory was given").At(where);
    if (addresses[i] % kOperandAlign != 0)
      return Usage(fmt::format("an address that is not aligned to {} bytes", kOperandAlign))
          .At(where);
  }
  return {};
}

Status CheckApart(const plan::Specialization& s, std::span<const uint64_t> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.outputs[i].index];
    for (size_t k = 0; k < i; ++k)
      if (Overlap(outputs[i], b.bytes, outputs[k], s.buffers[s.outputs[k].index].bytes))
        return Usage("its memory is another output's too").At("output " + PrintString(b.name));
  }
  return {};
}

}  // namespace

Status Executor::State::PrepareDevice(const LoadOptions& options) {
  for (const plan::Specialization& s : plan.specializations)
    uses_device |= std::ranges::any_of(s.steps, cuda::RunsOnDevice);
  if (!uses_device) return {};
  const std::string context = fmt::format("the plan is for {}", weft::Print(plan.target));
  if (!shared->device) {
    auto session = cuda::Session::Open(plan.target.isa);
    if (!session.ok()) return std::move(session.status()).Because(context);
    shared->device = *std::move(session);
  }
  const cuda::Scope scope(*shared->device->device);
  for (const plan::Kernel& k : plan.kernels) {
    WEFT_TRY(auto function, LoadFunction(*shared->device->device, k, plan.target, options));
    functions.push_back(std::move(function));
  }
  return {};
}

Result<Bytes> Executor::State::AllocateHost(int64_t bytes, const char* what) const {
  if (!uses_device) return Allocate(bytes, what);
  const cuda::Scope scope(*shared->device->device);
  return shared->device->device->AllocatePinned(bytes, what);
}

Status Executor::State::EnqueueOnDevice(const plan::Specialization& s, Specialized& ready,
                                        cuda::Handle stream, std::vector<StepTime>* times) {
  const auto host_step = [&](size_t step) -> Status {
    WEFT_TRY(CheckCancel());
    const auto at = std::ranges::lower_bound(ready.steps, step, {}, &ReadyStep::step);
    return RunOther(s, *at, ready);
  };
  Status status = ready.on_device->Enqueue(stream, host_step, times);
  // What was enqueued before an error reads and writes memory that may be gone soon.
  if (!status.ok()) static_cast<void>(ready.on_device->Wait(stream).ok());
  return status;
}

Status Executor::State::RunOnDevice(const plan::Specialization& s, Specialized& ready,
                                    std::vector<StepTime>* times) {
  const cuda::Handle stream = shared->device->stream.get();
  WEFT_TRY(EnqueueOnDevice(s, ready, stream, times));
  WEFT_TRY(ready.on_device->Wait(stream));
  WEFT_TRY(FaultOnDevice(s, ready));
  return CheckCancel();
}

Status Executor::State::RunStepOnDevice(const plan::Specialization& s, size_t step,
                                        Specialized& ready) {
  const auto at = std::ranges::lower_bound(ready.steps, step, {}, &ReadyStep::step);
  if (!cuda::RunsOnDevice(s.steps[step])) return RunOther(s, *at, ready);
  const cuda::Handle stream = shared->device->stream.get();
  WEFT_TRY(ready.on_device->EnqueueStep(stream, step));
  WEFT_TRY(ready.on_device->Wait(stream));
  return FaultOnDevice(s, ready);
}

Status Executor::State::FaultOnDevice(const plan::Specialization& s, Specialized& ready) {
  const auto found = ready.on_device->TakeFault();
  if (!found) return {};
  ReadyStep step{.step = found->step};
  step.fault = found->fault;
  return Fault(s, step);
}

std::shared_ptr<const cuda::Device> Executor::device(size_t index) const {
  const bool has = index < state_->specialized.size() && state_->specialized[index].on_device;
  return has ? state_->shared->device->device : nullptr;
}

Status Executor::Enqueue(size_t index, std::span<const uint64_t> inputs,
                         std::span<const uint64_t> outputs, uint64_t arena, void* stream,
                         std::vector<StepTime>* times) {
  if (!device(index))
    return Usage(fmt::format("specialization {} does not run on a device", index));
  try {
    const plan::Specialization& s = plan().specializations[index];
    WEFT_TRY(CheckAddresses(s, s.inputs, inputs, "input"));
    WEFT_TRY(CheckAddresses(s, s.outputs, outputs, "output"));
    WEFT_TRY(CheckApart(s, outputs));
    if (arena % kAlign != 0)
      return Usage(fmt::format("an arena that is not aligned to {} bytes", kAlign));
    const std::lock_guard lock(state_->mutex);
    const ForgetCancel forget{&state_->shared->cancel};
    WEFT_TRY(state_->CheckCancel());
    Specialized& ready = state_->specialized[index];
    WEFT_TRY(state_->BindOnDevice(s, ready, inputs, outputs, arena));
    cuda::Handle const on = stream ? stream : state_->shared->device->stream.get();
    Status status = state_->EnqueueOnDevice(s, ready, on, times);
    for (Tensor& tensor : ready.made) tensor = {};
    WEFT_TRY(std::move(status));
    if (Status cancelled = state_->CheckCancel(); !cancelled.ok()) {
      WEFT_TRY(ready.on_device->Wait(on));
      return cancelled;
    }
    return {};
  } catch (const std::bad_alloc&) {
    return Limit("no memory");
  }
}

Status Executor::Wait(size_t index, void* stream) {
  if (!device(index))
    return Usage(fmt::format("specialization {} does not run on a device", index));
  const std::lock_guard lock(state_->mutex);
  Specialized& ready = state_->specialized[index];
  cuda::Handle const on = stream ? stream : state_->shared->device->stream.get();
  WEFT_TRY(ready.on_device->Wait(on));
  return state_->FaultOnDevice(plan().specializations[index], ready);
}

}  // namespace weft::executor
