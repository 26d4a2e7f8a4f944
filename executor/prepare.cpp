// Loading: kernels, packed constants, library calls, and the tables that binding fills.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/text.h"
#include "executor/state.h"
#include "plan/memory.h"
#include "plan/signature.h"

namespace weft::executor {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::Control;
using plan::StepKind;

// Plans are well-formed here; these are the ones that this executor can't run.
Status CheckRunnable(const plan::Specialization& s, const LoadOptions& options) {
  for (const plan::Buffer& b : s.buffers) {
    if (std::ranges::any_of(b.shape, [](int64_t e) { return e < 0; }))
      return Unsupported("its extents are a table's, which this executor does not run yet")
          .At("buffer " + PrintString(b.name));
    if (IsCode(b.dtype))
      return Unsupported(fmt::format("{} is not run from a plan", DtypeName(b.dtype)))
          .At("buffer " + PrintString(b.name));
  }
  for (const plan::Step& step : s.steps) {
    const bool is_loop = step.nested.control == Control::kRepeat;
    if (step.kind == StepKind::kPlan &&
        (!options.specialize || (is_loop && !options.shapes_of_none)))
      return Missing("its plan is built when it runs, and this runtime has no compiler")
          .At("step " + PrintString(step.name));
    if (!step.params.empty())
      return Unsupported("run-time sizes are not run yet").At("step " + PrintString(step.name));
  }
  return {};
}

// Layouts that the library chose when the plan was built: another version may choose otherwise.
Status CheckLayouts(const plan::Specialization& s,
                    const std::vector<fallback::CallOperand>& operands,
                    const std::vector<BufferId>& buffers, const std::vector<Layout>& chosen) {
  for (size_t i = 0; i < buffers.size() && i < chosen.size(); ++i) {
    if (!buffers[i].valid() || !operands[i].any_layout || operands[i].constant) continue;
    const plan::Buffer& b = s.buffers[buffers[i].index];
    if (b.layout != chosen[i])
      return Missing(fmt::format("operand {} has layout {}, this version of the library wants {}",
                                 PrintString(b.name), weft::Print(b.layout),
                                 weft::Print(chosen[i])))
          .Try("build the plan again");
  }
  return {};
}

// What has no call to prepare: a nested plan, or a native of operands that have no address.
bool IsOpen(const plan::Specialization& s, const plan::Step& step) {
  const auto is_held = [&](BufferId id) { return id.valid() && IsHeld(s.buffers[id.index]); };
  return step.kind == StepKind::kPlan || std::ranges::any_of(step.inputs, is_held) ||
         std::ranges::any_of(step.outputs, is_held);
}

}  // namespace

// INT64_MAX: any number.
Status Executor::State::CheckMemory(int64_t allowed) {
  if (allowed == INT64_MAX) return {};
  int64_t most = 0;
  for (const plan::Specialization& s : plan.specializations)
    most = std::max(most, plan::NeededBytes(plan, s, static_cast<int32_t>(threads)));
  if (most > allowed)
    return Limit(fmt::format("the plan needs {} bytes, {} are left to it", most, allowed));
  left_bytes = allowed - most;
  return {};
}

Status Executor::State::Prepare(const LoadOptions& options) {
  int64_t rank_bytes = 0, team_bytes = 0, call_bytes = 0;
  for (const plan::Specialization& s : plan.specializations) WEFT_TRY(CheckRunnable(s, options));
  const bool is_cuda = plan.target.kind == TargetKind::kCuda;
  for (const plan::Kernel& k : plan.kernels) {
    if (k.key != plan::KernelKey(k, plan.target.isa, plan.codegen))
      return Invalid("its key does not belong to its nest")
          .At("kernel " + PrintString(k.name))
          .Try("build the plan again");
    if (is_cuda) continue;
    WEFT_TRY(auto kernel, LoadKernel(k, plan.target, options));
    kernels.push_back(std::move(kernel));
    rank_bytes = std::max(rank_bytes, k.rank_scratch_bytes);
    team_bytes = std::max(team_bytes, k.team_scratch_bytes);
  }
  rank_scratch_bytes = (rank_bytes + 4095) / 4096 * 4096;
  WEFT_TRY(rank_scratch, Allocate(rank_scratch_bytes * threads, "kernel scratch"));
  WEFT_TRY(team_scratch, Allocate(team_bytes, "kernel scratch"));
  if (is_cuda) WEFT_TRY(PrepareDevice(options));
  specialized.resize(plan.specializations.size());
  for (size_t i = 0; i < specialized.size(); ++i) {
    WEFT_TRY(PrepareSpecialization(plan.specializations[i], specialized[i]));
    for (const auto& call : specialized[i].calls)
      call_bytes = std::max(call_bytes, call->ScratchBytes());
  }
  const auto nests = [](const plan::Specialization& s) {
    return std::ranges::any_of(s.steps, [](const auto& p) { return p.kind == StepKind::kPlan; });
  };
  // Weights are held as they are shared; only who saves a plan or builds of it wants the blobs.
  if (depth > 0 && std::ranges::none_of(plan.specializations, nests)) plan.blobs = {};
  WEFT_TRY(PrepareArena());
  WEFT_TRY(call_scratch, Allocate(call_bytes, "library scratch"));
  return {};
}

