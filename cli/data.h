// Inputs of a run, from files or generated; outputs to a file.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "cli/common.h"
#include "graph/graph.h"

namespace weft::cli {

struct InputSpec {
  std::string name;
  Dtype dtype;
  Shape shape;
};

// Arrays that the flags name, by input. Unknown names are errors.
Result<std::map<std::string, Tensor>> LoadNamedInputs(const Flags& flags);
// One tensor per input: given ones checked against dtype and shape; missing ones from `generated`.
Result<std::vector<Tensor>> GatherInputs(const Flags& flags, const std::vector<InputSpec>& specs,
                                         const std::map<std::string, Tensor>& given,
                                         const std::vector<Tensor>& generated);

}  // namespace weft::cli
