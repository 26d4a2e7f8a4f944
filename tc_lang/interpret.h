// Runs a Program by its meaning: statement by statement, instance by instance. Slow and right.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "tc_lang/program.h"

namespace weft::tc {

struct InterpretOptions {
  // Compute every float type in f64 and give f64 outputs: the reference for accuracy. Float inputs
  // may then be given in f64, too.
  bool widen = false;
  int64_t max_instances = int64_t{1} << 40;  // then Code::kLimit
  int64_t max_bytes = int64_t{1} << 35;      // of outputs and temporaries, then Code::kLimit
};

// Inputs and outputs in the program's order; params by position. A read outside a tensor, a
// gathered index out of range and an unwritten read are errors that name tensor, index and
// statement. Reductions add up in index order, in the statement's accumulate type.
Result<std::vector<Tensor>> Interpret(const Program& program, std::span<const Tensor> inputs,
                                      std::span<const int64_t> params = {},
                                      const InterpretOptions& options = {});

}  // namespace weft::tc
