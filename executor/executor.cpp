#include "executor/executor.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/threads/team.h"
#include "executor/kernel_loader.h"
#include "fallback/execute.h"
#include "plan/kernel_abi.h"

namespace weft::executor {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::StepKind;
using Clock = std::chrono::steady_clock;

constexpr size_t kAlign = 64;

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<void, FreeDeleter>;

Result<Bytes> Allocate(int64_t bytes, const char* what) {
  const size_t rounded = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + kAlign - 1) / kAlign * kAlign;
  void* p = std::aligned_alloc(kAlign, rounded);
  if (!p) return Limit(fmt::format("no memory for {} of {} bytes", what, bytes));
  return Bytes(p);
}

bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlign == 0; }

// Kernels compute with round-to-nearest and with subnormals, whatever the caller's thread is set to.
class FloatMode {
 public:
  FloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatMode() { _mm_setcsr(saved_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned saved_;
};

// A step with everything looked up: what a run walks through.
struct ReadyStep {
  StepKind kind;
  KernelFunction function = nullptr;
  fallback::PreparedCall* call = nullptr;
  std::vector<void*> operands;       // own: inputs then outputs
  std::vector<const void*> inputs;   // calls
  std::vector<void*> outputs;
};

}  // namespace

struct Executor::State {
  plan::Plan plan;
  uint32_t threads = 1;
  std::unique_ptr<Team> team;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  // By specialization and step; null for other kinds.
  std::vector<std::vector<std::unique_ptr<fallback::PreparedCall>>> calls;
  std::vector<std::map<int32_t, Tensor>> weights;  // by specialization and buffer
  Bytes arena, rank_scratch, team_scratch, call_scratch;
  std::vector<Bytes> staged;                       // aligned copies of a caller's buffers, by buffer
  int64_t rank_scratch_bytes = 0;
  KernelFault fault{};
  int32_t cancel = 0;

