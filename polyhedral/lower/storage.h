// Where values live while a kernel runs.
//
// Inputs and outputs are operands. A temporary that is made and used inside one cluster shrinks:
// the part of its index that the loops shared by all its accesses fix is dropped, since only the
// elements of the current iteration are alive. What is left lies in registers if every index is
// constant after unrolling and it is small enough, else in the cache of the rank, along the axis of
// the lanes that make and use it. A temporary that
// crosses clusters, or that is read at other iterations of a parallel loop, keeps its size and is
// shared by the team.
#pragma once

#include <map>
#include <vector>

#include "polyhedral/lower/plan.h"
#include "polyhedral/schedule.h"

namespace weft::polyhedral::lower {

// How a tensor's logical index becomes an index of its buffer.
struct View {
  loops::BufferId buffer;
  std::vector<bool> contracted;  // per axis: without the part of shared dimensions
  std::vector<int64_t> offset;   // per contracted axis: subtracted
  std::vector<Var> shared;       // dimensions whose part is dropped, sorted
  bool stream = false;           // its final values bypass the caches
};

struct AccumulatorBuffer {
  loops::BufferId buffer;            // [axes of Accumulator, lanes]
  loops::BufferId companion, found;  // of tuple reductions; `found` not of those with lanes
  std::vector<int64_t> offset;       // per axis
  int64_t lanes = 1;
  bool is_target = false;  // the target's own view serves as accumulator
  loops::BufferId tile;    // of a blocked reduction: [axes of Accumulator::tile]
  std::vector<int64_t> tile_offset;
  loops::BufferId apart;  // of even and odd steps: [2, lanes]
  std::vector<Var> apart_lanes;
  std::vector<int64_t> apart_offset;
};

struct Storage {
  std::vector<View> views;                            // by tensor
  std::map<int32_t, AccumulatorBuffer> accumulators;  // by statement
  std::vector<int32_t> literals;                      // tensors that the kernel must fill first
};

Result<Storage> PlaceValues(const ScheduleRequest& request, const Plan& plan,
                            loops::LoopNest& nest);

}  // namespace weft::polyhedral::lower
