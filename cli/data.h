// Inputs of a run, from files or generated, and what its outputs should be.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "cli/common.h"
#include "driver/accuracy.h"

namespace weft::cli {

struct TensorSpec {
  std::string name;
  Dtype dtype;
  Shape shape;
};

// Arrays that --inputs, --input and --data give, by input; what names an input later wins. The K-th
// input of the network is what input_K.pb of a test_data_set is for.
Result<std::map<std::string, Tensor>> LoadNamedInputs(const Flags& flags);
// The same for what is no network; `wanted` as in ReadNpz.
Result<std::map<std::string, Tensor>> LoadNamedInputs(
    const Flags& flags, const std::function<Status(const std::string&)>& wanted);
// One tensor per input: given ones checked against dtype and shape; missing ones from `generated`.
// A name that no input has is kUsage.
Result<std::vector<Tensor>> GatherInputs(const Flags& flags, const std::vector<TensorSpec>& specs,
                                         const std::map<std::string, Tensor>& given,
                                         const std::vector<Tensor>& generated);

// What each output should be; nothing where no file says so.
using Expected = std::vector<std::optional<Tensor>>;
// From --expected, or the output_K.pb of --data. Empty if neither was given. A name that no output
// has, or an element type that can't be compared with the output's, is kUsage.
Result<Expected> LoadExpected(const Flags& flags, const std::vector<TensorSpec>& outputs);
driver::Tolerance ToleranceOf(const Flags& flags);

}  // namespace weft::cli
