// What Conv and ConvTranspose have in common: what their operands and attributes say.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/affine.h"
#include "fallback/native/axis.h"
#include "fallback/native/gemm.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {

// Everything is counted for one group, of which each image has `groups`.
struct Convolution {
  int64_t images = 0, groups = 1, channels = 0, filters = 0;
  std::vector<Axis> axes;             // two at least: where there is one, an axis of one before it
  int64_t in = 1, out = 1, taps = 1;  // elements of a channel, of a filter's result, of a kernel

  // The axes that there are, out of `rank` of the operands.
  size_t first(size_t rank) const { return axes.size() + 2 - rank; }
  // Of operands and a result that all have elements.
  void CountAll() {
    for (const Axis& a : axes) in *= a.in, out *= a.out, taps *= a.kernel;
  }
};

// Pads and extents are at most this, so that sums of some fit.
inline constexpr int64_t kMostExtent = int64_t{1} << 60;

inline constexpr size_t kMostAxes = Layout::kMaxRank;
using Index = std::array<int64_t, kMostAxes>;
// The next place in extents of `axes`, given by a member of Axis; after the last one the first, and
// true.
inline bool Advance(std::span<const Axis> axes, int64_t Axis::* extent, Index& index) {
  for (size_t d = axes.size(); d-- > 0; index[d] = 0)
    if (++index[d] < axes[d].*extent) return false;
  return true;
}

// A list of one number for each of `count` spatial axes, within [least, kMostExtent].
Result<std::vector<int64_t>> ListOf(const Args& args, std::string_view name, size_t count,
                                    int64_t least, int64_t otherwise);
// The operands' ranks and what the attributes say of each axis; results have no extents yet.
Result<Convolution> ConvolutionOf(const Args& args);
Status CheckGroups(const Args& args, const Convolution& c, int64_t divided);
// Whether auto_pad is SAME_UPPER or SAME_LOWER, so that the pads follow from the extents.
Result<bool> IsSame(const Args& args);
// How many of all pads of an axis lie before it: of an odd number the larger part, but for
// SAME_UPPER.
int64_t PadsBefore(const Args& args, int64_t total);
// The result, once its extents are known, and what is to be known of the bias.
Result<Out> ResultOf(const Args& args, const Convolution& c);

// All of a result, computed here and rounded at the end where it has 16 bits.
template <typename T>
class Sums {
 public:
  explicit Sums(const Out& out) : out_(out) {
    if constexpr (kIs16<T>) copy_.emplace(out.elems);
  }
  Compute<T>* get() const {
    if constexpr (kIs16<T>)
      return copy_->get();
    else
      return out_.as<T>();
  }
  void Round() const {
    if constexpr (kIs16<T>)
      for (int64_t i = 0; i < out_.elems; ++i) out_.as<T>()[i] = To<T>(get()[i]);
  }

 private:
  const Out& out_;
  std::optional<Scratch<Compute<T>>> copy_;
};

// The results where there is nothing to add up.
template <typename T>
void FillWithBias(const Args& args, const Convolution& c, const Out& out) {
  const int64_t filters = c.groups * c.filters, each = out.elems / (c.images * filters);
  for (int64_t f = 0; f < c.images * filters; ++f)
    std::fill_n(out.as<T>() + f * each, each,
                args.Has(2) ? args[2].as<T>()[f % filters] : To<T>(0.0F));
}

}  // namespace weft::fallback::native
