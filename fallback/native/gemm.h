// Products of matrices of f32 or f64, for whatever can be written as one: the core of MatMul, Gemm
// and the convolutions. Nothing is compiled for a shape; the instruction set is chosen when the
// program runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>

#include "base/memory.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {

// C = A * B + bias, where A is [m, k], B is [k, n] and the bias one for each row.
template <typename T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;  // element (i, p) at a[i * a_row + p * a_k]
  int64_t a_row = 0, a_k = 1;
  // B as it lies in memory, element (p, j) at b[p * b_row + j * b_column]; or null, and `pack`
  // knows it: it writes the columns [j, j + width) of rows [p0, p1) to `to`, `pitch` from row to
  // row.
  const T* b = nullptr;
  int64_t b_row = 0, b_column = 1;
  std::function<void(int64_t p0, int64_t p1, int64_t j, int64_t width, T* to, int64_t pitch)> pack;
  T* c = nullptr;  // columns lie side by side
  int64_t c_row = 0;
  const T* bias = nullptr;
};

// Computes product(0) to product(count - 1), which have the same m, n and k and disjoint results,
// on all threads if that is worth it. How it is shared out does not change the results.
template <typename T>
void Multiply(int64_t count, const std::function<Product<T>(int64_t)>& product);

// The same on the calling thread.
template <typename T>
void MultiplyHere(const Product<T>& product);

// body(0) to body(count - 1), on all threads if `work` (multiply-adds of all together) is worth it.
// They may Poll.
void ForPieces(int64_t count, double work, const std::function<void(int64_t)>& body);
// The same by ranges [from, to) of them, of which each thread has several.
void ForRanges(int64_t count, double work, const std::function<void(int64_t, int64_t)>& body);

// out[i] = start + the sum over all taps t of weights[t] * in[offsets[t] + i], for i in [0, count).
// Whole vectors are read and written: kSlack elements behind the last one are there, too.
inline constexpr int64_t kSlack = 16;
template <typename T>
struct TapsCall {
  int64_t taps = 0;
  const int64_t* offsets = nullptr;
  const T* weights = nullptr;
  const T* in = nullptr;
  T start{0};
  T* out = nullptr;
  int64_t count = 0;
};
template <typename T>
void SumTaps(const TapsCall<T>& call);

// Memory of any contents, aligned as vectors are.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t elems) : data_(AllocateUnset(Bytes(elems))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  T* get() const { return static_cast<T*>(data_.get()); }

 private:
  static int64_t Bytes(int64_t elems) {
    int64_t bytes = 0;
    if (elems < 0 || __builtin_mul_overflow(elems, int64_t{sizeof(T)}, &bytes))
      throw std::bad_alloc();
    return bytes;
  }
  std::shared_ptr<void> data_;
};

// Elements as they are computed with, one after another.
void Widen(const Half* from, int64_t count, float* to);
void Widen(const Bfloat* from, int64_t count, float* to);
template <typename T>
void Widen(const T* from, int64_t count, T* to) {
  std::copy_n(from, count, to);
}

// Where they lie, or a copy of floats of 16 bits.
template <typename T>
class Widened {
 public:
  Widened(const T* from, int64_t elems) {
    if constexpr (kIs16<T>) {
      copy_.emplace(elems);
      Widen(from, elems, copy_->get());
      data_ = copy_->get();
    } else {
      data_ = from;
    }
  }
  const Compute<T>* get() const { return data_; }

 private:
  std::optional<Scratch<Compute<T>>> copy_;
  const Compute<T>* data_ = nullptr;
};

}  // namespace weft::fallback::native
