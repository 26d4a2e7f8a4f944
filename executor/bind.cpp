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
  return executor::Overlap(reinterpret_cast<uintptr_t>(a), a_bytes, reinterpret_cast<uintptr_t>(b),
                           b_bytes);
}

}  // namespace

Result<void*> Executor::State::Stage(Specialized& ready, BufferId id, int64_t bytes) const {
  Bytes& staged = ready.staged[id.index];
  if (!staged) {
    WEFT_TRY(staged, AllocateHost(bytes, "an aligned copy"));
  }
  return staged.get();
}

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
  if (!IsAligned(
          used))  // whether it is memory of the host or, for a plan that runs there, a device
    return Usage(fmt::format("an arena that is not aligned to {} bytes", kAlign));
  ready.is_bound = false;
  ready.inputs.assign(inputs.begin(), inputs.end());
  ready.outputs.assign(outputs.begin(), outputs.end());
  ready.arena = used;
  ready.before.clear();
  std::ranges::fill(ready.address, nullptr);
  WEFT_TRY(BindInputs(s, ready));
  WEFT_TRY(BindOutputs(s, ready));
  FillTables(s, ready);
  if (ready.on_device)
    WEFT_TRY(ready.on_device->Bind({.caller = cuda::Side::kHost,
                                    .host = ready.address,
                                    .inputs = {},
                                    .outputs = {},
                                    .arena = reinterpret_cast<cuda::Address>(given_arena)}));
  ready.is_bound = true;
  return {};
}

// A caller's memory that is aligned to less than a kernel was compiled for (one that stores past
// the caches wants whole lines) is copied to some that is, and what a device reads to where it can.
// So is an input that an output would overwrite, since no kernel expects that either.
Status Executor::State::BindInputs(const plan::Specialization& s, Specialized& ready) {
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const BufferId id = s.inputs[i];
    const plan::Buffer& b = s.buffers[id.index];
    const void* given = ready.inputs[i];
    if (b.bytes > 0 && !given)
      return Usage("no memory was given").At("input " + PrintString(b.name));
    bool must_copy = ready.on_device || !IsAligned(given, ready.align[id.index]);
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
    if (!ready.on_device && IsAligned(given, ready.align[id.index])) continue;
    WEFT_TRY(ready.address[id.index], Stage(ready, id, b.bytes));
  }
  return {};
}

// On the host only what its steps read and write has a place.
Status Executor::State::BindOnDevice(const plan::Specialization& s, Specialized& ready,
                                     std::span<const uint64_t> inputs,
                                     std::span<const uint64_t> outputs, uint64_t given_arena) {
  ready.is_bound = false;
  if (ready.on_device->uses_host_arena()) {
    for (const auto* operands : {&s.inputs, &s.outputs})
      for (const BufferId id : *operands) {
        const plan::Buffer& b = s.buffers[id.index];
        if (b.kind != BufferKind::kInput && b.kind != BufferKind::kOutput) continue;
        WEFT_TRY(ready.address[id.index], Stage(ready, id, b.bytes));
      }
  }
  ready.outputs.assign(s.outputs.size(), nullptr);
  FillTables(s, ready);
  return ready.on_device->Bind({.caller = cuda::Side::kDevice,
                                .host = ready.address,
                                .inputs = {inputs.begin(), inputs.end()},
                                .outputs = {outputs.begin(), outputs.end()},
                                .arena = given_arena});
}

void Executor::State::FillTables(const plan::Specialization& s, Specialized& ready) {
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const plan::Buffer& b = s.buffers[i];
    void*& at = ready.address[i];
    if (b.kind == BufferKind::kArena || b.kind == BufferKind::kBounded)
      at = static_cast<std::byte*>(ready.on_device ? arena.get() : ready.arena) + b.offset;
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
  ready.after.clear();
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    const plan::Buffer& b = s.buffers[s.outputs[i].index];
    const void* made = ready.address[s.outputs[i].index];
    if (b.bytes > 0 && made != ready.outputs[i])
      ready.after.push_back({ready.outputs[i], made, static_cast<size_t>(b.bytes)});
  }
}

}  // namespace weft::executor
