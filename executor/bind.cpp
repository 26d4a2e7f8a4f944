// Binding: where every operand of a specialization lies, given the caller's memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/text.h"
#include "executor/state.h"

namespace weft::executor {
namespace {

using plan::BufferId;
using plan::BufferKind;

alignas(kAlign)
    std::byte g_nothing[kAlign];  // where a buffer of no bytes lies, whatever the caller says

bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + static_cast<uintptr_t>(b_bytes) &&
         y < x + static_cast<uintptr_t>(a_bytes);
}

Result<void*> Stage(Specialized& ready, BufferId id, int64_t bytes) {
  Bytes& staged = ready.staged[id.index];
  if (!staged) {
    WEFT_TRY(staged, Allocate(bytes, "an aligned copy"));
  }
  return staged.get();
}

}  // namespace

Status Executor::State::Bind(size_t index, std::span<const void* const> inputs,
                             std::span<void* const> outputs, void* given_arena) {
  const plan::Specialization& s = plan.specializations[index];
  Specialized& ready = specialized[index];
  if (const Bytes& largest = shared->arenas[depth].memory; arena != largest)
    arena = largest;  // of those that are too small none is kept for long
  void* const used = given_arena ? given_arena : arena.get();
  if (ready.is_bound && used == ready.arena && std::ranges::equal(inputs, ready.inputs) &&
      std::ranges::equal(outputs, ready.outputs))
    return {};
  if (inputs.size() != s.inputs.size() || outputs.size() != s.outputs.size())
    return Usage(fmt::format("found {} inputs and {} outputs, the plan has {} and {}",
                             inputs.size(), outputs.size(), s.inputs.size(), s.outputs.size()));
  if (!IsAligned(used))
    return Usage(fmt::format("an arena that is not aligned to {} bytes", kAlign));
  ready.is_bound = false;
  ready.inputs.assign(inputs.begin(), inputs.end());
  ready.outputs.assign(outputs.begin(), outputs.end());
  ready.arena = used;
  ready.before.clear();
  ready.after.clear();
  std::ranges::fill(ready.address, nullptr);
  WEFT_TRY(BindInputs(s, ready));
  WEFT_TRY(BindOutputs(s, ready));
  FillTables(s, ready);
  ready.is_bound = true;
  return {};
}

// A caller's memory that is aligned to less than a kernel was compiled for (one that stores past
// the caches wants whole lines) is copied to some that is. So is an input that an output would
// overwrite, since no kernel expects that either.
Status Executor::State::BindInputs(const plan::Specialization& s, Specialized& ready) {
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const BufferId id = s.inputs[i];
    const plan::Buffer& b = s.buffers[id.index];
    const void* given = ready.inputs[i];
    if (b.bytes > 0 && !given)
      return Usage("no memory was given").At("input " + PrintString(b.name));
    bool must_copy = !IsAligned(given, ready.align[id.index]);
    for (size_t k = 0; k < s.outputs.size(); ++k)
      must_copy = must_copy ||
                  Overlap(given, b.bytes, ready.outputs[k], s.buffers[s.outputs[k].index].bytes);
    ready.address[id.index] = const_cast<void*>(given);  // verified: no step writes an input
    if (!must_copy || b.bytes == 0) continue;
    WEFT_TRY(ready.address[id.index], Stage(ready, id, b.bytes));
    ready.before.push_back({ready.address[id.index], given, static_cast<size_t>(b.bytes)});
  }
  return {};
}

Status Executor::State::BindOutputs(const plan::Specialization& s, Specialized& ready) {
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const BufferId id = s.outputs[i];
    const plan::Buffer& b = s.buffers[id.index];
    void* const given = ready.outputs[i];
    if (b.kind == BufferKind::kDynamic) continue;
    if (b.bytes > 0 && !given)
      return Usage("no memory was given").At("output " + PrintString(b.name));
    for (size_t k = 0; k < i; ++k)
      if (Overlap(given, b.bytes, ready.outputs[k], s.buffers[s.outputs[k].index].bytes))
        return Usage("its memory is another output's too").At("output " + PrintString(b.name));
    if (b.kind != BufferKind::kOutput || ready.address[id.index]) continue;
    ready.address[id.index] = given;
    if (IsAligned(given, ready.align[id.index])) continue;
    WEFT_TRY(ready.address[id.index], Stage(ready, id, b.bytes));
  }
  return {};
}

void Executor::State::FillTables(const plan::Specialization& s, Specialized& ready) {
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const plan::Buffer& b = s.buffers[i];
    void*& at = ready.address[i];
    if (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded)
      at = static_cast<std::byte*>(ready.arena) + b.offset;
    else if (b.kind == BufferKind::kAlias)
      at = ready.address[b.alias.index];
    else if (b.kind == BufferKind::kWeight)
      at = const_cast<void*>(ready.weights[i]->data());
    if (b.bytes == 0) at = g_nothing;
  }
  for (size_t i = 0; i < ready.operands.size(); ++i) {
    const BufferId id = ready.operand_of[i];
    ready.operands[i] = id.valid() ? ready.address[id.index] : nullptr;
  }
  // Outputs that are made elsewhere: aligned copies, inputs and weights passed through, a value
  // given twice.
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.outputs[i].index];
    const void* made = ready.address[s.outputs[i].index];
    if (b.bytes > 0 && made != ready.outputs[i])
      ready.after.push_back({ready.outputs[i], made, static_cast<size_t>(b.bytes)});
  }
}

}  // namespace weft::executor
