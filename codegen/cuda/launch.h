// The grid of a mapped nest: how many blocks, of how many threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/affine.h"
#include "base/status.h"
#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

// Along one dimension as many as the longest loop over it has iterations: the maximum over loops of
// the least of their trip counts, which are over params only.
struct LaunchExtent {
  std::vector<std::vector<Affine>> loops;
  int64_t Eval(std::span<const int64_t> params) const;  // at least 1
  bool IsConstant() const;
};

struct Launch {
  std::array<LaunchExtent, 3> grid, block;  // x, y, z
  int64_t cluster = 1;                      // blocks that run together: all along x, if several
  // Of one block; 0 if it depends on params.
  int64_t ThreadsPerBlock() const;
};

// Of a nest that is one launch. An error if it is not mapped: a `parallel` loop, or an extent that
// depends on a loop.
Result<Launch> LaunchOf(const loops::LoopNest& nest);

}  // namespace weft::codegen
