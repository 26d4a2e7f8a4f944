#include "plan/pack.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace weft::plan {
namespace {

// For each logical axis, the offset that each of its indices contributes. Blocks of one axis add
// up, so the offset of an element is the sum over its axes.
std::vector<std::vector<int64_t>> AxisOffsets(const Layout& layout, const Shape& shape) {
  std::vector<std::vector<int64_t>> offsets(shape.size());
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t a = 0; a < shape.size(); ++a) {
    for (int64_t i = 0; i < shape[a]; ++i) {
      index[a] = i;
      offsets[a].push_back(OffsetOf(layout, shape, index));
    }
    index[a] = 0;
  }
  return offsets;
}

// Calls move(plain position, packed position) for every element.
template <typename Move>
void ForEach(const Layout& layout, const Shape& shape, const Move& move) {
  const auto offsets = AxisOffsets(layout, shape);
  int64_t count = 1;
  for (int64_t e : shape) count *= e;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t packed = 0;
    for (size_t a = 0; a < shape.size(); ++a) packed += offsets[a][index[a]];
    move(i, packed);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
}

template <typename Move>
void MoveElems(int64_t bytes, const Layout& layout, const Shape& shape, const Move& position,
               const std::byte* from, std::byte* to) {
  ForEach(layout, shape, [&](int64_t plain, int64_t packed) {
    const auto [src, dst] = position(plain, packed);
    switch (bytes) {
      case 1:
        to[dst] = from[src];
        break;
      case 2:
        std::memcpy(to + 2 * dst, from + 2 * src, 2);
        break;
      case 4:
        std::memcpy(to + 4 * dst, from + 4 * src, 4);
        break;
      default:
        std::memcpy(to + bytes * dst, from + bytes * src, bytes);
    }
  });
}

}  // namespace

Tensor Pack(const Tensor& plain, const Layout& layout) {
  WEFT_CHECK(plain.dtype() != Dtype::kString, "strings have no layout");
  Tensor packed(plain.dtype(), {AllocElems(layout, plain.shape())});
  if (plain.elems() == 0) return packed;
  MoveElems(
      SizeBytes(plain.dtype()), layout, plain.shape(),
      [](int64_t a, int64_t b) { return std::pair(a, b); },
      static_cast<const std::byte*>(plain.data()), static_cast<std::byte*>(packed.mutable_data()));
  return packed;
}

Tensor Unpack(const Tensor& packed, const Layout& layout, const Shape& shape) {
  Tensor plain(packed.dtype(), shape);
  if (plain.elems() == 0) return plain;
  MoveElems(
      SizeBytes(plain.dtype()), layout, shape, [](int64_t a, int64_t b) { return std::pair(b, a); },
      static_cast<const std::byte*>(packed.data()), static_cast<std::byte*>(plain.mutable_data()));
  return plain;
}

}  // namespace weft::plan
