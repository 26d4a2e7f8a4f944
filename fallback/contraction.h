// Products and convolutions as the libraries of a device take them, read from calls. A refusal says
// what a call has that they don't do; whoever prepares a call asks again, since calls come from
// files too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/verdict.h"
#include "fallback/call.h"

namespace weft::fallback {

// D[b, m, n] = relu(alpha * A[b, m, k] * B[b, k, n] + C[b, m, n] + bias[n]), all of f32, in rows.
// cuBLASLt, "cublasLtMatmul" and "cublasLtEpilogue_t"; its GELU is none, since on a GPU it is off
// by 1e-6 of values and more.
struct Product {
  int64_t batches = 1, m = 1, n = 1, k = 1;
  bool trans_a = false, trans_b = false;            // lies as [k, m], as [n, k]
  bool has_batches_a = true, has_batches_b = true;  // false: one matrix for all
  float alpha = 1;
  std::optional<size_t> bias, addend;  // inputs of the call, by place
  bool relu = false;
};

// y = relu(conv(x, w) + z + bias[channel]), all of f32, channels first. One spatial axis
// becomes two, the first of extent 1. cuDNN, "operation specific runtime fusion": the only epilogue
// that its engines of plain f32 arithmetic have.
struct Convolution {
  Shape x, w, y;                                           // of the same rank, 4 or 5
  std::vector<int64_t> strides, dilations, before, after;  // by spatial axis
  std::optional<size_t> bias, addend;
  bool relu = false;
};

Verdict<Product> ProductOf(const LibraryCall& call);
Verdict<Convolution> ConvolutionOf(const LibraryCall& call);

}  // namespace weft::fallback
