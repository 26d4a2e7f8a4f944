// The mapping of a group to a grid: blocks and threads.
//
// A launch has no barrier across its blocks, so what a group's parallel loops exchange decides:
//
//   grid     one parallel range and nothing to wait for: its iterations are dealt to threads, T to
//            a block, each with as many neighbours as move 16 bytes at once. Temporaries are a
//            thread's own
//   tiles    one parallel range of products that are summed up, in f32: a block has a tile of
//            results, a thread part of it in registers; factors are shared by the block
//   rows     one parallel range with little in it: an iteration is a block, loops inside it that
//            carry no dependence are its threads, barriers between them; temporaries are shared
//   columns  the same where neighbouring iterations lie side by side in memory, and what is inside
//            one does not: a block has some neighbours, and threads for each
//   launches several ranges that hand values on, each a launch with the mapping that fits it: grid,
//            tiles, rows or columns. A sum with few results and many summands is two
//   block    several ranges with barriers between them: one block runs them all, a team of T
//            threads. What the ranges exchange is shared by the block
//
// That a mapping is right follows from what the nest says of itself: iterations of `parallel` loops
// are independent, ranks meet at barriers, and a nest is right for a team of any size. The proof is
// again Verify, and in tests the interpreter's check for races.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "polyhedral/choice/choice.h"
#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/schedule.h"

namespace weft::polyhedral {

enum class CudaMapping : uint8_t { kGrid, kTiles, kRows, kColumns, kBlock, kLaunches };
std::string_view CudaMappingName(CudaMapping mapping);

struct Mapped {
  CudaMapping mapping = CudaMapping::kGrid;
  GridMap map;           // the same with its sizes: as `wanted`, it gives this nest again
  int64_t width = 1;     // iterations that may run at once; for params a guess
  bool starved = false;  // few blocks have much to do
  loops::LoopNest nest;
};

// A nest written for a team of ranks, on a grid. It must verify, and so will the result. Without a
// wish for the mapping that fits best the target, a device. Operands are promised to be aligned as
// a device's are. Sizes of a wish:
//
//   grid, rows, block   threads of a block at most; of the first two, lanes of a thread at most;
//                       of rows, with lanes or 0 for as many as fit, blocks of a row
//   columns             columns of a block, threads of each
//   tiles               rows and columns of a block, steps of the sum, rows and columns of a thread
//                       (tiles.h)
//   launches            how many there are, or none: however many
//
// kUnsupported if the nest has no such mapping, kInvalid if a block has no such sizes.
Result<Mapped> MapNest(const loops::LoopNest& nest, const Target& target,
                       const GridMap& wanted = {});

// A group on a grid: choices made for width rather than for caches, each checked by isl, lowered
// and mapped; the widest wins. There is always one, by the identity schedule.
struct CudaScheduled {
  Choice choice;
  ScheduleTree tree;
  Mapped mapped;
  std::vector<Refusal> refusals;
};
Result<CudaScheduled> MapToCuda(const ScheduleRequest& request, const ScheduleLimits& limits = {});

}  // namespace weft::polyhedral
