// Ranges that hand values on as launches that follow each other.
#pragma once

#include <optional>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::polyhedral::cuda {

// Neighbouring ranges that are short, without loops inside, and with nothing that one writes and
// the other touches, are one: lookups in many tables are one launch, not as many.
loops::LoopNest SideBySide(const loops::LoopNest& nest);

// The parallel ranges that a nest consists of, in their order, each as a nest with all buffers:
// what they hand on lies in grid space, a single is a range of one iteration, a long sum with few
// results is two ranges. nullopt if there is something else.
std::optional<std::vector<loops::LoopNest>> RangesOf(loops::LoopNest nest);

// Mapped ranges as one nest, with barriers of the grid between them.
loops::LoopNest Join(const std::vector<loops::LoopNest>& launches);

}  // namespace weft::polyhedral::cuda