Status Executor::State::PrepareSpecialization(const plan::Specialization& s, Specialized& ready) {
  WEFT_TRY(PrepareWeights(s, ready));
  if (uses_device) {
    WEFT_TRY(ready.on_device,
             cuda::DeviceRun::Prepare(shared->device, {.plan = plan,
                                                       .s = s,
                                                       .functions = functions,
                                                       .weights = ready.weights,
                                                       .depth = depth,
                                                       .cache = cache ? &*cache : nullptr}));
  }
  for (const plan::Buffer& b : s.buffers)
    ready.align.push_back(static_cast<size_t>(std::max<int64_t>(1, SizeBytes(b.dtype))));
  for (size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].kind != StepKind::kView) WEFT_TRY(PrepareStep(s, i, ready));
  ready.nested.resize(s.steps.size());
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Nested& nested = s.steps[i].nested;
    ready.nested[i].resize(nested.graphs.size());
    for (NestedGraph& graph : ready.nested[i]) graph.is_body = nested.control == Control::kRepeat;
    // What is inside a plan may never run; the plan of a network does, and is not to wait then.
    for (size_t g = 0; depth == 0 && nested.control == Control::kStage && g < nested.graphs.size();
         ++g)
      Generalize(ready.nested[i][g], *nested.graphs[g]);
  }
  ready.made.resize(s.buffers.size());
  ready.address.resize(s.buffers.size());
  ready.staged.resize(s.buffers.size());
  ready.operands.resize(ready.operand_of.size());
  for (ReadyStep& step : ready.steps)
    step.args = {.buffers = ready.operands.data() + step.first,
                 .params = nullptr,
                 .team_scratch = team_scratch.get(),
                 .rank_scratch = rank_scratch.get(),
                 .rank_scratch_stride = rank_scratch_bytes,
                 .barrier = Barrier::WaitOn,
                 .barrier_data = &shared->team->barrier(),
                 .fault = &step.fault,
                 .cancel = &shared->cancel};
  return {};
}

Status Executor::State::PrepareWeights(const plan::Specialization& s, Specialized& ready) {
  std::erase_if(shared->weights, [](const auto& known) { return known.second.expired(); });
  ready.weights.resize(s.buffers.size());
  for (size_t i = 0; i < s.buffers.size(); ++i)
    if (s.buffers[i].kind == BufferKind::kWeight) {
      WEFT_TRY(ready.weights[i], Weight(s.buffers[i]));
    }
  return {};
}

// The bytes of a blob, the same for all plans that have it.
Result<std::shared_ptr<const Tensor>> Executor::State::Weight(const plan::Buffer& buffer) {
  if (buffer.dtype == Dtype::kString) {
    WEFT_TRY(Tensor strings, plan.blobs.Get(buffer.blob, buffer.dtype, buffer.shape));
    return std::make_shared<const Tensor>(std::move(strings));
  }
  std::weak_ptr<const Tensor>& known = shared->weights[buffer.blob];
  if (auto weight = known.lock(); weight && weight->bytes() == buffer.bytes) return weight;
  WEFT_TRY(Tensor bytes, plan.blobs.Get(buffer.blob, Dtype::kU8, {buffer.bytes}));
  if (!IsAligned(bytes.data())) {  // a plan that was just built may borrow from a model's file
    WEFT_TRY(Tensor aligned, Tensor::Allocate(Dtype::kU8, {buffer.bytes}));
    if (buffer.bytes > 0)
      std::memcpy(aligned.mutable_data(), bytes.data(), static_cast<size_t>(buffer.bytes));
    bytes = std::move(aligned);
  }
  auto weight = std::make_shared<const Tensor>(std::move(bytes));
  known = weight;
  return weight;
}

