// Running: stretches of own kernels by the team, library calls between them.
#include <fmt/format.h>

#include <chrono>
#include <new>

#include "base/float_mode.h"
#include "base/text.h"
#include "executor/state.h"
#include "plan/fault.h"

namespace weft::executor {
namespace {

bool IsSet(const int32_t& flag) { return __atomic_load_n(&flag, __ATOMIC_RELAXED) != 0; }
bool IsSet(const KernelFault& fault) { return __atomic_load_n(&fault.code, __ATOMIC_RELAXED) != 0; }

constexpr size_t kNever = SIZE_MAX;

// How long one thread takes for all of them, at least; without end where that is not known.
double AloneUs(std::span<const ReadyStep> steps) {
  double us = 0;
  for (const ReadyStep& step : steps) us += step.alone_us;
  return us;
}

// What the ranks of a stretch share.
struct Stretch {
  std::span<ReadyStep> steps;
  StepTime* times;  // by step of the specialization, or null
  Barrier& barrier;
  const int32_t& cancel;
  std::atomic<size_t> last = kNever;  // all ranks stop after this one

  // All ranks must leave after the same step, or one would wait at a barrier for ever. A fault is
  // known to all behind the barrier of its step. A cancel can come at any time, so rank 0 alone
  // looks, and names the step before the barrier that ends it.
  void Run(uint32_t rank, uint32_t size) {
    const FloatMode mode;
    Clock::time_point begin;
    for (size_t i = 0; i < steps.size(); ++i) {
      ReadyStep& step = steps[i];
      if (times && rank == 0) begin = Clock::now();
      step.function(&step.args, rank, size);
      if (rank == 0 && IsSet(cancel) && last.load(std::memory_order_relaxed) == kNever)
        last.store(i, std::memory_order_relaxed);
      if (size > 1 && (times || i + 1 < steps.size())) barrier.Wait();
      if (times && rank == 0) times[step.step].us = MicrosecondsSince(begin);
      if (IsSet(step.fault) || last.load(std::memory_order_relaxed) <= i) return;
    }
  }
};

}  // namespace

// The team is entered once for the whole stretch.
void Executor::State::RunOwn(std::span<ReadyStep> steps, StepTime* times) {
  for (ReadyStep& step : steps) step.fault = {};
  Stretch stretch{
      .steps = steps, .times = times, .barrier = shared->team->barrier(), .cancel = shared->cancel};
  if (threads == 1) return stretch.Run(0, 1);
  const auto run = [&stretch](uint32_t rank, uint32_t size) { stretch.Run(rank, size); };
  shared->team->Run(run, AloneUs(steps));
}

Status Executor::State::RunCall(const ReadyStep& step, const Specialized& ready) {
  Status status;
  void* const* at = ready.operands.data() + step.first;
  shared->team->RunInArena([&] {
    const FloatMode mode;
    const fallback::Cancellable cancellable(shared->cancel);
    try {
      status =
          step.call->Run({at, step.inputs}, {at + step.inputs, step.outputs}, call_scratch.get());
    } catch (const std::bad_alloc&) {
      status = Limit("no memory in a library call");
    }
  });
  return status;
}

Status Executor::State::RunOther(const plan::Specialization& s, const ReadyStep& ready_step,
                                 Specialized& ready) {
  const plan::Step& step = s.steps[ready_step.step];
  if (step.kind == plan::StepKind::kPlan) {
    Status status = RunNested(s, ready_step.step, ready);
    return status.ok() ? status
                       : std::move(status).Because("in the nested plan " + PrintString(step.name));
  }
  Status status = ready_step.call ? RunCall(ready_step, ready) : RunOpen(s, ready_step.step, ready);
  return status.ok() ? status : std::move(status).At("step " + PrintString(step.name));
}

Status Executor::State::CheckCancel() const {
  if (!IsSet(shared->cancel)) return {};
  return Status(Code::kInterrupted, "the run was cancelled");
}

Status Executor::State::RunSteps(const plan::Specialization& s, std::span<ReadyStep> steps,
                                 Specialized& ready, std::vector<StepTime>* times) {
  // A nested run ends within another, which is to see the flag, too.
  const ForgetCancel forget{depth == 0 ? &shared->cancel : nullptr};
  WEFT_TRY(CheckCancel());
  if (ready.on_device)
    return steps.size() == ready.steps.size() ? RunOnDevice(s, ready, times)
                                              : RunStepOnDevice(s, steps[0].step, ready);
  if (times) times->assign(s.steps.size(), {});
  for (size_t i = 0; i < steps.size();) {
    size_t end = i;
    while (end < steps.size() && steps[end].function) ++end;
    if (end > i) {
      RunOwn(steps.subspan(i, end - i), times ? times->data() : nullptr);
    } else {
      const auto begin = times ? Clock::now() : Clock::time_point();
      end = i + 1;
      WEFT_TRY(RunOther(s, steps[i], ready));
      if (times) (*times)[steps[i].step].us = MicrosecondsSince(begin);
    }
    for (; i < end; ++i)
      if (IsSet(steps[i].fault)) return Fault(s, steps[i]);
    WEFT_TRY(CheckCancel());
  }
  return {};
}

Status Executor::State::Fault(const plan::Specialization& s, const ReadyStep& ready) const {
  const plan::Step& step = s.steps[ready.step];
  const uint64_t operand = ready.fault.operand;
  std::string what = plan::DescribeFault(ready.fault);
  if (operand < step.inputs.size() + step.outputs.size()) {
    const plan::BufferId id = operand < step.inputs.size()
                                  ? step.inputs[operand]
                                  : step.outputs[operand - step.inputs.size()];
    const plan::Buffer& b = s.buffers[id.index];
    what = plan::DescribeFault(ready.fault, b.name, b.dtype, b.shape);
  }
  std::string nodes;
  for (const std::string& node : step.nodes)
    nodes += (nodes.empty() ? ", for node " : ", ") + PrintString(node);
  return Invalid(std::move(what))
      .At(fmt::format("kernel {}{}", PrintString(plan.kernels[step.kernel.index].name), nodes))
      .Try("check the values of the integer inputs");
}

}  // namespace weft::executor
