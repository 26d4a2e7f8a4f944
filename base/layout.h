// Where the elements of a tensor lie: a map from logical indices to an offset in elements.
//
// A layout lists physical axes from outermost to innermost. Each is a logical axis, whole or in
// part: an axis that is blocked by b appears twice, first as its block number (index / b), later as
// its place in the block (index mod b). Written with letters, axis 0 being `a`: the outer (or only)
// part of an axis that is blocked in capitals, as oneDNN does.
//
//   abcd        plain NCHW              acdb        NHWC
//   aBcd16b     NCHW with channels in blocks of 16; the last block is padded to 16
//   acdb+16     NHWC, each innermost row followed by 16 unused elements (breaks set conflicts)
//
// The unused elements of padded blocks and rows are never read by a kernel as data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/status.h"

namespace weft {

struct Layout {
  static constexpr int32_t kMaxRank = 26;  // of a tensor anywhere in weft: an axis is a letter

  struct Axis {
    int32_t axis = 0;   // logical axis
    int64_t block = 0;  // 0: the outer (or whole) part; b > 0: the index modulo b
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;     // outermost first
  int64_t row_pad_elems = 0;  // after each run of the innermost axis

  static Layout Plain(size_t rank);
  static Layout Permuted(std::span<const int32_t> order);  // order[k]: logical axis at place k
  bool IsPlain() const;
  size_t rank() const;  // logical
  bool operator==(const Layout&) const = default;
};

std::string Print(const Layout& layout);  // "aBcd16b", "acdb+16"; "-" for rank 0
Result<Layout> ParseLayout(std::string_view text);

// The stride in elements of each physical axis, for a tensor of these logical extents. Sizes and
// strides that leave int64 are INT64_MAX, which every limit refuses.
std::vector<int64_t> PhysicalStrides(const Layout& layout, std::span<const int64_t> shape);
// Elements to allocate, padding included.
int64_t AllocElems(const Layout& layout, std::span<const int64_t> shape);
// The offset of a logical index, in elements.
Affine OffsetOf(const Layout& layout, std::span<const int64_t> shape,
                std::span<const Affine> index);
int64_t OffsetOf(const Layout& layout, std::span<const int64_t> shape,
                 std::span<const int64_t> index);

}  // namespace weft
