#include "executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/text.h"
#include "executor/state.h"

namespace weft::executor {
namespace {

// No exception crosses a folder; that of an allocation is the one there can be.
template <typename F>
auto OrNoMemory(const F& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Limit("no memory");
  }
}

void CopyAll(const std::vector<Copy>& copies) {
  for (const Copy& c : copies) std::memcpy(c.to, c.from, c.bytes);
}

bool IsDynamic(const plan::Specialization& s, plan::BufferId id) {
  return id.valid() && s.buffers[id.index].kind == plan::BufferKind::kDynamic;
}

bool IsHeld(const plan::Specialization& s, plan::BufferId id) {
  return id.valid() && plan::IsHeld(s.buffers[id.index]);
}

// What is given instead of memory is a tensor that fits.
Status CheckHeld(const plan::Buffer& b, const Tensor& given) {
  const bool fits = b.kind == plan::BufferKind::kDynamic || given.shape() == b.shape;
  if (given.dtype() != b.dtype || !fits)
    return Usage(fmt::format("found {}{}, expected {}{}", DtypeName(given.dtype()),
                             weft::Print(given.shape()), DtypeName(b.dtype),
                             b.kind == plan::BufferKind::kDynamic ? "" : weft::Print(b.shape)))
        .At("input " + PrintString(b.name));
  if (b.dtype == Dtype::kString && std::ssize(given.strings()) != given.elems())
    return Usage(fmt::format("found {} strings, its shape is {}", given.strings().size(),
                             weft::Print(given.shape())))
        .At("input " + PrintString(b.name));
  return {};
}

std::string InputText(const plan::Specialization& s) {
  std::string text;
  for (plan::BufferId id : s.inputs) {
    const plan::Buffer& b = s.buffers[id.index];
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : ", ", PrintName(b.name),
                        DtypeName(b.dtype), IsDynamic(s, id) ? "" : weft::Print(b.shape));
  }
  return "(" + text + ")";
}

}  // namespace

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Load(plan::Plan plan, const LoadOptions& options) {
  return Load(std::move(plan), options, nullptr);
}

Result<std::unique_ptr<Executor>> Executor::Load(plan::Plan plan, const LoadOptions& options,
                                                 const State* outer) {
  return OrNoMemory([&]() -> Result<std::unique_ptr<Executor>> {
    WEFT_TRY(plan::Verify(plan));
    if (plan.target.kind == TargetKind::kCpu && !HostRuns(plan.target.isa))
      return Missing(fmt::format("the plan is for {}, which this processor does not run",
                                 weft::Print(plan.target)))
          .Try("build it again with --target cpu:native");
    auto state = std::make_unique<State>();
    state->plan = std::move(plan);
    state->threads = options.threads ? options.threads : static_cast<uint32_t>(UsableThreads());
    if (outer) {
      state->threads = outer->threads;
      state->shared = outer->shared;
      state->depth = outer->depth + 1;
    } else {
      state->shared = std::make_shared<Shared>();
      WEFT_TRY(state->shared->team, Team::Create(state->threads));
    }
    state->options = options;
    const int64_t given = options.max_bytes == 0 ? INT64_MAX : options.max_bytes;
    WEFT_TRY(state->CheckMemory(outer ? outer->left_bytes : given));
    if (options.cache) state->cache = *options.cache;
    state->options.cache = state->cache ? &*state->cache : nullptr;
    WEFT_TRY(state->Prepare(options));
    return std::unique_ptr<Executor>(new Executor(std::move(state)));
  });
}

const plan::Plan& Executor::plan() const { return state_->plan; }
uint32_t Executor::threads() const { return state_->threads; }
void Executor::Cancel() { __atomic_store_n(&state_->shared->cancel, 1, __ATOMIC_RELAXED); }

Result<size_t> Executor::Select(const std::vector<Shape>& shapes) const {
  std::string known, found;
  for (size_t i = 0; i < plan().specializations.size(); ++i) {
    const plan::Specialization& s = plan().specializations[i];
    bool fits = s.inputs.size() == shapes.size();
    for (size_t k = 0; fits && k < shapes.size(); ++k)
      fits = IsDynamic(s, s.inputs[k]) || s.buffers[s.inputs[k].index].shape == shapes[k];
    if (fits) return i;
    known += (i ? "; " : "") + InputText(s);
  }
  for (const Shape& shape : shapes) found += (found.empty() ? "" : ", ") + weft::Print(shape);
  return Usage(fmt::format("found inputs ({}), the plan takes {}", found, known))
      .Try("build the plan with --profile for these shapes");
}

