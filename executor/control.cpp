// What a run decides: natives whose results come out as they do, and nested plans.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/text.h"
#include "executor/state.h"

namespace weft::executor {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::Control;

constexpr size_t kMostKept = 64;   // plans that one graph keeps, and the like
constexpr size_t kMostDepth = 64;  // of plans within plans
// So deep general plans go on, whatever they have met: where data decides extents again and again,
// each plan that is built holds the next one.
constexpr size_t kDeep = kMostDepth / 2;

Tensor ViewOf(const plan::Specialization& s, Specialized& ready, BufferId id) {
  const plan::Buffer& b = s.buffers[id.index];
  if (IsHeld(b)) return Held(s, ready, id);
  return Tensor::Borrow(b.dtype, b.shape, nullptr, ready.address[id.index]);
}

Status Put(const plan::Specialization& s, Specialized& ready, BufferId id, Tensor tensor) {
  const plan::Buffer& b = s.buffers[id.index];
  const bool is_dynamic = b.kind == BufferKind::kDynamic;
  if (tensor.dtype() != b.dtype || (!is_dynamic && tensor.shape() != b.shape))
    return Invalid(fmt::format("found {}{}, expected {}{}", DtypeName(tensor.dtype()),
                               weft::Print(tensor.shape()), DtypeName(b.dtype),
                               is_dynamic ? "" : weft::Print(b.shape)))
        .At("buffer " + PrintString(b.name));
  if (IsHeld(b))
    ready.made[id.index] = std::move(tensor);
  else if (b.bytes > 0)
    std::memcpy(ready.address[id.index], tensor.data(), static_cast<size_t>(b.bytes));
  return {};
}

// Frees the operands of a step that nobody reads any more.
void Release(const plan::Specialization& s, size_t step, Specialized& ready) {
  for (BufferId id : s.steps[step].inputs)
    if (id.valid() && s.buffers[id.index].last_step == static_cast<int32_t>(step) &&
        std::ranges::find(s.outputs, id) == s.outputs.end())
      ready.made[id.index] = {};
}

// Whether nobody reads a tensor that is made any more, once the step has it as operand i.
bool IsLast(const plan::Specialization& s, size_t step, size_t i) {
  const std::vector<BufferId>& inputs = s.steps[step].inputs;
  const plan::Buffer& b = s.buffers[inputs[i].index];
  return b.kind != BufferKind::kWeight && b.last_step == static_cast<int32_t>(step) &&
         std::ranges::count(inputs, inputs[i]) == 1 &&
         std::ranges::find(s.outputs, inputs[i]) == s.outputs.end();
}

// The one element of what decides.
template <typename T>
Result<T> Only(const Tensor& tensor, const char* what) {
  if (tensor.elems() != 1)
    return Invalid(fmt::format("{} has {} elements, expected 1", what, tensor.elems()));
  return static_cast<T>(ElemAsInt(tensor, 0));
}

// With its texts.
int64_t HeldBytes(const Tensor& tensor) {
  int64_t bytes = tensor.bytes() + static_cast<int64_t>(sizeof(Tensor));
  for (const std::string& s : tensor.strings()) bytes += static_cast<int64_t>(sizeof s + s.size());
  return bytes;
}

// What the trips of a loop give, one below the other. All rows of the loop, and what they become,
// share what is left of a limit.
class Rows {
 public:
  explicit Rows(int64_t& left_bytes) : left_bytes_(&left_bytes) {}

  Status Add(Tensor row) {
    if (SharesBytes(row.dtype()))
      return Unsupported(fmt::format("rows of {} can't be stacked", DtypeName(row.dtype())));
    if (!rows_.empty() && rows_[0].shape() != row.shape())
      return Invalid(fmt::format("trip {} gives a row of {}, those before are {}", rows_.size(),
                                 weft::Print(row.shape()), weft::Print(rows_[0].shape())));
    const int64_t bytes = HeldBytes(row);
    if (bytes > *left_bytes_)
      return Limit(fmt::format("row {} has {} bytes, {} are left to the loop", rows_.size(), bytes,
                               *left_bytes_));
    *left_bytes_ -= bytes;
    bytes_ += bytes;
    rows_.push_back(std::move(row));
    return {};
  }

