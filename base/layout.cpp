#include "base/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/check.h"

namespace weft {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// On sizes, which are never negative.
int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kMax : sum;
}

// The block of a logical axis; 0 if it is whole.
int64_t BlockOf(const Layout& layout, int32_t axis) {
  for (const Layout::Axis& a : layout.axes) {
    if (a.axis == axis && a.block > 0) return a.block;
  }
  return 0;
}

// The extent of the physical axis at `place`.
int64_t PhysicalExtent(const Layout& layout, std::span<const int64_t> shape, size_t place) {
  const Layout::Axis& a = layout.axes[place];
  if (a.block > 0) return a.block;
  const int64_t extent = shape[a.axis], block = BlockOf(layout, a.axis);
  return block == 0 ? extent : extent / block + (extent % block != 0);
}

// The stride of each physical axis, and what one more axis outside would have: the whole size.
std::vector<int64_t> StridesAndSize(const Layout& layout, std::span<const int64_t> shape) {
  WEFT_CHECK(shape.size() == layout.rank(), "{} extents, layout {}", shape.size(), Print(layout));
  const size_t places = layout.axes.size();
  std::vector<int64_t> strides(places + 1);
  int64_t stride = 1;
  for (size_t place = places; place-- > 0;) {
    strides[place + 1] = stride;
    stride = SaturatingMul(stride, PhysicalExtent(layout, shape, place));
    if (place + 1 == places) stride = SaturatingAdd(stride, layout.row_pad_elems);
  }
  strides[0] = stride;
  return strides;
}

}  // namespace

Layout Layout::Plain(size_t rank) {
  Layout layout;
  for (size_t i = 0; i < rank; ++i) layout.axes.push_back({.axis = static_cast<int32_t>(i)});
  return layout;
}

Layout Layout::Permuted(std::span<const int32_t> order) {
  Layout layout;
  for (int32_t axis : order) layout.axes.push_back({.axis = axis});
  return layout;
}

bool Layout::IsPlain() const { return *this == Plain(axes.size()); }

size_t Layout::rank() const {
  return std::ranges::count_if(axes, [](const Axis& a) { return a.block == 0; });
}

std::string Print(const Layout& layout) {
  if (layout.axes.empty()) return "-";
  std::string text;
  for (const Layout::Axis& a : layout.axes) {
    WEFT_CHECK(a.axis >= 0 && a.axis < Layout::kMaxRank, "axis {}", a.axis);
    if (a.block > 0) text += fmt::format("{}", a.block);
    const bool outer = a.block == 0 && BlockOf(layout, a.axis) > 0;
    text += static_cast<char>((outer ? 'A' : 'a') + a.axis);
  }
  if (layout.row_pad_elems > 0) text += fmt::format("+{}", layout.row_pad_elems);
  return text;
}

namespace {

// Every axis below the rank once whole or as a block number, and every capital with its block later
// on.
Status CheckAxes(const Layout& layout, const std::vector<bool>& capital, std::string_view text) {
  const auto error = [&](std::string what) {
    return Invalid(fmt::format("layout \"{}\": {}", text, what));
  };
  for (int32_t axis = 0; axis < static_cast<int32_t>(layout.rank()); ++axis) {
    const char letter = static_cast<char>('a' + axis);
    const auto is_outer = [&](const Layout::Axis& a) { return a.axis == axis && a.block == 0; };
    const auto is_inner = [&](const Layout::Axis& a) { return a.axis == axis && a.block > 0; };
    const auto outers = std::ranges::count_if(layout.axes, is_outer);
    const auto inners = std::ranges::count_if(layout.axes, is_inner);
    if (outers != 1) return error(fmt::format("found {} axes '{}', expected 1", outers, letter));
    const auto outer = std::ranges::find_if(layout.axes, is_outer);
    const auto inner = std::ranges::find_if(layout.axes, is_inner);
    if (inners != (capital[outer - layout.axes.begin()] ? 1 : 0)) {
      return error(
          fmt::format("found {} blocks of axis '{}'; an axis is a capital if and only if "
                      "it has one block",
                      inners, letter));
    }
    if (inner < outer) return error(fmt::format("the block of '{}' stands before it", letter));
  }
  return {};
}

}  // namespace

