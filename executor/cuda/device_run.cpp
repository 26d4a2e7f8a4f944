#include "executor/cuda/device_run.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/text.h"
#include "executor/cuda/fastest.h"
#include "plan/memory.h"

namespace weft::executor::cuda {

using plan::BufferId;
using plan::BufferKind;
using plan::StepKind;

namespace {

constexpr int kThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

bool HasBytes(const plan::Buffer& b) { return !IsHeld(b) && b.bytes > 0; }

bool IsCopy(const Action& action) {
  return action.kind == Action::Kind::kToDevice || action.kind == Action::Kind::kToHost;
}

// The grid's scratch and all blocks' of the launch with the most; INT64_MAX if that is more than
// there can be.
int64_t ScratchBytes(const plan::CudaLaunch& first) {
  int64_t most = 0;
  for (const plan::CudaLaunch* launch : first.All()) {
    int64_t bytes = launch->scratch_bytes;
    for (const int64_t extent : launch->grid)
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return INT64_MAX;
    most = std::max(most, bytes);
  }
  return __builtin_add_overflow(most, first.grid_bytes, &most) ? INT64_MAX : most;
}

bool UsesHostArena(const plan::Specialization& s) {
  const auto actions = ActionsOf(s, Side::kHost);
  return std::ranges::any_of(actions, [&](const Action& a) {
    if (!IsCopy(a)) return a.kind == Action::Kind::kHostStep;
    const BufferKind kind = s.buffers[a.buffer.index].kind;
    return kind == BufferKind::kArena || kind == BufferKind::kBounded;
  });
}

}  // namespace

Result<std::shared_ptr<Session>> Session::Open(Isa isa) {
  auto session = std::make_shared<Session>();
  WEFT_TRY(session->device, Device::Open(isa));
  const Scope scope(*session->device);
  WEFT_TRY(session->stream, session->device->NewStream());
  WEFT_TRY(session->ended, session->device->NewEvent(/*timed=*/false));
  return session;
}

Result<std::shared_ptr<const Memory>> Session::Weight(const plan::Buffer& buffer,
                                                      const Tensor& bytes) {
  std::weak_ptr<const Memory>& known = weights[buffer.blob];
  if (auto weight = known.lock(); weight && weight->bytes() == buffer.bytes) return weight;
  WEFT_TRY(Memory memory, device->Upload(bytes.data(), buffer.bytes, "weights"));
  auto weight = std::make_shared<const Memory>(std::move(memory));
  known = weight;
  return weight;
}

Result<Memory> Session::Arena(size_t depth, int64_t bytes) {
  arenas.resize(std::max(arenas.size(), depth + 1));
  if (!arenas[depth] || arenas[depth].bytes() < bytes) {
    WEFT_TRY(arenas[depth], device->Allocate(bytes, "the arena"));
  }
  return arenas[depth];
}

DeviceRun::DeviceRun(std::shared_ptr<Session> session, const Parts& parts)
    : session_(std::move(session)),
      plan_(parts.plan),
      s_(parts.s),
      depth_(parts.depth),
      uses_host_arena_(UsesHostArena(parts.s)),
      slots_(parts.s.steps.size()),
      weights_(parts.s.buffers.size()),
      staged_(parts.s.buffers.size()),
      address_(parts.s.buffers.size()) {}

Result<std::unique_ptr<DeviceRun>> DeviceRun::Prepare(std::shared_ptr<Session> session,
                                                      const Parts& parts) {
  std::unique_ptr<DeviceRun> run(new DeviceRun(std::move(session), parts));
  const Scope scope(run->device());
  WEFT_TRY(run->PrepareLaunches(parts));
  WEFT_TRY(run->UploadWeights(parts));
  WEFT_TRY(run->AllocateAll(parts));
  return run;
}

Status DeviceRun::PrepareLaunches(const Parts& parts) {
  for (size_t i = 0; i < s_.steps.size(); ++i) {
    const plan::Step& step = s_.steps[i];
    if (!RunsOnDevice(step)) continue;
    slots_[i] = device_steps_.size();
    device_steps_.push_back(i);
    Launch& launch = launches_.emplace_back();
    launch.values.resize(step.inputs.size() + step.outputs.size() + 2);
    if (step.kind == StepKind::kOwn)
      launch.functions = parts.functions[step.kernel.index].handles;
    else
      WEFT_TRY(PrepareCall(i, launch, parts.cache));
  }
  for (Launch& launch : launches_)
    for (Address& value : launch.values) launch.arguments.push_back(&value);
  return {};
}

Status DeviceRun::PrepareCall(size_t at, Launch& launch, const FileCache* cache) {
  const plan::Step& step = s_.steps[at];
  auto call = fallback::PrepareOnDevice(step.call, device().context());
  if (!call.ok()) return std::move(call.status()).At("step " + PrintString(step.name));
  launch.call = *std::move(call);
  const auto [known, is_new] = session_->fastest.try_emplace(CanonicalText(step.call), 0);
  if (is_new) {
    WEFT_TRY(known->second, FastestWay(session_->device, step.call, *launch.call, cache));
  }
  launch.way = known->second;
  if (launch.way >= launch.call->Ways()) launch.way = 0;
  WEFT_LOG(kDebug, "cuda", "{}: {}", step.name, launch.call->Name(launch.way));
  return {};
}

Status DeviceRun::UploadWeights(const Parts& parts) {
  std::erase_if(session_->weights, [](const auto& known) { return known.second.expired(); });
  const auto upload = [&](BufferId id) -> Status {
    if (!id.valid()) return {};
    const BufferId owner = plan::OwnerOf(s_, id);
    const plan::Buffer& b = s_.buffers[owner.index];
    if (b.kind != BufferKind::kWeight || !HasBytes(b) || weights_[owner.index]) return {};
    WEFT_TRY(weights_[owner.index], session_->Weight(b, *parts.weights[owner.index]));
    return {};
  };
  for (const size_t i : device_steps_)
    for (const BufferId id : s_.steps[i].inputs) WEFT_TRY(upload(id));
  for (const BufferId id : s_.outputs) WEFT_TRY(upload(id));
  return {};
}

Status DeviceRun::AllocateAll(const Parts& parts) {
  WEFT_TRY(arena_, session_->Arena(depth_, s_.arena_bytes));
  int64_t scratch = 0;
  for (const Launch& launch : launches_) {
    const plan::Step& step =
        s_.steps[device_steps_[static_cast<size_t>(&launch - launches_.data())]];
    scratch = std::max(scratch, launch.call
                                    ? launch.call->ScratchBytes(launch.way)
                                    : ScratchBytes(*parts.plan.kernels[step.kernel.index].launch));
  }
  WEFT_TRY(scratch_, device().Allocate(scratch, "kernel scratch"));
  WEFT_TRY(nothing_, device().Allocate(0, "a buffer of no bytes"));
  const auto fault_bytes = static_cast<int64_t>(device_steps_.size() * sizeof(KernelFault));
  WEFT_TRY(faults_, device().AllocatePinned(fault_bytes, "faults"));
  return {};
}

Status DeviceRun::Bind(const Places& places) {
  if (places_ == places) return {};
  const Scope scope(device());
  places_.reset();
  actions_ = ActionsOf(s_, places.caller);
  stretches_ = {{}};
  for (size_t i = 0; i < actions_.size(); ++i) {
    if (actions_[i].kind != Action::Kind::kHostStep) continue;
    stretches_.back().end = i;
    stretches_.push_back({.begin = i + 1});
  }
  stretches_.back().end = actions_.size();
  if (places.caller == Side::kHost) {
    for (const auto* operands : {&s_.inputs, &s_.outputs})
      for (const BufferId id : *operands) {
        const plan::Buffer& b = s_.buffers[id.index];
        const bool is_own = b.kind == BufferKind::kInput || b.kind == BufferKind::kOutput;
        if (!is_own || !HasBytes(b) || staged_[id.index]) continue;
        WEFT_TRY(staged_[id.index], device().Allocate(b.bytes, "inputs and outputs"));
      }
  }
  WEFT_TRY(CopyOverwritten(places));
  places_ = places;
  FillAddresses();
  FillLaunches();
  return {};
}

// As on the host: no kernel expects an input that an output would overwrite.
Status DeviceRun::CopyOverwritten(const Places& places) {
  before_.clear();
  if (places.caller == Side::kHost) return {};
  for (size_t i = 0; i < s_.inputs.size(); ++i) {
    const size_t id = s_.inputs[i].index;
    const int64_t bytes = s_.buffers[id].bytes;
    bool is_overwritten = false;
    for (size_t k = 0; k < s_.outputs.size(); ++k)
      is_overwritten |= Overlap(places.inputs[i], bytes, places.outputs[k],
                                s_.buffers[s_.outputs[k].index].bytes);
    if (!is_overwritten) continue;
    if (!staged_[id]) {
      WEFT_TRY(staged_[id], device().Allocate(bytes, "inputs and outputs"));
    }
    before_.push_back({.buffer = id, .from = places.inputs[i]});
  }
  return {};
}

void DeviceRun::FillAddresses() {
  std::ranges::fill(address_, 0);
  for (size_t i = 0; i < staged_.size(); ++i) address_[i] = staged_[i].at();
  if (places_->caller == Side::kDevice) {
    for (size_t i = 0; i < s_.inputs.size(); ++i) address_[s_.inputs[i].index] = places_->inputs[i];
    for (const Copy& copy : before_) address_[copy.buffer] = staged_[copy.buffer].at();
    for (size_t i = s_.outputs.size();
         i-- > 0;)  // of a value that is given twice, to the first place
      if (s_.buffers[s_.outputs[i].index].kind == BufferKind::kOutput)
        address_[s_.outputs[i].index] = places_->outputs[i];
  }
  const Address arena = places_->arena ? places_->arena : arena_.at();
  for (size_t i = 0; i < s_.buffers.size(); ++i) {
    const plan::Buffer& b = s_.buffers[i];
    if (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded)
      address_[i] = arena + static_cast<Address>(b.offset);
    else if (b.kind == BufferKind::kAlias)
      address_[i] = address_[b.alias.index];
    else if (weights_[i])
      address_[i] = weights_[i]->at();
    if (!HasBytes(b)) address_[i] = nothing_.at();
  }
}

void DeviceRun::FillLaunches() {
  for (size_t slot = 0; slot < launches_.size(); ++slot) {
    const plan::Step& step = s_.steps[device_steps_[slot]];
    auto value = launches_[slot].values.begin();
    for (const auto* operands : {&step.inputs, &step.outputs})
      for (const BufferId id : *operands) *value++ = id.valid() ? address_[id.index] : 0;
    *value++ = scratch_.at();
    // Pinned memory has one address on both sides: CUDA C++ Programming Guide, "unified virtual
    // address space".
    *value = reinterpret_cast<Address>(&Faults()[slot]);
  }
}

Status DeviceRun::EnqueueLaunch(size_t step, Handle stream) {
  Launch& launch = launches_[slots_[step]];
  if (launch.call) return EnqueueCall(step, launch, stream);
  const auto all = plan_.kernels[s_.steps[step].kernel.index].launch->All();
  const auto at = [](const std::array<int64_t, 3>& extents, size_t i) {
    return static_cast<unsigned>(extents[i]);
  };
  for (size_t k = 0; k < all.size(); ++k) {
    const plan::CudaLaunch& l = *all[k];
    const int code = driver().launch(launch.functions[k], at(l.grid, 0), at(l.grid, 1),
                                     at(l.grid, 2), at(l.block, 0), at(l.block, 1), at(l.block, 2),
                                     0, stream, launch.arguments.data(), nullptr);
    WEFT_TRY(device().Check(code, "starting a kernel"));
  }
  return {};
}

Status DeviceRun::EnqueueCall(size_t step, Launch& launch, Handle stream) {
  const size_t inputs = s_.steps[step].inputs.size(), outputs = s_.steps[step].outputs.size();
  const std::span<const Address> values(launch.values);
  Status status = launch.call->Enqueue(launch.way, values.first(inputs),
                                       values.subspan(inputs, outputs), scratch_.at(), stream);
  return status.ok() ? status : std::move(status).At("step " + PrintString(s_.steps[step].name));
}

Status DeviceRun::EnqueueAction(const Action& action, Handle stream) {
  if (action.kind == Action::Kind::kLaunch) return EnqueueLaunch(action.step, stream);
  const size_t i = action.buffer.index;
  const auto bytes = static_cast<size_t>(s_.buffers[i].bytes);
  if (action.kind == Action::Kind::kToDevice)
    return device().Check(driver().to_device(address_[i], places_->host[i], bytes, stream),
                          "a copy to the device");
  return device().Check(driver().to_host(places_->host[i], address_[i], bytes, stream),
                        "a copy from the device");
}

Status DeviceRun::EnqueueAll(const Stretch& stretch, Handle stream) {
  for (size_t i = stretch.begin; i < stretch.end; ++i) WEFT_TRY(EnqueueAction(actions_[i], stream));
  return {};
}

Status DeviceRun::Capture(Stretch& stretch) {
  const Handle stream = session_->stream.get();
  WEFT_TRY(device().Check(driver().begin_capture(stream, kThreadLocal), "capturing a graph"));
  const Status enqueued = EnqueueAll(stretch, stream);
  Handle graph = nullptr, executable = nullptr;  // the capture is ended whatever came of it
  const int ended = driver().end_capture(stream, &graph);
  WEFT_TRY(enqueued);
  WEFT_TRY(device().Check(ended, "capturing a graph"));
  const Owned held(session_->device, graph, driver().end_graph);
  WEFT_TRY(device().Check(driver().instantiate(&executable, graph, 0), "instantiating a graph"));
  stretch.graph = Owned(session_->device, executable, driver().end_executable);
  return {};
}

Status DeviceRun::EnqueueStretch(Stretch& stretch, Handle stream) {
  if (stretch.begin == stretch.end) return {};
  if (!stretch.has_run) {  // addresses that are used once are not worth a graph
    stretch.has_run = true;
    return EnqueueAll(stretch, stream);
  }
  if (!stretch.graph) WEFT_TRY(Capture(stretch));
  return device().Check(driver().launch_graph(stretch.graph.get(), stream), "starting a graph");
}

Status DeviceRun::EnqueueTimed(const Stretch& stretch, Handle stream,
                               std::vector<StepTime>& times) {
  // Kernels take less than starting them does: behind a run of the same the device need not wait
  // for the host. Only what the caller gave comes before the first stretch, and that stays.
  if (stretch.begin == 0) WEFT_TRY(EnqueueAll(stretch, stream));
  std::vector<Owned> events;
  const auto mark = [&]() -> Status {
    WEFT_TRY(events.emplace_back(), device().NewEvent(/*timed=*/true));
    return device().Check(driver().record(events.back().get(), stream), "timing");
  };
  WEFT_TRY(mark());
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    WEFT_TRY(EnqueueAction(actions_[i], stream));
    WEFT_TRY(mark());
  }
  WEFT_TRY(Wait(stream));
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    if (actions_[i].kind != Action::Kind::kLaunch) continue;
    float ms = 0;
    const size_t k = i - stretch.begin;
    WEFT_TRY(
        device().Check(driver().elapsed_ms(&ms, events[k].get(), events[k + 1].get()), "timing"));
    times[actions_[i].step].us = 1e3 * static_cast<double>(ms);
  }
  return {};
}