  // The type and shape are those of a row if there were no trips. The rows are gone then.
  Result<Tensor> Stacked(Dtype dtype, Shape shape) {
    if (bytes_ > *left_bytes_)
      return Limit(fmt::format("{} rows take {} bytes as one tensor, {} are left to the loop",
                               rows_.size(), bytes_, *left_bytes_));
    WEFT_TRY(Tensor all, Joined(dtype, std::move(shape)));
    rows_.clear();  // whose bytes are now those of the tensor
    return all;
  }

 private:
  Result<Tensor> Joined(Dtype dtype, Shape shape) const {
    if (!rows_.empty()) {
      dtype = rows_[0].dtype();
      shape = rows_[0].shape();
    }
    shape.insert(shape.begin(), std::ssize(rows_));
    WEFT_TRY(Tensor all, Tensor::AllocateUnset(dtype, shape));
    if (dtype == Dtype::kString) {
      auto at = all.strings().begin();
      for (const Tensor& row : rows_) at = std::ranges::copy(row.strings(), at).out;
      return all;
    }
    auto* to = static_cast<std::byte*>(all.mutable_data());
    for (const Tensor& row : rows_) {
      if (row.bytes() == 0) continue;
      std::memcpy(to, row.data(), static_cast<size_t>(row.bytes()));
      to += row.bytes();
    }
    return all;
  }

  int64_t* left_bytes_;
  std::vector<Tensor> rows_;
  int64_t bytes_ = 0;
};

bool Same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.strings() == b.strings() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.raw().size()) == 0);
}

bool Fits(const NestedGraph::Operands& known, std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (known.shapes[i] != inputs[i].shape() ||
        (known.bound[i] && !Same(known.values[i], inputs[i])))
      return false;
  return true;
}

Result<NestedGraph::Operands> OperandsOf(std::span<const Tensor> inputs, std::vector<bool> bound) {
  NestedGraph::Operands operands{.values = std::vector<Tensor>(inputs.size()),
                                 .bound = std::move(bound)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.shapes.push_back(inputs[i].shape());
    if (!operands.bound[i]) continue;
    WEFT_TRY(operands.values[i], Copied(inputs[i]));
  }
  return operands;
}

// What was kept for such operands, which comes first then; null if nothing was.
template <typename T>
T* Recall(std::list<T>& kept, std::span<const Tensor> inputs) {
  const auto found = std::ranges::find_if(kept, [&](const T& k) { return Fits(k.takes, inputs); });
  if (found == kept.end()) return nullptr;
  kept.splice(kept.begin(), kept, found);
  return &kept.front();
}

template <typename T>
T* Keep(std::list<T>& kept, T fresh) {
  kept.push_front(std::move(fresh));
  if (kept.size() > kMostKept) kept.pop_back();
  return &kept.front();
}

bool TakesInGeneral(const NestedGraph& graph, std::span<const Tensor> inputs) {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  return graph.general && graph.general_takes(shapes);
}

}  // namespace

Result<Tensor> Copied(const Tensor& tensor) {
  if (tensor.dtype() == Dtype::kString) return tensor;
  WEFT_TRY(Tensor copy, Tensor::AllocateUnset(tensor.dtype(), tensor.shape()));
  if (tensor.bytes() > 0) std::memcpy(copy.mutable_data(), tensor.data(), tensor.raw().size());
  return copy;
}

// Of what results of open extents may take.
int64_t Executor::State::LeftBytes(const Specialized& ready) const {
  if (left_bytes == INT64_MAX) return fallback::kNativeLimitBytes;
  int64_t left = left_bytes;
  for (const Tensor& tensor : ready.made)
    if (tensor.elems() > 0) left -= HeldBytes(tensor);
  return std::clamp<int64_t>(left, 0, fallback::kNativeLimitBytes);
}

