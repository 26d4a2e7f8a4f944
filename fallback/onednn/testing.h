// Calls of the library by their text, and what plain loops in double make of them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "fallback/execute.h"

namespace weft::fallback {

using Tensors = std::map<std::string, Tensor>;  // by role, plain

bool Absent();
#define SKIP_IF_ABSENT() \
  if (Absent()) GTEST_SKIP() << "libweft_onednn.so is not there"

LibraryCall Parsed(const std::string& text);

// Different everywhere. Floats are small multiples of 1/8, whose sums are exact in f32; integers
// cover their type.
Tensor Filled(const Shape& shape, uint32_t seed, Dtype dtype = Dtype::kF32);
Tensors FillAll(const LibraryCall& call);

// Calls body(index) for each index of a box.
template <typename Body>
void ForEach(const Shape& shape, Body body) {
  Shape index(shape.size(), 0);
  while (true) {
    body(index);
    size_t d = shape.size();
    for (; d > 0; --d) {
      if (++index[d - 1] < shape[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// The result, plain; the operands lie as the call and the library say.
Result<Tensor> RunIn(const LibraryCall& call, const Tensors& tensors, int threads);

double At(const Tensor& t, const Shape& index);
double BroadcastAt(const Tensor& t, const Shape& index);
double Eltwise(const std::string& kind, double x, double a, double b);
// Element `out` of the result.
double ConvAt(const LibraryCall& call, const Tensors& t, const Shape& out);
double MatmulAt(const LibraryCall& call, const Tensors& t, const Shape& out);
double PoolAt(const LibraryCall& call, const Tensors& t, const Shape& out);
// What the call's post-ops make of `x`.
double Posts(const LibraryCall& call, const Tensors& tensors, const Shape& index, double x);

}  // namespace weft::fallback
