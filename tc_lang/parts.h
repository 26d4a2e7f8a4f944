// A program cut where it can be: what a partition may put into kernels of their own.
#pragma once

#include <vector>

#include "base/status.h"
#include "tc_lang/program.h"

namespace weft::tc {

// Consecutive statements as a program of their own, and which tensors of the whole its inputs and
// outputs are, in its order.
struct Part {
  Program program;
  std::vector<TensorId> inputs, outputs;
};

// As many parts as there can be, in order: run one after another they compute what the program
// does. A tensor belongs to one part, from the first statement that writes it to the last, and so
// does the loop of a recurrence; what passes between parts is whole. Statements that nothing needs
// are left out.
Result<std::vector<Part>> Parts(const Program& program);

}  // namespace weft::tc
