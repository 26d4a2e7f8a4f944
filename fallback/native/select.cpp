// Operators that choose among elements: their results, and mostly their shapes, depend on data.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {

// [rank, count]: the indices of all that is not zero, in row-major order.
Status RunNonZero(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  std::vector<int64_t> found;
  const auto scan = [&]<typename T>(auto is_zero) {
    for (int64_t i = 0; i < in.elems; ++i) {
      if (!is_zero(in.as<T>()[i])) found.push_back(i);
    }
  };
  if (in.dtype == Dtype::kString) {
    scan.template operator()<std::string>([](const std::string& s) { return s.empty(); });
  } else {
    ByType<true>(in.dtype, [&]<typename T>() {
      scan.template operator()<T>([](T v) { return static_cast<Compute<T>>(v) == 0; });
    });
  }
  const auto count = static_cast<int64_t>(found.size()), rank = static_cast<int64_t>(in.rank());
  WEFT_TRY(const Out out, args.Output(0, Dtype::kI64, {rank, count}));
  const std::vector<int64_t> strides = Strides(in.shape);
  for (int64_t d = 0; d < rank; ++d) {
    for (int64_t k = 0; k < count; ++k)
      out.as<int64_t>()[d * count + k] = found[k] / strides[d] % in.shape[d];
  }
  return {};
}

Status RunCompress(const Args& args) {
  WEFT_TRY(args.Need(2));
  WEFT_TRY(args.NeedType(1, Dtype::kBool));
  const In &in = args[0], &condition = args[1];
  if (condition.rank() != 1)
    return args.Error("{} has rank {}, expected 1", args.Name(1), condition.rank());
  Shape shape = in.shape;
  int64_t axis = 0;
  if (FindAttribute(args.call, "axis") == nullptr) {
    shape = {in.elems};  // of the flattened tensor
  } else {
    WEFT_TRY(axis, args.Axis(args.Int("axis", 0), in.rank()));
  }
  const int64_t extent = shape[axis];
  if (condition.elems > extent) {
    return args.Error("{} has {} elements for an extent of {}", args.Name(1), condition.elems,
                      extent);
  }
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < condition.elems; ++k) {
    if (condition.as<uint8_t>()[k] != 0) kept.push_back(k);
  }
  const int64_t run = Strides(shape)[axis];
  shape[axis] = static_cast<int64_t>(kept.size());
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  for (int64_t to = 0, row = 0; to < out.elems; ++row) {
    for (int64_t k : kept) {
      CopyElems(in.dtype, out.data, to, in.data, (row * extent + k) * run, run);
      to += run;
    }
  }
  return {};
}

namespace {

// An unsigned integer of T's width, or of 32 bits, that sorts as its value does: zeros alike, NaN
// the largest.
template <typename T>
auto SortKey(T value) {
  using C = Compute<T>;
  if constexpr (kIs16<T>) {  // as it lies: each would be widened for every comparison
    constexpr uint32_t kSign = 0x8000, kInfinity = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
    const uint32_t bits = value.bits, magnitude = bits & ~kSign;
    const uint32_t key = (bits & kSign) != 0 ? kSign - magnitude : kSign + magnitude;
    return magnitude > kInfinity ? ~uint32_t{0} : key;
  } else if constexpr (std::is_floating_point_v<C>) {
    const C v = value;
    using Bits = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
    constexpr int kSignBit = 8 * sizeof(C) - 1;
    const Bits bits = std::bit_cast<Bits>(v + C{0}), negative = bits >> kSignBit;
    const Bits key =
        bits ^ (-negative | Bits{1} << kSignBit);  // no branch: signs are hard to guess
    return std::isnan(v) ? ~Bits{0} : key;
  } else if constexpr (std::is_same_v<C, bool>) {
    return static_cast<uint32_t>(C{value});
  } else {
    using Wide = std::conditional_t<std::is_signed_v<C>, int64_t, uint64_t>;
    using Bits = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;
    const Wide wide = value, least = std::numeric_limits<C>::min();
    return static_cast<Bits>(static_cast<uint64_t>(wide) - static_cast<uint64_t>(least));
  }
}

}  // namespace

