#include "fallback/native/loops.h"

#include <algorithm>
#include <optional>

#include "base/float_mode.h"
#include "base/threads/parallel.h"
#include "fallback/execute.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {

std::vector<int64_t> Strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) {
    // Overflows only beside an extent of zero, where no element has an address.
    if (__builtin_mul_overflow(strides[d], shape[d], &strides[d - 1])) strides[d - 1] = 0;
  }
  return strides;
}

std::vector<int64_t> BroadcastStrides(std::span<const int64_t> shape,
                                      std::span<const int64_t> out) {
  const std::vector<int64_t> own = Strides(shape);
  std::vector<int64_t> strides(out.size(), 0);
  const size_t missing = out.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) strides[missing + d] = own[d];
  }
  return strides;
}

void InPieces(int64_t count, int64_t piece, const PieceBody& body) {
  const int64_t pieces = (count + piece - 1) / piece;
  const int32_t* const cancel = t_cancel;  // the caller's
  const auto run = [&](size_t i) {
    const FloatMode mode;
    std::optional<Cancellable> cancellable;
    if (cancel != nullptr) cancellable.emplace(*cancel);
    Poll();
    const int64_t from = static_cast<int64_t>(i) * piece;
    body(from, std::min(count, from + piece));
  };
  if (pieces > 1 && ThreadsOfArena() > 1) return InArena(static_cast<size_t>(pieces), run);
  for (int64_t i = 0; i < pieces; ++i) run(static_cast<size_t>(i));
}

Result<Shape> BroadcastShape(const Args& args, std::span<const size_t> operands) {
  Shape out;
  for (size_t i : operands) {
    const Shape& shape = args[i].shape;
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), 1);
    const size_t missing = out.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& extent = out[missing + d];
      if (extent == 1) extent = shape[d];
      if (shape[d] != extent && shape[d] != 1) {
        return args.Error("{} of shape {} does not broadcast to {}", args.Name(i), Print(shape),
                          Print(out));
      }
    }
  }
  return out;
}

void CopyBox(Dtype dtype, std::span<const int64_t> shape, void* to, Place at, const void* from,
             Place of) {
  Loops<2> loops;
  for (size_t d = 0; d < shape.size(); ++d) loops.Add(shape[d], {at.strides[d], of.strides[d]});
  ByWidth(dtype, [&]<typename T>() {
    T* out = static_cast<T*>(to) + at.offset;
    const T* in = static_cast<const T*>(from) + of.offset;
    loops.Rows([&](auto offset, int64_t count, auto stride) {
      for (int64_t i = 0; i < count; ++i)
        out[offset[0] + i * stride[0]] = in[offset[1] + i * stride[1]];
    });
  });
}

void CopyElems(Dtype dtype, void* to, int64_t at, const void* from, int64_t of, int64_t count) {
  if (to == from && at == of) return;
  ByWidth(dtype, [&]<typename T>() {
    std::copy_n(static_cast<const T*>(from) + of, count, static_cast<T*>(to) + at);
  });
}

void FillElems(Dtype dtype, void* to, int64_t at, int64_t count, const void* from) {
  ByWidth(dtype, [&]<typename T>() {
    std::fill_n(static_cast<T*>(to) + at, count, *static_cast<const T*>(from));
  });
}

}  // namespace weft::fallback::native
