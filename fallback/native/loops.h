// Loops over strided tensors, shared by all native kernels: broadcasting, transposing and reducing
// differ only in the strides of their operands.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fallback/native/args.h"

namespace weft::fallback::native {

// Extents with, for each of N operands, its stride in elements on every axis (0 where it is
// broadcast or reduced). Axes that lie in memory as one are merged, so that inner loops are long.
template <size_t N>
struct Loops {
  std::vector<int64_t> extents;
  std::vector<std::array<int64_t, N>> strides;

  void Add(int64_t extent, std::array<int64_t, N> stride) {
    if (extent == 1) return;
    if (!extents.empty()) {
      // The product leaves int64 only beside an extent of zero, where nothing is looped over.
      int64_t product = 0, span = 0;
      bool merges = !__builtin_mul_overflow(extents.back(), extent, &product);
      for (size_t k = 0; k < N; ++k) {
        merges &= !__builtin_mul_overflow(stride[k], extent, &span) && strides.back()[k] == span;
      }
      if (merges) {
        extents.back() = product;
        strides.back() = stride;
        return;
      }
    }
    extents.push_back(extent);
    strides.push_back(stride);
  }

  // body(offset of each operand, extent, stride of each operand) for every innermost row.
  template <typename Body>
  void Rows(Body body) const {
    for (int64_t extent : extents) {
      if (extent == 0) return;
    }
    std::array<int64_t, N> offset{};
    if (extents.empty()) return body(offset, int64_t{1}, std::array<int64_t, N>{});
    const size_t outer = extents.size() - 1;
    std::vector<int64_t> index(outer);
    while (true) {
      Poll();
      body(offset, extents[outer], strides[outer]);
      size_t d = outer;
      while (d-- > 0) {
        for (size_t k = 0; k < N; ++k) offset[k] += strides[d][k];
        if (++index[d] < extents[d]) break;
        for (size_t k = 0; k < N; ++k) offset[k] -= strides[d][k] * extents[d];
        index[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) return;
    }
  }
};

std::vector<int64_t> Strides(std::span<const int64_t> shape);  // row-major
// Strides of `shape` read as `out`: 0 where it is stretched. The shapes are broadcastable.
std::vector<int64_t> BroadcastStrides(std::span<const int64_t> shape, std::span<const int64_t> out);
// The shape that operands broadcast to (ONNX: numpy's rule).
Result<Shape> BroadcastShape(const Args& args, std::span<const size_t> operands);

// Loops over `out`, with each of `shapes` broadcast to it; operand 0 is the output itself.
template <size_t N>
Loops<N + 1> BroadcastLoops(std::span<const int64_t> out,
                            const std::array<const Shape*, N>& shapes) {
  Loops<N + 1> loops;
  std::array<std::vector<int64_t>, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = BroadcastStrides(*shapes[k], out);
  const std::vector<int64_t> own = Strides(out);
  for (size_t d = 0; d < out.size(); ++d) {
    std::array<int64_t, N + 1> stride{own[d]};
    for (size_t k = 0; k < N; ++k) stride[k + 1] = strides[k][d];
    loops.Add(out[d], stride);
  }
  return loops;
}

// body(from, to) for pieces of [0, count), of `piece` each: side by side on the threads of the
// caller's arena, in one thread's float mode. What a piece computes depends on nothing but its
// range.
using PieceBody = std::function<void(int64_t from, int64_t to)>;
void InPieces(int64_t count, int64_t piece, const PieceBody& body);

// Copies a box of `shape` between strided places.
struct Place {
  int64_t offset = 0;
  std::span<const int64_t> strides;
};
void CopyBox(Dtype dtype, std::span<const int64_t> shape, void* to, Place at, const void* from,
             Place of);
// Plain runs of elements; strings too.
void CopyElems(Dtype dtype, void* to, int64_t at, const void* from, int64_t of, int64_t count);
// `count` elements from `at` on become the one at from[0].
void FillElems(Dtype dtype, void* to, int64_t at, int64_t count, const void* from);

}  // namespace weft::fallback::native
