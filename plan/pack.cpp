#include "plan/pack.h"

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace weft::plan {
namespace {

// The offset of each element of axes [first, last), all others at 0, in plain order. Blocks of one
// axis add up, so the offset of an element is the sum over ranges of axes.
std::vector<int64_t> OffsetsOf(const Layout& layout, const Shape& shape, size_t first,
                               size_t last) {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t a = first; a < last; ++a) {
    std::vector<int64_t> longer;
    longer.reserve(offsets.size() * static_cast<size_t>(shape[a]));
    std::vector<int64_t> of_axis;
    for (index[a] = 0; index[a] < shape[a]; ++index[a])
      of_axis.push_back(OffsetOf(layout, shape, index));
    index[a] = 0;
    for (const int64_t base : offsets)
      for (const int64_t o : of_axis) longer.push_back(base + o);
    offsets = std::move(longer);
  }
  return offsets;
}

// Calls move(plain position, packed position) for every element.
template <typename Move>
void ForEach(const Layout& layout, const Shape& shape, const Move& move) {
  constexpr int64_t kMostInner = 1 << 12;  // offsets stay in the first cache
  size_t split = shape.empty() ? 0 : shape.size() - 1;
  for (int64_t inner = shape.empty() ? 1 : shape.back();
       split > 0 && inner * shape[split - 1] <= kMostInner; --split)
    inner *= shape[split - 1];
  const std::vector<int64_t> outer = OffsetsOf(layout, shape, 0, split),
                             inner = OffsetsOf(layout, shape, split, shape.size());
  int64_t plain = 0;
  for (const int64_t base : outer)
    for (const int64_t offset : inner) move(plain++, base + offset);
}

// Calls visit with an integer as wide as an element.
template <typename Visit>
void WithWidth(int64_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      WEFT_CHECK(bytes == 8, "elements of {} bytes", bytes);
      return visit(uint64_t{});
  }
}

}  // namespace

Tensor Pack(const Tensor& plain, const Layout& layout) {
  WEFT_CHECK(plain.dtype() != Dtype::kString, "strings have no layout");
  Tensor packed(plain.dtype(), {AllocElems(layout, plain.shape())});
  if (plain.elems() == 0) return packed;
  if (SharesBytes(plain.dtype())) {
    void* const to = packed.mutable_data();
    ForEach(layout, plain.shape(),
            [&](int64_t at, int64_t offset) { SetNibble(to, offset, NibbleAt(plain.data(), at)); });
    return packed;
  }
  WithWidth(SizeBytes(plain.dtype()), [&]<typename Elem>(Elem) {
    const Elem* const from = plain.as<Elem>();
    Elem* const to = packed.mutable_as<Elem>();
    ForEach(layout, plain.shape(), [&](int64_t at, int64_t offset) { to[offset] = from[at]; });
  });
  return packed;
}

Tensor Unpack(const Tensor& packed, const Layout& layout, const Shape& shape) {
  Tensor plain(packed.dtype(), shape);
  if (plain.elems() == 0) return plain;
  if (SharesBytes(plain.dtype())) {
    void* const to = plain.mutable_data();
    ForEach(layout, shape, [&](int64_t at, int64_t offset) {
      SetNibble(to, at, NibbleAt(packed.data(), offset));
    });
    return plain;
  }
  WithWidth(SizeBytes(plain.dtype()), [&]<typename Elem>(Elem) {
    const Elem* const from = packed.as<Elem>();
    Elem* const to = plain.mutable_as<Elem>();
    ForEach(layout, shape, [&](int64_t at, int64_t offset) { to[at] = from[offset]; });
  });
  return plain;
}

}  // namespace weft::plan