Status Executor::State::RunOpen(const plan::Specialization& s, size_t at, Specialized& ready) {
  const plan::Step& step = s.steps[at];
  const int64_t left = LeftBytes(ready);  // operands live while the step runs
  std::vector<Tensor> own(step.inputs.size());
  std::vector<const Tensor*> inputs(own.size(), nullptr);
  for (size_t i = 0; i < own.size(); ++i) {
    const BufferId id = step.inputs[i];
    if (!id.valid()) continue;
    const bool is_held = IsHeld(s.buffers[id.index]);
    if (is_held && !IsLast(s, at, i)) {  // no copy of strings
      inputs[i] = &Held(s, ready, id);
      continue;
    }
    own[i] = is_held ? std::move(ready.made[id.index]) : ViewOf(s, ready, id);
    inputs[i] = &own[i];
  }
  std::vector<Tensor> outputs;
  Status status;
  shared->team->RunInArena([&] {
    const FloatMode mode;
    const fallback::Cancellable cancellable(shared->cancel);
    auto results = fallback::RunNative(step.call, inputs, left, own);
    if (results.ok())
      outputs = *std::move(results);
    else
      status = std::move(results.status());
  });
  WEFT_TRY(std::move(status));
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (step.outputs[i].valid()) WEFT_TRY(Put(s, ready, step.outputs[i], std::move(outputs[i])));
  Release(s, at, ready);
  return {};
}

