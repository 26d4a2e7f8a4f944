// How much there is to do: what the price models count.
#pragma once

#include "fallback/call.h"
#include "tc_lang/program.h"

namespace weft::partition {

// Evaluations of functions that are no single instruction, such as exp.
double MathCalls(const tc::Program& program);

// Bytes written and read again of temporaries that are made for a contraction, or by one in another
// order than they are used in: no loop holds them while they live.
double StagedBytes(const tc::Program& program);

struct CallWork {
  double flops = 0, bytes = 0;
  double results = 0;  // elements
  double depth = 1;    // summands of one of them; 1 where it is no sum of products
};
CallWork WorkOf(const fallback::LibraryCall& call);

}  // namespace weft::partition