  Status Prepare(const LoadOptions& options);
  Status PrepareCalls(size_t specialization);
  Status Bind(size_t specialization, std::span<const void* const> inputs, std::span<void* const> outputs,
              void* own_arena, std::vector<void*>& address);
  ReadyStep Ready(size_t specialization, size_t step, const std::vector<void*>& address) const;
  Status RunSteps(size_t specialization, const std::vector<ReadyStep>& steps, std::vector<StepTime>* times);
  void RunOwn(std::span<const ReadyStep> steps, std::span<StepTime> times);
  Status Fault(const plan::Specialization& s) const;
};

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Load(plan::Plan plan, const LoadOptions& options) {
  WEFT_TRY(plan::Verify(plan));
  if (plan.target.kind == TargetKind::kCuda)
    return Missing(fmt::format("the plan is for {}, and no CUDA device is there", weft::Print(plan.target)));
  if (!HostRuns(plan.target.isa))
    return Missing(fmt::format("the plan is for {}, which this processor does not run", weft::Print(plan.target)))
        .Try("build it again with --target cpu:native");
  auto state = std::make_unique<State>();
  state->plan = std::move(plan);
  state->threads = options.threads ? options.threads : static_cast<uint32_t>(UsableThreads());
  WEFT_TRY(state->team, Team::Create(state->threads));
  WEFT_TRY(state->Prepare(options));
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Status Executor::State::Prepare(const LoadOptions& options) {
  int64_t rank_bytes = 0, team_bytes = 0, arena_bytes = 0;
  for (const plan::Kernel& k : plan.kernels) {
    WEFT_TRY(auto kernel, LoadKernel(k, plan.target, options));
    kernels.push_back(std::move(kernel));
    rank_bytes = std::max(rank_bytes, k.rank_scratch_bytes);
    team_bytes = std::max(team_bytes, k.team_scratch_bytes);
  }
  for (size_t i = 0; i < plan.specializations.size(); ++i) {
    WEFT_TRY(PrepareCalls(i));
    arena_bytes = std::max(arena_bytes, plan.specializations[i].arena_bytes);
  }
  rank_scratch_bytes = (rank_bytes + 4095) / 4096 * 4096;
  WEFT_TRY(arena, Allocate(arena_bytes, "the arena"));
  WEFT_TRY(rank_scratch, Allocate(rank_scratch_bytes * threads, "kernel scratch"));
  WEFT_TRY(team_scratch, Allocate(team_bytes, "kernel scratch"));
  return {};
}

Status Executor::State::PrepareCalls(size_t index) {
  const plan::Specialization& s = plan.specializations[index];
  std::map<int32_t, Tensor> constants;
  for (size_t b = 0; b < s.buffers.size(); ++b) {
    const plan::Buffer& buffer = s.buffers[b];
    for (int64_t e : buffer.shape)
      if (e < 0)
        return Unsupported("its extents depend on data, which this executor does not run yet")
            .At(fmt::format("buffer \"{}\"", buffer.name));
    if (buffer.kind != BufferKind::kWeight || buffer.bytes == 0) continue;
    WEFT_TRY(constants[static_cast<int32_t>(b)], plan.blobs.Get(buffer.blob, Dtype::kU8, {buffer.bytes}));
  }
  std::vector<std::unique_ptr<fallback::PreparedCall>> prepared;
  int64_t scratch = 0;
  for (const plan::Step& step : s.steps) {
    prepared.emplace_back();
    if (step.kind != StepKind::kVendor && step.kind != StepKind::kNative) continue;
    std::vector<Tensor> operands(step.inputs.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const auto it = step.inputs[i].valid() ? constants.find(step.inputs[i].index) : constants.end();
      if (it == constants.end()) continue;
      const plan::Buffer& b = s.buffers[step.inputs[i].index];
      operands[i] = Tensor::Borrow(b.dtype, b.shape, std::make_shared<Tensor>(it->second), it->second.data());
    }
    Status status;
    team->RunInArena([&] {
      auto call = fallback::Prepare(step.call, operands);
      if (call.ok()) prepared.back() = std::move(*call);
      else status = std::move(call.status());
    });
    if (!status.ok()) return std::move(status).At("step " + step.name);
    scratch = std::max(scratch, prepared.back()->ScratchBytes());
  }
  calls.push_back(std::move(prepared));
  weights.push_back(std::move(constants));
  if (scratch > 0) {
    WEFT_TRY(call_scratch, Allocate(scratch, "library scratch"));
  }
  return {};
}

// Addresses of all buffers. A caller's memory that is not 64-byte aligned is replaced by an aligned
// copy, since kernels are compiled for aligned operands.
Status Executor::State::Bind(size_t index, std::span<const void* const> inputs, std::span<void* const> outputs,
                             void* own_arena, std::vector<void*>& address) {
  const plan::Specialization& s = plan.specializations[index];
  address.assign(s.buffers.size(), nullptr);
  staged.resize(s.buffers.size());
  const auto stage = [&](BufferId id) -> Result<void*> {
    WEFT_TRY(staged[id.index], Allocate(s.buffers[id.index].bytes, "an aligned copy"));
    return staged[id.index].get();
  };
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    void*& at = address[s.inputs[i].index];
    at = const_cast<void*>(inputs[i]);
    if (IsAligned(at)) continue;
    WEFT_TRY(at, stage(s.inputs[i]));
    std::memcpy(at, inputs[i], static_cast<size_t>(s.buffers[s.inputs[i].index].bytes));
  }
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const BufferId id = s.outputs[i];
    if (s.buffers[id.index].kind != BufferKind::kOutput || address[id.index]) continue;
    address[id.index] = outputs[i];
    if (!IsAligned(outputs[i])) {
      WEFT_TRY(address[id.index], stage(id));
    }
  }
  for (size_t b = 0; b < s.buffers.size(); ++b) {
    const plan::Buffer& buffer = s.buffers[b];
    if (buffer.kind == BufferKind::kArena || buffer.kind == BufferKind::kBounded)
      address[b] = static_cast<std::byte*>(own_arena) + buffer.offset;
    else if (buffer.kind == BufferKind::kAlias)
      address[b] = address[buffer.alias.index];
    else if (auto it = weights[index].find(static_cast<int32_t>(b)); it != weights[index].end())
      address[b] = const_cast<void*>(it->second.data());
  }
  return {};
}

