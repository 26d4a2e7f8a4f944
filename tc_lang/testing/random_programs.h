// Small valid programs by the seed, for tests that follow one meaning through every stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "tc_lang/program.h"

namespace weft::tc {

struct RandomOptions {
  int32_t most_statements = 4;
  bool gathers = true;   // reads at indices that are read
  bool float64 = false;  // all floats are float64
  bool halves = false;   // the floats among the inputs are bfloat16
  bool nibbles = false;  // some inputs, and what is moved of them, are int4 or uint4
  // Everything else that the language has, too: calls, segments, strides, recurrences, tuples,
  // scatters, constants, other types, lets, ranges that start later, conditions on what is read.
  bool whole_language = false;
};

// Chains of pointwise statements, contractions, guarded windows, reductions, broadcasts, transposes
// and gathers over tensors of rank 1 to 4 with extents of 1 to 9. The same seed gives the same
// program.
Program RandomProgram(uint64_t seed, const RandomOptions& options = {});
std::string RandomProgramText(uint64_t seed, const RandomOptions& options = {});

// Values near one, of both signs, for floats; integers that are legal wherever the program gathers
// with them.
std::vector<Tensor> RandomInputs(const Program& program, uint64_t seed);

}  // namespace weft::tc