// Equal values keep their order, whatever `sorted` says: one answer for one input. NaN is the
// largest.
Status RunTopK(const Args& args) {
  WEFT_TRY(args.Need(2));
  const In& in = args[0];
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", -1), in.rank()));
  WEFT_TRY(const int64_t k, args.Int(1));
  const int64_t extent = in.shape[axis];
  if (k < 0 || k > extent) return args.Error("{} is {}, outside [0, {}]", args.Name(1), k, extent);
  Shape shape = in.shape;
  shape[axis] = k;
  WEFT_TRY(const Out values, args.Output(0, in.dtype, shape));
  WEFT_TRY(const Out indices, args.Output(1, Dtype::kI64, shape));
  const bool largest = args.Int("largest", 1) != 0;
  if (values.elems == 0) return {};
  const int64_t stride = Strides(in.shape)[axis], rows = values.elems / k;
  const auto select = [&]<typename T, typename Entry>() {
    using Key = decltype(SortKey(T{}));
    constexpr int kIndexBits = 4 * sizeof(Entry);
    const Key flip = largest ? ~Key{0} : 0;
    std::vector<T> apart(stride == 1 ? 0 : extent);
    std::vector<Entry> best(k);  // of the elements seen so far: keys, and below them indices
    for (int64_t r = 0; r < rows; ++r) {
      const T* x = in.as<T>() + r / stride * stride * extent + r % stride;
      for (int64_t i = 0; i < std::ssize(apart); ++i) apart[i] = x[i * stride];
      const T* row = stride == 1 ? x : apart.data();
      const auto entry = [&](int64_t i) {
        return static_cast<Entry>(SortKey(row[i]) ^ flip) << kIndexBits | static_cast<Entry>(i);
      };
      for (int64_t i = 0; i < k; ++i) best[i] = entry(i);
      if (k < extent) std::make_heap(best.begin(), best.end());
      const auto take = [&](int64_t i) {
        const Entry e = entry(i);
        if (e > best.front()) return;
        std::pop_heap(best.begin(), best.end());
        best.back() = e;
        std::push_heap(best.begin(), best.end());
      };
      // Few of many are among the best: whole blocks are passed over, by vectors.
      constexpr int64_t kBlock = 32;
      int64_t block = k;
      for (; block + kBlock <= extent; block += kBlock) {
        const auto limit = static_cast<Key>(best.front() >> kIndexBits);
        Key any = 0;
        for (int64_t i = 0; i < kBlock; ++i)
          any |= static_cast<Key>((SortKey(row[block + i]) ^ flip) < limit);
        for (int64_t i = block; any != 0 && i < block + kBlock; ++i) take(i);
      }
      for (; block < extent; ++block) take(block);
      std::sort(best.begin(), best.end());
      const int64_t to = r / stride * stride * k + r % stride;
      for (int64_t i = 0; i < k; ++i) {
        const auto from = static_cast<int64_t>(best[i] & ((Entry{1} << kIndexBits) - 1));
        values.as<T>()[to + i * stride] = row[from];
        indices.as<int64_t>()[to + i * stride] = from;
      }
    }
  };
  const bool known = ByType(in.dtype, [&]<typename T>() {
    using Wide = unsigned __int128;
    using Narrow = std::conditional_t<sizeof(SortKey(T{})) == 4, uint64_t, Wide>;
    extent <= UINT32_MAX ? select.template operator()<T, Narrow>()
                         : select.template operator()<T, Wide>();
  });
  return known ? Status() : NoSuchType(args, in.dtype);
}

// Indices outside [-depth, depth) give a row of off values.
Status RunOneHot(const Args& args) {
  WEFT_TRY(args.Need(3));
  const In &in = args[0], &values = args[2];
  if (args[1].elems != 1 || values.elems != 2) {
    return args.Error("depth has {} elements, expected 1; values have {}, expected 2",
                      args[1].elems, values.elems);
  }
  int64_t depth = -1;
  if (!ByType(args[1].dtype, [&]<typename T>() {
        depth = To<int64_t>(static_cast<Compute<T>>(*args[1].as<T>()));
      })) {
    return NoSuchType(args, args[1].dtype);
  }
  if (depth < 0) return args.Error("{} is {}", args.Name(1), depth);
  WEFT_TRY(const int64_t axis, args.Axis(args.Int("axis", -1), in.rank() + 1));
  Shape shape = in.shape;
  shape.insert(shape.begin() + axis, depth);
  WEFT_TRY(const Out out, args.Output(0, values.dtype, shape));
  FillElems(out.dtype, out.data, 0, out.elems, values.data);
  if (out.elems == 0) return {};
  const int64_t run = Strides(shape)[axis];
  const bool known = ByType(in.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < in.elems; ++i) {
      const auto given = static_cast<Compute<T>>(in.as<T>()[i]);
      if constexpr (std::is_same_v<T, uint64_t>)  // the largest of them would be negative
        if (!std::in_range<int64_t>(given)) continue;
      int64_t index = To<int64_t>(given);
      if (index < -depth || index >= depth) continue;
      if (index < 0) index += depth;
      CopyElems(out.dtype, out.data, (i / run * depth + index) * run + i % run, values.data, 1, 1);
    }
  });
  return known ? Status() : NoSuchType(args, in.dtype);
}