ReadyStep Executor::State::Ready(size_t index, size_t at, const std::vector<void*>& address) const {
  const plan::Step& step = plan.specializations[index].steps[at];
  ReadyStep ready{.kind = step.kind};
  const auto place = [&](BufferId id) { return id.valid() ? address[id.index] : nullptr; };
  if (step.kind == StepKind::kOwn) {
    ready.function = kernels[step.kernel.index]->function();
    for (BufferId id : step.inputs) ready.operands.push_back(place(id));
    for (BufferId id : step.outputs) ready.operands.push_back(place(id));
  } else if (step.kind == StepKind::kVendor || step.kind == StepKind::kNative) {
    ready.call = calls[index][at].get();
    for (BufferId id : step.inputs) ready.inputs.push_back(place(id));
    for (BufferId id : step.outputs) ready.outputs.push_back(place(id));
  }
  return ready;
}

// A stretch of own steps: the team is entered once and meets at its barrier between them.
void Executor::State::RunOwn(std::span<const ReadyStep> steps, std::span<StepTime> times) {
  std::unique_ptr<Barrier> barrier;
  team->Run([&](uint32_t rank, uint32_t size) {
    const FloatMode mode;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto begin = Clock::now();
      const KernelArgs args{.buffers = steps[i].operands.data(), .params = nullptr,
                            .team_scratch = team_scratch.get(), .rank_scratch = rank_scratch.get(),
                            .rank_scratch_stride = rank_scratch_bytes, .barrier = Barrier::WaitOn,
                            .barrier_data = &team->barrier(), .fault = &fault, .cancel = &cancel};
      if (steps[i].function) steps[i].function(&args, rank, size);
      if (size > 1) team->barrier().Wait();
      if (rank == 0 && !times.empty())
        times[i].us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
  });
}

Status Executor::State::RunSteps(size_t index, const std::vector<ReadyStep>& steps, std::vector<StepTime>* times) {
  fault = {};
  cancel = 0;
  std::vector<StepTime> unused;
  std::vector<StepTime>& t = times ? *times : unused;
  if (times) t.assign(steps.size(), {});
  size_t i = 0;
  while (i < steps.size()) {
    size_t end = i;
    while (end < steps.size() && !steps[end].call) ++end;
    if (end > i) {
      RunOwn(std::span(steps).subspan(i, end - i), times ? std::span(t).subspan(i, end - i) : std::span<StepTime>());
      i = end;
    } else {
      const auto begin = Clock::now();
      Status status;
      team->RunInArena([&] {
        const FloatMode mode;
        status = steps[i].call->Run(steps[i].inputs, steps[i].outputs, call_scratch.get());
      });
      if (!status.ok()) return std::move(status).At("step " + plan.specializations[index].steps[i].name);
      if (times) t[i].us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      ++i;
    }
    if (__atomic_load_n(&cancel, __ATOMIC_RELAXED)) return Status(Code::kInterrupted, "the run was cancelled");
    if (fault.code) return Fault(plan.specializations[index]);
  }
  return {};
}

Status Executor::State::Fault(const plan::Specialization& s) const {
  return Invalid(fmt::format("index {} is outside of operand {} of one of the kernels that ran", fault.index, fault.operand))
      .At(fmt::format("a network of {} steps", s.steps.size()))
      .Try("check the values of the integer inputs");
}

const plan::Plan& Executor::plan() const { return state_->plan; }
uint32_t Executor::threads() const { return state_->threads; }
void Executor::Cancel() { __atomic_store_n(&state_->cancel, 1, __ATOMIC_RELAXED); }

