// A program cut where it can be: what a partition may put into kernels of their own.
#pragma once

#include <vector>

#include "base/status.h"
#include "tc_lang/program.h"

namespace weft::tc {

// The same program with a tensor for each time that one is written anew: where a statement writes
// every cell of a tensor that is whole already, what stood there gets a name of its own, and what
// the statement reads there is that. Inputs and outputs keep their ids; the new ones are
// temporaries. So a chain of statements in place can be cut, and is no longer than any other.
Program WithVersions(const Program& program);

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