Result<std::vector<Tensor>> Executor::Run(std::span<const Tensor> inputs) {
  return OrNoMemory([&]() -> Result<std::vector<Tensor>> {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    WEFT_TRY(size_t index, Select(shapes));
    const plan::Specialization& s = plan().specializations[index];
    std::vector<const void*> in;
    OpenOperands open;
    for (size_t i = 0; i < inputs.size(); ++i) {
      open.inputs.push_back(IsHeld(s, s.inputs[i]) ? inputs[i] : Tensor());
      const plan::Buffer& b = s.buffers[s.inputs[i].index];
      if (inputs[i].dtype() != b.dtype)
        return Usage(fmt::format("found {}, expected {}", DtypeName(inputs[i].dtype()),
                                 DtypeName(b.dtype)))
            .At("input " + PrintString(b.name));
      in.push_back(inputs[i].data());
    }
    std::vector<Tensor> outputs;
    std::vector<void*> out;
    for (plan::BufferId id : s.outputs) {
      const plan::Buffer& b = s.buffers[id.index];
      if (IsHeld(s, id)) {
        outputs.emplace_back();
        out.push_back(nullptr);
        continue;
      }
      WEFT_TRY(Tensor t, Tensor::AllocateUnset(b.dtype, b.shape));
      outputs.push_back(std::move(t));
      out.push_back(outputs.back().mutable_data());
    }
    WEFT_TRY(Run(index, in, out, nullptr, nullptr, &open));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (IsHeld(s, s.outputs[i])) outputs[i] = std::move(open.outputs[i]);
    return outputs;
  });
}

Status Executor::Run(size_t index, std::span<const void* const> inputs,
                     std::span<void* const> outputs, void* arena, std::vector<StepTime>* times,
                     OpenOperands* open) {
  return OrNoMemory([&]() -> Status {
    if (index >= plan().specializations.size())
      return Usage(fmt::format("specialization {} of {}", index, plan().specializations.size()));
    const plan::Specialization& s = plan().specializations[index];
    const auto is_held = [&](plan::BufferId id) { return IsHeld(s, id); };
    if (!open &&
        (std::ranges::any_of(s.inputs, is_held) || std::ranges::any_of(s.outputs, is_held)))
      return Unsupported(
                 "its inputs are as large as they are given, or its outputs as a run makes them, "
                 "or "
                 "strings, which are no memory of the caller's")
          .At("plan " + PrintString(plan().name));
    for (size_t i = 0; open && i < s.inputs.size(); ++i)
      if (is_held(s.inputs[i])) WEFT_TRY(CheckHeld(s.buffers[s.inputs[i].index], open->inputs[i]));
    const std::lock_guard lock(state_->mutex);
    WEFT_TRY(state_->Bind(index, inputs, outputs, arena));
    Specialized& ready = state_->specialized[index];
    CopyAll(ready.before);
    for (size_t i = 0; i < s.inputs.size(); ++i)
      if (is_held(s.inputs[i])) ready.made[s.inputs[i].index] = open->inputs[i];
    const Status status = state_->RunSteps(s, ready.steps, ready, times);
    if (status.ok() && open) {
      open->outputs.assign(s.outputs.size(), {});
      for (size_t i = 0; i < s.outputs.size(); ++i) {
        if (!is_held(s.outputs[i])) continue;
        const Tensor& made = Held(s, ready, s.outputs[i]);
        // What is another's too (an input that is passed through or reshaped, an output given
        // twice, a weight) is copied, as where it has a place of the caller's.
        const bool is_again =
            std::ranges::count(std::span(s.outputs).subspan(i + 1), s.outputs[i]) > 0;
        if (made.IsSole() && !is_again) {
          open->outputs[i] = std::move(ready.made[s.outputs[i].index]);
          continue;
        }
        WEFT_TRY(open->outputs[i], Copied(made));
      }
    }
    for (Tensor& tensor : ready.made) tensor = {};
    WEFT_TRY(status);
    CopyAll(ready.after);
    return {};
  });
}

Status Executor::RunStep(size_t index, size_t step) {
  return OrNoMemory([&]() -> Status {
    if (index >= plan().specializations.size() ||
        step >= plan().specializations[index].steps.size())
      return Usage(fmt::format("step {} of specialization {}", step, index));
    const plan::Specialization& s = plan().specializations[index];
    const std::lock_guard lock(state_->mutex);
    Specialized& ready = state_->specialized[index];
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    auto next = [&, k = size_t{0}](plan::BufferId id) mutable -> Result<void*> {
      const int64_t bytes = s.buffers[id.index].bytes;
      if (k == ready.own.size()) {
        WEFT_TRY(Bytes b, Allocate(bytes, "inputs and outputs"));
        std::memset(b.get(), 0,
                    static_cast<size_t>(bytes));  // 0 is a legal index wherever there is one
        ready.own.push_back(std::move(b));
      }
      return ready.own[k++].get();
    };
    for (plan::BufferId id : s.inputs) {
      WEFT_TRY(void* at, next(id));
      inputs.push_back(at);
    }
    for (plan::BufferId id : s.outputs) {
      WEFT_TRY(void* at, next(id));
      outputs.push_back(at);
    }
    WEFT_TRY(state_->Bind(index, inputs, outputs, nullptr));
    const auto is_held = [&](plan::BufferId id) { return IsHeld(s, id); };
    if (std::ranges::any_of(s.steps[step].inputs, is_held)) return {};  // nothing to run it on
    for (ReadyStep& r : ready.steps)
      if (r.step == step) return state_->RunSteps(s, {&r, 1}, ready, nullptr);
    return {};  // a view
  });
}

}  // namespace weft::executor