Result<size_t> Executor::Select(const std::vector<Shape>& shapes) const {
  std::string known;
  for (size_t i = 0; i < plan().specializations.size(); ++i) {
    const plan::Specialization& s = plan().specializations[i];
    bool fits = s.inputs.size() == shapes.size();
    std::string text;
    for (size_t k = 0; k < s.inputs.size(); ++k) {
      const plan::Buffer& b = s.buffers[s.inputs[k].index];
      text += fmt::format("{}{}: {}{}", k ? ", " : "", b.name, DtypeName(b.dtype), weft::Print(b.shape));
      fits = fits && b.shape == shapes[k];
    }
    if (fits) return i;
    known += (i ? "; " : "") + text;
  }
  return Usage(fmt::format("no specialization takes these input shapes; there are: {}", known))
      .Try("build the plan with --profile for these shapes");
}

Result<std::vector<Tensor>> Executor::Run(std::span<const Tensor> inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  WEFT_TRY(size_t index, Select(shapes));
  const plan::Specialization& s = plan().specializations[index];
  std::vector<const void*> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.inputs[i].index];
    if (inputs[i].dtype() != b.dtype)
      return Usage(fmt::format("found {}, expected {}", DtypeName(inputs[i].dtype()), DtypeName(b.dtype)))
          .At(fmt::format("input \"{}\"", b.name));
    in.push_back(inputs[i].data());
  }
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (BufferId id : s.outputs) {
    WEFT_TRY(Tensor t, Tensor::Allocate(s.buffers[id.index].dtype, s.buffers[id.index].shape));
    outputs.push_back(std::move(t));
    out.push_back(outputs.back().mutable_data());
  }
  WEFT_TRY(Run(index, in, out));
  return outputs;
}

Status Executor::Run(size_t index, std::span<const void* const> inputs, std::span<void* const> outputs,
                     void* arena, std::vector<StepTime>* times) {
  const plan::Specialization& s = plan().specializations[index];
  if (inputs.size() != s.inputs.size() || outputs.size() != s.outputs.size())
    return Usage(fmt::format("found {} inputs and {} outputs, the plan has {} and {}", inputs.size(),
                             outputs.size(), s.inputs.size(), s.outputs.size()));
  std::vector<void*> address;
  WEFT_TRY(state_->Bind(index, inputs, outputs, arena ? arena : state_->arena.get(), address));
  std::vector<ReadyStep> steps;
  for (size_t i = 0; i < s.steps.size(); ++i) steps.push_back(state_->Ready(index, i, address));
  WEFT_TRY(state_->RunSteps(index, steps, times));
  // Outputs that were made elsewhere: aligned copies, inputs passed through, one value given twice.
  for (size_t i = 0; i < s.outputs.size(); ++i)
    if (void* made = address[s.outputs[i].index]; made != outputs[i] && s.buffers[s.outputs[i].index].bytes > 0)
      std::memcpy(outputs[i], made, static_cast<size_t>(s.buffers[s.outputs[i].index].bytes));
  return {};
}

Status Executor::RunStep(size_t index, size_t step) {
  const plan::Specialization& s = plan().specializations[index];
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<Bytes> memory;
  for (BufferId id : s.inputs) {
    WEFT_TRY(Bytes b, Allocate(s.buffers[id.index].bytes, "an input"));
    inputs.push_back(b.get());
    memory.push_back(std::move(b));
  }
  for (BufferId id : s.outputs) {
    WEFT_TRY(Bytes b, Allocate(s.buffers[id.index].bytes, "an output"));
    outputs.push_back(b.get());
    memory.push_back(std::move(b));
  }
  std::vector<void*> address;
  WEFT_TRY(state_->Bind(index, inputs, outputs, state_->arena.get(), address));
  return state_->RunSteps(index, {state_->Ready(index, step, address)}, nullptr);
}

}  // namespace weft::executor