Status DeviceRun::Enqueue(Handle stream, const std::function<Status(size_t)>& host_step,
                          std::vector<StepTime>* times) {
  const Scope scope(device());
  if (times) times->assign(s_.steps.size(), {});
  WEFT_TRY(device().Check(driver().stream_waits(stream, session_->ended.get(), 0), "a stream"));
  for (const auto& [buffer, from] : before_) {
    const auto bytes = static_cast<size_t>(s_.buffers[buffer].bytes);
    WEFT_TRY(device().Check(driver().on_device(address_[buffer], from, bytes, stream), "an input"));
  }
  for (Stretch& stretch : stretches_) {
    WEFT_TRY(times ? EnqueueTimed(stretch, stream, *times) : EnqueueStretch(stretch, stream));
    if (stretch.end == actions_.size()) break;
    WEFT_TRY(Wait(stream));
    if (FoundFault()) return {};
    const size_t step = actions_[stretch.end].step;
    const auto begin = std::chrono::steady_clock::now();
    WEFT_TRY(host_step(step));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (times) (*times)[step].us = took.count();
  }
  WEFT_TRY(CopyOutputs(stream));
  return device().Check(driver().record(session_->ended.get(), stream), "a stream");
}

Status DeviceRun::EnqueueStep(Handle stream, size_t step) {
  const Scope scope(device());
  WEFT_TRY(device().Check(driver().stream_waits(stream, session_->ended.get(), 0), "a stream"));
  WEFT_TRY(EnqueueLaunch(step, stream));
  return device().Check(driver().record(session_->ended.get(), stream), "a stream");
}