Status Executor::State::PrepareArena() {
  int64_t bytes = 0;
  for (size_t i = 0; i < specialized.size(); ++i) {
    const auto& on_device = specialized[i].on_device;
    if (!on_device || on_device->uses_host_arena())
      bytes = std::max(bytes, plan.specializations[i].arena_bytes);
  }
  shared->arenas.resize(std::max(shared->arenas.size(), depth + 1));
  Shared::Arena& largest = shared->arenas[depth];
  if (!largest.memory || largest.bytes < bytes) {
    WEFT_TRY(largest.memory, AllocateHost(bytes, "the arena"));
    largest.bytes = bytes;
  }
  arena = largest.memory;
  return {};
}

namespace {

// Operations and bytes that one thread is through with in a microsecond where it is fast.
constexpr double kWorkPerUs = 1e5;

// How long one thread takes for a step, at least; without end where that is not known.
double AloneUs(const plan::Step& step) {
  const double work = static_cast<double>(step.flops) + static_cast<double>(step.bytes);
  if (work == 0) return std::numeric_limits<double>::infinity();
  return std::max(work / kWorkPerUs, step.measured ? step.us : 0);  // that was by the whole team
}

}  // namespace

Status Executor::State::PrepareStep(const plan::Specialization& s, size_t at, Specialized& ready) {
  const plan::Step& step = s.steps[at];
  ReadyStep r{.step = at,
              .first = ready.operand_of.size(),
              .inputs = step.inputs.size(),
              .outputs = step.outputs.size()};
  r.alone_us = AloneUs(step);
  for (BufferId id : step.inputs) ready.operand_of.push_back(id);
  for (BufferId id : step.outputs) ready.operand_of.push_back(id);
  if (step.kind == StepKind::kOwn && !ready.on_device) {
    r.function = kernels[step.kernel.index]->function();
    const plan::Kernel& kernel = plan.kernels[step.kernel.index];
    WEFT_TRY(const plan::Signature signature, plan::ReadSignature(kernel.loops, kernel.name));
    for (size_t i = 0; i < signature.operands.size(); ++i) {  // as many: verified
      size_t& align = ready.align[plan::OwnerOf(s, ready.operand_of[r.first + i]).index];
      align = std::max(align, static_cast<size_t>(signature.operands[i].align_bytes));
    }
  } else if (!cuda::RunsOnDevice(step) && !IsOpen(s, step)) {
    auto call = PrepareCall(s, step, ready);
    if (!call.ok()) return std::move(call.status()).At("step " + PrintString(step.name));
    r.call = call->get();
    ready.calls.push_back(std::move(*call));
  }
  ready.steps.push_back(r);
  return {};
}

Result<std::unique_ptr<fallback::PreparedCall>> Executor::State::PrepareCall(
    const plan::Specialization& s, const plan::Step& step, const Specialized& ready) {
  std::vector<Tensor> constants(step.inputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (!step.inputs[i].valid() || s.buffers[step.inputs[i].index].kind != BufferKind::kWeight)
      continue;
    const plan::Buffer& b = s.buffers[step.inputs[i].index];
    const auto& bytes = ready.weights[step.inputs[i].index];
    constants[i] = Tensor::Borrow(b.dtype, b.shape, bytes, bytes->data());
  }
  std::unique_ptr<fallback::PreparedCall> prepared;
  Status status;
  shared->team->RunInArena(
      [&] {  // a library may ask how many threads there are; nothing may be thrown out of it
        try {
          auto call = fallback::Prepare(step.call, constants);
          if (call.ok())
            prepared = std::move(*call);
          else
            status = std::move(call.status());
        } catch (const std::bad_alloc&) {
          status = Limit("no memory to prepare a library call");
        }
      });
  WEFT_TRY(std::move(status));
  WEFT_TRY(CheckLayouts(s, step.call.inputs, step.inputs, prepared->InputLayouts()));
  WEFT_TRY(CheckLayouts(s, step.call.outputs, step.outputs, prepared->OutputLayouts()));
  return prepared;
}

}  // namespace weft::executor
