// Static memory plan: offsets in one arena by best fit over lifetimes.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace weft::plan {

// Sets first_step and last_step of every buffer from the steps, gives every kArena and kBounded
// buffer an offset (64-byte aligned, the tightest gap that fits; of several orders the one whose
// arena is smallest) and sets arena_bytes. Aliases extend the lifetime of what they share.
// Deterministic.
Status PlanMemory(Specialization& specialization);
// The buffer whose memory this one is: itself, or what it is an alias of.
BufferId OwnerOf(const Specialization& specialization, BufferId id);
// The largest sum of live bytes over the steps: no arena can be smaller.
int64_t MaximumLiveBytes(const Specialization& specialization);

// What running a specialization takes: its arena, weights, inputs and outputs, and the scratch that
// the kernels of the plan need on `threads` threads. What libraries allocate for themselves is not
// known here.
int64_t NeededBytes(const Plan& plan, const Specialization& specialization, int32_t threads);

}  // namespace weft::plan
