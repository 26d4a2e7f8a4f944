// Inputs for a network that was given none: seeded, in ranges that suit their use.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace weft::driver {

// Floats are uniform in [-1, 1). Integers that reach a gather or a scatter (through casts and
// reshapes) are legal indices; others, masks among them, are 0 or 1. All shapes must be known.
Result<std::vector<Tensor>> GenerateInputs(const graph::Graph& graph, uint64_t seed);
// The first input whose extents or type are not known, else an invalid one.
graph::ValueId OpenInput(const graph::Graph& graph);
// That somebody has to give them.
Status UnknownExtents(std::string_view input);
// One tensor alike, knowing nothing of its use. kLimit if there is no memory for it.
Result<Tensor> GenerateTensor(Dtype dtype, const Shape& shape, uint64_t seed, int64_t index_bound);

}  // namespace weft::driver