namespace {

// Compares slice i with slice j of an axis: negative, zero or positive. A NaN equals only itself
// here, and comes last, so that this is an order.
template <typename T>
int CompareSlices(const In& in, int64_t outer, int64_t extent, int64_t run, int64_t i, int64_t j) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < run; ++k) {
      const T &a = in.as<T>()[(o * extent + i) * run + k],
              &b = in.as<T>()[(o * extent + j) * run + k];
      if constexpr (std::is_same_v<T, std::string>) {
        if (const int order = a.compare(b); order != 0) return order;
      } else {
        const Compute<T> x = a, y = b;
        if constexpr (std::is_floating_point_v<Compute<T>>) {
          if (std::isnan(x) || std::isnan(y)) {
            if (std::isnan(x) != std::isnan(y)) return std::isnan(x) ? 1 : -1;
            continue;
          }
        }
        if (x != y) return x < y ? -1 : 1;
      }
    }
  }
  return 0;
}

// The distinct slices: `first` place of each in the order of the output, its count, and for each
// slice which of them it is.
struct Distinct {
  std::vector<int64_t> first, counts, inverse;
};
template <typename Compare>
Distinct Distinguish(int64_t extent, bool sorted, Compare compare) {
  std::vector<int64_t> order(extent);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t i, int64_t j) {
    const int c = compare(i, j);
    return c != 0 ? c < 0 : i < j;
  });
  Distinct out{.inverse = std::vector<int64_t>(extent)};
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || compare(order[k - 1], order[k]) != 0) {
      out.first.push_back(order[k]);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[order[k]] = static_cast<int64_t>(out.first.size()) - 1;
  }
  if (sorted) return out;
  std::vector<int64_t> by_place(out.first.size()), rank(out.first.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::ranges::sort(by_place, {}, [&](int64_t u) { return out.first[u]; });
  Distinct placed{.inverse = out.inverse};
  for (size_t k = 0; k < by_place.size(); ++k) {
    placed.first.push_back(out.first[by_place[k]]);
    placed.counts.push_back(out.counts[by_place[k]]);
    rank[by_place[k]] = static_cast<int64_t>(k);
  }
  for (int64_t& u : placed.inverse) u = rank[u];
  return placed;
}

}  // namespace

Status RunUnique(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& in = args[0];
  Shape shape = {in.elems};
  int64_t axis = 0;
  if (FindAttribute(args.call, "axis")) {
    shape = in.shape;
    WEFT_TRY(axis, args.Axis(args.Int("axis", 0), in.rank()));
  }
  const int64_t extent = shape[axis];
  const int64_t run = Strides(shape)[axis], outer = in.elems == 0 ? 0 : in.elems / extent / run;
  const bool sorted = args.Int("sorted", 1) != 0;
  Distinct distinct;
  const auto distinguish = [&]<typename T>() {
    distinct = Distinguish(extent, sorted, [&](int64_t i, int64_t j) {
      return CompareSlices<T>(in, outer, extent, run, i, j);
    });
  };
  if (in.dtype == Dtype::kString) {
    distinguish.operator()<std::string>();
  } else {
    ByType<true>(in.dtype, distinguish);
  }
  const auto count = static_cast<int64_t>(distinct.first.size());
  shape[axis] = count;
  WEFT_TRY(const Out out, args.Output(0, in.dtype, shape));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < count; ++k) {
      CopyElems(in.dtype, out.data, (o * count + k) * run, in.data,
                (o * extent + distinct.first[k]) * run, run);
    }
  }
  const std::vector<int64_t>* lists[] = {&distinct.first, &distinct.inverse, &distinct.counts};
  for (size_t i = 0; i < 3; ++i) {
    if (!args.Wants(i + 1)) continue;
    WEFT_TRY(const Out list,
             args.Output(i + 1, Dtype::kI64, {static_cast<int64_t>(lists[i]->size())}));
    std::ranges::copy(*lists[i], list.as<int64_t>());
  }
  return {};
}

}  // namespace weft::fallback::native