// What is an output by another name: an alias, a weight or an input, or a value that is given
// twice.
Status DeviceRun::CopyOutputs(Handle stream) {
  if (places_->caller == Side::kHost) return {};
  for (size_t i = 0; i < s_.outputs.size(); ++i) {
    const plan::Buffer& b = s_.buffers[s_.outputs[i].index];
    const Address made = address_[s_.outputs[i].index], wanted = places_->outputs[i];
    if (!HasBytes(b) || made == wanted) continue;
    WEFT_TRY(device().Check(driver().on_device(wanted, made, static_cast<size_t>(b.bytes), stream),
                            "an output"));
  }
  return {};
}

Status DeviceRun::Wait(Handle stream) const {
  const Scope scope(device());
  return device().Check(driver().wait_for_stream(stream), "running kernels");
}

std::span<KernelFault> DeviceRun::Faults() const {
  return {static_cast<KernelFault*>(faults_.get()), device_steps_.size()};
}

bool DeviceRun::FoundFault() const {
  return std::ranges::any_of(Faults(), [](const KernelFault& f) { return f.code != 0; });
}

std::optional<DeviceRun::Fault> DeviceRun::TakeFault() {
  for (size_t slot = 0; slot < device_steps_.size(); ++slot) {
    if (Faults()[slot].code == 0) continue;
    const Fault fault{.step = device_steps_[slot], .fault = Faults()[slot]};
    std::ranges::fill(Faults(), KernelFault{});
    return fault;
  }
  return std::nullopt;
}

}  // namespace weft::executor::cuda