Result<Layout> ParseLayout(std::string_view text) {
  Layout layout;
  if (text == "-") return layout;
  const auto error = [&](std::string_view what) {
    return Invalid(fmt::format("layout \"{}\": {}", text, what));
  };
  if (text.size() > 256) return Invalid(fmt::format("a layout of {} bytes", text.size()));
  for (unsigned char c : text) {
    if (c <= ' ' || c > '~')
      return Invalid("a layout holds a character other than letters, digits, '+'");
  }
  std::vector<bool> capital;
  const char *at = text.data(), *end = at + text.size();
  while (at != end && *at != '+') {
    int64_t block = 0;
    const bool has_block = *at >= '0' && *at <= '9';
    if (has_block) {
      const auto [next, code] = std::from_chars(at, end, block);
      if (code != std::errc() || block < 2 || next == end) return error("malformed block");
      at = next;
    }
    const bool is_capital = *at >= 'A' && *at <= 'Z';
    if (!is_capital && !(*at >= 'a' && *at <= 'z')) return error("expected a letter for an axis");
    if (is_capital && has_block) return error("a block is a small letter");
    layout.axes.push_back({.axis = *at - (is_capital ? 'A' : 'a'), .block = block});
    capital.push_back(is_capital);
    ++at;
  }
  if (layout.axes.empty()) return error("expected axes, or - for rank 0");
  if (at != end) {
    const auto [next, code] = std::from_chars(at + 1, end, layout.row_pad_elems);
    if (code != std::errc() || next != end || layout.row_pad_elems < 1) {
      return error("expected a count of elements after '+'");
    }
  }
  const int32_t rank = static_cast<int32_t>(layout.rank());
  for (const Layout::Axis& a : layout.axes) {
    if (a.axis >= rank) return error(fmt::format("axis '{}' of rank {}", char('a' + a.axis), rank));
  }
  WEFT_TRY(CheckAxes(layout, capital, text));
  return layout;
}

std::vector<int64_t> PhysicalStrides(const Layout& layout, std::span<const int64_t> shape) {
  std::vector<int64_t> strides = StridesAndSize(layout, shape);
  strides.erase(strides.begin());
  return strides;
}

int64_t AllocElems(const Layout& layout, std::span<const int64_t> shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  return StridesAndSize(layout, shape)[0];
}

Affine OffsetOf(const Layout& layout, std::span<const int64_t> shape,
                std::span<const Affine> index) {
  const std::vector<int64_t> strides = PhysicalStrides(layout, shape);
  Affine offset;
  for (size_t place = 0; place < strides.size(); ++place) {
    const auto [axis, inner] = layout.axes[place];
    const int64_t block = inner > 0 ? inner : BlockOf(layout, axis);
    const Affine part = inner > 0   ? Mod(index[axis], block)
                        : block > 0 ? FloorDiv(index[axis], block)
                                    : index[axis];
    offset += part * strides[place];
  }
  return offset;
}

int64_t OffsetOf(const Layout& layout, std::span<const int64_t> shape,
                 std::span<const int64_t> index) {
  const std::vector<int64_t> strides = PhysicalStrides(layout, shape);
  int64_t offset = 0;
  for (size_t place = 0; place < strides.size(); ++place) {
    const auto [axis, inner] = layout.axes[place];
    const int64_t block = inner > 0 ? inner : BlockOf(layout, axis);
    const int64_t part = inner > 0   ? FloorMod(index[axis], block)
                         : block > 0 ? FloorDiv(index[axis], block)
                                     : index[axis];
    offset += part * strides[place];
  }
  return offset;
}

}  // namespace weft
