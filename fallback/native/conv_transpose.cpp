// ConvTranspose: a product of the turned filters and the image gives what each place of the image
// adds to each place that its window covers; these are then added up.
#include <algorithm>

#include "base/threads/parallel.h"
#include "fallback/native/conv.h"

namespace weft::fallback::native {
namespace {

Status Cover(const Args& args, Axis& a, int64_t padding, std::optional<int64_t> wanted,
             bool is_same) {
  int64_t scaled = 0;
  if (__builtin_mul_overflow(a.in, a.stride, &scaled) || scaled > kMostExtent)
    return args.Error("an axis of {} with a stride of {} is too large", a.in, a.stride);
  // The extent that the windows cover, pads included.
  const int64_t whole = scaled - a.stride + a.reach() + padding;
  if (wanted)
    a.out = *wanted;
  else
    a.out = is_same ? scaled : whole - a.before - a.after;
  if (a.out < 0)
    return args.Error("pads of {} and {} for an extent of {}", a.before, a.after, whole);
  if (wanted || is_same) a.before = PadsBefore(args, whole - a.out);
  return {};
}

Status CoverAll(const Args& args, Convolution& c) {
  WEFT_TRY(const bool is_same, IsSame(args));
  const size_t n = args[0].rank() - 2;
  WEFT_TRY(const auto padding, ListOf(args, "output_padding", n, 0, 0));
  std::vector<int64_t> wanted = IntsAttr(args.call, "output_shape");
  // Some writers name the images and channels too.
  const size_t skipped = wanted.size() == n + 2 ? 2 : 0;
  if (!wanted.empty() && wanted.size() != n + skipped)
    return args.Error("output_shape has {} numbers, expected {}", wanted.size(), n);
  for (size_t i = 0; i < n; ++i) {
    std::optional<int64_t> extent;
    if (!wanted.empty()) extent = wanted[skipped + i];
    if (extent && (*extent < 0 || *extent > kMostExtent))
      return args.Error("output_shape holds {}", *extent);
    WEFT_TRY(Cover(args, c.axes[c.first(n + 2) + i], padding[i], extent, is_same));
  }
  return {};
}

// Adds one addend for each place of a channel to where its tap puts it.
template <typename C>
void AddTap(const Convolution& c, int64_t tap, const C* from, C* to) {
  const std::span outer = std::span(c.axes).first(c.axes.size() - 1);
  const Axis& x = c.axes.back();
  Index offset{};
  for (size_t d = c.axes.size(); d-- > 0; tap /= c.axes[d].kernel)
    offset[d] = tap % c.axes[d].kernel * c.axes[d].dilation - c.axes[d].before;
  // Places [lo, hi) of a row end up inside.
  const int64_t dx = offset[outer.size()];
  const auto above = [&](int64_t at) { return std::max<int64_t>(-FloorDiv(at, x.stride), 0); };
  const int64_t lo = std::min(above(dx), x.in), hi = std::clamp(above(dx - x.out), lo, x.in);
  Index index{};
  do {
    int64_t row = 0;
    for (size_t d = 0; d < outer.size() && row >= 0; ++d) {
      const int64_t at = index[d] * outer[d].stride + offset[d];
      row = at < 0 || at >= outer[d].out ? -1 : row * outer[d].out + at;
    }
    if (row >= 0) {
      C* at = to + row * x.out + dx;
      for (int64_t ix = lo; ix < hi; ++ix) at[ix * x.stride] += from[ix];
    }
    from += x.in;
  } while (!Advance(outer, &Axis::in, index));
}

// Filters [f0, f1) of a group of an image, whose elements begin at `image` and weights at `w`.
template <typename T>
void RunFilters(const Convolution& c, int64_t f0, int64_t f1, const T* image, const Compute<T>* w,
                Compute<T>* to) {
  using C = Compute<T>;
  const int64_t rows = (f1 - f0) * c.taps;
  const Scratch<C> addends(rows * c.in);
  Product<C> p{.m = rows,
               .n = c.in,
               .k = c.channels,
               .a = w + f0 * c.taps,
               .a_row = 1,
               .a_k = c.filters * c.taps,
               .b_row = c.in,
               .c = addends.get(),
               .c_row = c.in};
  const Widened<T> wide(image, c.channels * c.in);
  p.b = wide.get();
  MultiplyHere(p);
  for (int64_t r = 0; r < rows; ++r) {
    Poll();
    AddTap(c, r % c.taps, addends.get() + r * c.in, to + (f0 + r / c.taps) * c.out);
  }
}

// So many filters at once that their addends fit the cache, but enough to share the image.
int64_t FiltersAtOnce(const Convolution& c) {
  constexpr int64_t kAddends = int64_t{1} << 18;
  const int64_t each = std::max<int64_t>(c.taps * c.in, 1);
  return std::clamp<int64_t>(std::max(kAddends / each, 32 / c.taps), 1, c.filters);
}

template <typename T>
void RunAs(const Args& args, const Convolution& c, const Out& out) {
  using C = Compute<T>;
  const Widened<T> w(args[1].as<T>(), args[1].elems);
  const Sums<T> sums(out);
  const int64_t step = FiltersAtOnce(c);
  const int64_t steps = (c.filters + step - 1) / step;
  const double work = static_cast<double>(args[0].elems) * static_cast<double>(c.filters) *
                      static_cast<double>(c.taps);
  ForPieces(c.images * c.groups * steps, work, [&](int64_t piece) {
    const int64_t i = piece / steps, group = i % c.groups;
    const int64_t f0 = piece % steps * step, f1 = std::min(c.filters, f0 + step);
    C* to = sums.get() + i * c.filters * c.out;
    for (int64_t f = f0; f < f1; ++f) {
      const C start = args.Has(2) ? static_cast<C>(args[2].as<T>()[group * c.filters + f]) : C{0};
      std::fill_n(to + f * c.out, c.out, start);
    }
    RunFilters<T>(c, f0, f1, args[0].as<T>() + i * c.channels * c.in,
                  w.get() + group * c.channels * c.filters * c.taps, to);
  });
  sums.Round();
}

}  // namespace

Status RunConvTranspose(const Args& args) {
  WEFT_TRY(Convolution c, ConvolutionOf(args));
  const In &x = args[0], &w = args[1];
  if (x.shape[1] != w.shape[0]) {
    return args.Error("{} of shape {} for {} of shape {}", args.Name(1), Print(w.shape),
                      args.Name(0), Print(x.shape));
  }
  WEFT_TRY(CheckGroups(args, c, x.shape[1]));
  c.channels = x.shape[1] / c.groups;
  c.filters = w.shape[1];
  WEFT_TRY(CoverAll(args, c));
  WEFT_TRY(const Out out, ResultOf(args, c));
  if (out.elems > 0 && x.elems > 0 && w.elems > 0) {
    c.CountAll();
    WEFT_TRY(args.NeedScratch(static_cast<double>(FiltersAtOnce(c)) * static_cast<double>(c.taps) *
                              static_cast<double>(c.in) * sizeof(double) * ThreadsOfArena()));
  }
  const bool known = ByFloat(out.dtype, [&]<typename T>() {
    if (out.elems == 0) return;
    if (x.elems == 0 || w.elems == 0) return FillWithBias<T>(args, c, out);
    RunAs<T>(args, c, out);
  });
  return known ? Status() : NoSuchType(args, out.dtype);
}

}  // namespace weft::fallback::native