Status Executor::State::RunNested(const plan::Specialization& s, size_t at, Specialized& ready) {
  const plan::Step& step = s.steps[at];
  const plan::Nested& nested = step.nested;
  std::vector<NestedGraph>& graphs = ready.nested[at];
  std::vector<Tensor> inputs(step.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (step.inputs[i].valid()) inputs[i] = ViewOf(s, ready, step.inputs[i]);
  std::vector<Tensor> outputs;
  if (nested.control == Control::kRepeat) {
    // Its rows, and what they become.
    const int64_t left = LeftBytes(ready) * (left_bytes == INT64_MAX ? 2 : 1);
    WEFT_TRY(outputs, Repeat(s, step, graphs[0], inputs, left));
  } else if (nested.control == Control::kBranch) {
    WEFT_TRY(const bool condition, Only<bool>(inputs[0], "the condition"));
    const size_t taken = condition ? 0 : 1;
    WEFT_TRY(outputs, Call(graphs[taken], *nested.graphs[taken], std::span(inputs).subspan(1)));
  } else {
    WEFT_TRY(outputs, Call(graphs[0], *nested.graphs[0], inputs));
  }
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (step.outputs[i].valid()) WEFT_TRY(Put(s, ready, step.outputs[i], std::move(outputs[i])));
  Release(s, at, ready);
  return {};
}

// By the better plan, if there is one by now. That it could not be built is no reason not to run.
void Executor::State::Replace(NestedGraph::Built& built) {
  if (!built.better.valid() ||
      built.better.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  const auto better = std::exchange(built.better, {});
  built.wants_better.reset();
  Result<std::unique_ptr<Executor>> loaded =
      better.get().ok() ? Executor::Load(*better.get(), options, this) : better.get().status();
  if (loaded.ok())
    built.executor = *std::move(loaded);
  else
    WEFT_LOG(kWarning, "executor", "{}", loaded.status().ToString());
}

// The plan for such operands, if there is one.
NestedGraph::Built* Executor::State::Known(NestedGraph& graph, std::span<const Tensor> inputs) {
  NestedGraph::Built* const known = Recall(graph.built, inputs);
  if (known) Replace(*known);
  return known;
}

Result<NestedGraph::Built*> Executor::State::Build(NestedGraph& graph, const std::string& text,
                                                   std::span<const Tensor> inputs) {
  if (depth >= kMostDepth) return Limit(fmt::format("plans nest deeper than {}", kMostDepth));
  const auto is_cancelled = [this] { return !CheckCancel().ok(); };
  const auto begin = Clock::now();
  WEFT_TRY(NestedPlan made, options.specialize(text, plan.blobs, inputs, is_cancelled));
  WEFT_CHECK(made.bound.size() == inputs.size(), "{} of {}", made.bound.size(), inputs.size());
  NestedGraph::Built fresh{.better = std::move(made.better),
                           .wants_better = std::move(made.wants_better)};
  WEFT_TRY(fresh.takes, OperandsOf(inputs, std::move(made.bound)));
  WEFT_TRY(fresh.executor, Executor::Load(std::move(made.plan), options, this));
  graph.build_us = MicrosecondsSince(begin);
  return Keep(graph.built, std::move(fresh));
}

// Asks for the general plan of a graph, once. That there is none, or that it would take more memory
// than is left, is no reason not to run.
void Executor::State::Generalize(NestedGraph& graph, const std::string& text) {
  if (!options.generalize || depth >= kMostDepth || std::exchange(graph.has_asked, true)) return;
  auto made = options.generalize(text, plan.blobs);
  if (made.ok() && !*made) return;
  auto loaded = made.ok() ? Executor::Load(std::move((*made)->plan), options, this) : made.status();
  if (loaded.ok()) {
    graph.general = *std::move(loaded);
    graph.general_takes = std::move((*made)->takes);
  } else {
    WEFT_LOG(kInfo, "executor", "no general plan: {}", loaded.status().ToString());
  }
}

// Notes operands that the general plan takes.
Result<NestedGraph::Met*> Executor::State::Meet(NestedGraph& graph,
                                                std::span<const Tensor> inputs) const {
  // What the last plan was bound to is likely what the next would be.
  std::vector<bool> bound(inputs.size());
  if (!graph.built.empty()) bound = graph.built.front().takes.bound;
  WEFT_TRY(auto operands, OperandsOf(inputs, std::move(bound)));
  return Keep(graph.met, NestedGraph::Met{.takes = std::move(operands)});
}

// By the general plan, if there is one and such operands are met for the first time: a plan of
// their own takes longer to build than to run, and many are never met again. Nothing if that plan
// can't take them, as where a native kernel has no such type.
Result<std::optional<std::vector<Tensor>>> Executor::State::CallGeneral(
    NestedGraph& graph, const std::string& text, std::span<const Tensor> inputs) {
  std::optional<std::vector<Tensor>> made;
  Generalize(graph, text);
  if (!graph.general) return made;
  NestedGraph::Met* known = Recall(graph.met, inputs);
  if (!known) {
    if (!TakesInGeneral(graph, inputs)) return made;
    WEFT_TRY(known, Meet(graph, inputs));
  } else if (depth < kDeep && !known->has_no_plan &&
             (!graph.is_body || known->us >= graph.build_us)) {
    graph.met.pop_front();
    return made;
  }
  const auto begin = Clock::now();
  auto results = graph.general->Run(inputs);
  known->us += MicrosecondsSince(begin);
  const Code code = results.status().code();
  if (results.ok())
    made = *std::move(results);
  else if (code != Code::kUnsupported && code != Code::kLimit)
    return std::move(results.status());
  return made;
}

Result<std::vector<Tensor>> Executor::State::Call(NestedGraph& graph, const std::string& text,
                                                  std::span<const Tensor> inputs) {
  NestedGraph::Built* built = Known(graph, inputs);
  if (!built) {
    WEFT_TRY(auto results, CallGeneral(graph, text, inputs));
    if (results) return *std::move(results);
    auto fresh = Build(graph, text, inputs);
    if (!fresh.ok() && fresh.status().code() == Code::kUnsupported &&
        TakesInGeneral(graph, inputs)) {
      // What a library has no call for after all, natives may do.
      WEFT_TRY(NestedGraph::Met* const met, Meet(graph, inputs));
      met->has_no_plan = true;
      WEFT_TRY(results, CallGeneral(graph, text, inputs));
      if (results) return *std::move(results);
    }
    WEFT_TRY(built, std::move(fresh));
  }
  std::vector<Tensor> free;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!built->takes.bound[i]) free.push_back(inputs[i]);
  return built->executor->Run(free);
}

Result<std::vector<Shape>> Executor::State::OfNone(NestedGraph& graph, const std::string& text,
                                                   std::span<const Tensor> inputs) {
  if (const NestedGraph::None* const known = Recall(graph.none, inputs)) return known->shapes;
  WEFT_TRY(NestedShapes made, options.shapes_of_none(text, plan.blobs, inputs));
  WEFT_TRY(auto takes, OperandsOf(inputs, std::move(made.bound)));
  NestedGraph::None fresh{.takes = std::move(takes), .shapes = std::move(made.outputs)};
  return Keep(graph.none, std::move(fresh))->shapes;
}

// ONNX, Loop: the trip count and the condition both end it; without either it goes on until it is
// cancelled.
Result<std::vector<Tensor>> Executor::State::Repeat(const plan::Specialization& s,
                                                    const plan::Step& step, NestedGraph& graph,
                                                    std::span<const Tensor> inputs, int64_t left) {
  const std::string& text = *step.nested.graphs[0];
  const auto states = static_cast<size_t>(step.nested.states);
  int64_t trips = INT64_MAX;
  bool condition = true;
  if (step.inputs[0].valid()) {
    WEFT_TRY(trips, Only<int64_t>(inputs[0], "the trip count"));
  }
  if (step.inputs[1].valid()) {
    WEFT_TRY(condition, Only<bool>(inputs[1], "the condition"));
  }
  std::vector<Tensor> operands(inputs.begin(), inputs.end());
  operands[1] = Tensor(Dtype::kBool, {});
  SetElemInt(operands[1], 0, 1);
  std::vector<Rows> rows(step.outputs.size() - states, Rows(left));
  int64_t trip = 0;
  for (; condition && trip < trips; ++trip) {
    WEFT_TRY(CheckCancel());
    operands[0] = Tensor(Dtype::kI64, {});
    SetElemInt(operands[0], 0, trip);
    WEFT_TRY(auto results, Call(graph, text, operands));
    WEFT_TRY(condition, Only<bool>(results[0], "the condition of the next trip"));
    for (size_t i = 0; i < states; ++i) operands[i + 2] = std::move(results[i + 1]);
    for (size_t i = 0; i < rows.size(); ++i)
      if (step.outputs[states + i].valid())
        WEFT_TRY(rows[i].Add(std::move(results[1 + states + i])));
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < states; ++i) {
    if (trip > 0) {
      outputs.push_back(std::move(operands[i + 2]));
      continue;
    }
    WEFT_TRY(outputs.emplace_back(), Copied(operands[i + 2]));
  }
  std::vector<Shape> of_none(1 + step.outputs.size());
  const auto is_made = [](BufferId id) { return id.valid(); };
  if (trip == 0 &&
      std::any_of(step.outputs.begin() + step.nested.states, step.outputs.end(), is_made)) {
    operands[0] = Tensor(Dtype::kI64, {});
    WEFT_TRY(of_none, OfNone(graph, text, operands));
    WEFT_CHECK(of_none.size() == 1 + step.outputs.size(), "{} results", of_none.size());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const BufferId id = step.outputs[states + i];
    const Dtype dtype = id.valid() ? s.buffers[id.index].dtype : Dtype::kF32;
    WEFT_TRY(outputs.emplace_back(), rows[i].Stacked(dtype, of_none[1 + states + i]));
  }
  return outputs;
}

}  // namespace weft::executor
