// Conv. A convolution is a product of the filters and an image whose windows are unfolded panel by
// panel; one of few filters a group is a sum of shifted images. Floats of 16 bits accumulate in f32
// and are rounded once.
#include "fallback/native/conv.h"

#include <algorithm>

namespace weft::fallback::native {
namespace {

Status SlideOver(const Args& args, Axis& a, bool is_same) {
  if (is_same) {
    a.out = a.in / a.stride + (a.in % a.stride != 0);
    const int64_t total = std::max<int64_t>((a.out - 1) * a.stride + a.reach() - a.in, 0);
    a.before = PadsBefore(args, total);
    a.after = total - a.before;
    return {};
  }
  const int64_t room = a.in + a.before + a.after - a.reach();
  a.out = FloorDiv(room, a.stride) + 1;
  if (a.out >= 0 && (room >= 0 || a.in == 0)) return {};
  return args.Error("a window reaches over {} of an axis of {} with its pads", a.reach(),
                    a.in + a.before + a.after);
}

// The panels of the matrix [channels * taps, out] that holds the windows of an image as columns.
template <typename C>
class Windows {
 public:
  Windows(const Convolution& c, const C* image) : c_(&c), image_(image) {}

  void operator()(int64_t p0, int64_t p1, int64_t j, int64_t width, C* to, int64_t pitch) const {
    Run runs[kMostRuns];
    const int64_t count = Runs(j, width, runs);
    const auto& [z, y, x] = c_->axes;
    int64_t channel = p0 / c_->taps, tap = p0 % c_->taps;
    int64_t kx = tap % x.kernel, ky = tap / x.kernel % y.kernel, kz = tap / x.kernel / y.kernel;
    for (int64_t p = p0; p < p1; ++p, to += pitch) {
      const C* from = image_ + channel * c_->in;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t at_z = runs[r].z + kz * z.dilation, at_y = runs[r].y + ky * y.dilation;
        const bool inside = at_z >= 0 && at_z < z.in && at_y >= 0 && at_y < y.in;
        C* columns = to + runs[r].column;
        if (inside)
          Row(from + (at_z * y.in + at_y) * x.in, runs[r].x + kx * x.dilation, runs[r].count,
              columns);
        else
          std::fill_n(columns, runs[r].count, C{0});
      }
      if (++kx < x.kernel) continue;
      kx = 0;
      if (++ky < y.kernel) continue;
      ky = 0;
      if (++kz < z.kernel) continue;
      kz = 0;
      ++channel;
    }
  }

 private:
  // Columns whose windows lie in the same rows of the image, and where the first one begins.
  struct Run {
    int64_t column, count, z, y, x;
  };
  static constexpr int64_t kMostRuns = 64;  // a panel has no more columns

  int64_t Runs(int64_t j, int64_t width, Run* runs) const {
    const auto& [z, y, x] = c_->axes;
    int64_t count = 0;
    for (int64_t at = 0; at < width; at += runs[count++].count) {
      const int64_t ox = (j + at) % x.out, row = (j + at) / x.out;
      runs[count] = {.column = at,
                     .count = std::min(width - at, x.out - ox),
                     .z = row / y.out * z.stride - z.before,
                     .y = row % y.out * y.stride - y.before,
                     .x = ox * x.stride - x.before};
    }
    return count;
  }

  // Every stride-th element of a row from x on, zero outside.
  void Row(const C* from, int64_t x, int64_t count, C* to) const {
    const int64_t stride = c_->axes[2].stride, in = c_->axes[2].in;
    if (stride == 1) {
      const int64_t lo = std::clamp<int64_t>(-x, 0, count);
      const int64_t hi = std::clamp<int64_t>(in - x, lo, count);
      for (int64_t i = 0; i < lo; ++i) to[i] = 0;
      for (int64_t i = lo; i < hi; ++i) to[i] = from[x + i];
      for (int64_t i = hi; i < count; ++i) to[i] = 0;
      return;
    }
    for (int64_t i = 0; i < count; ++i, x += stride) to[i] = x >= 0 && x < in ? from[x] : C{0};
  }

  const Convolution* c_;
  const C* image_;
};

template <typename T>
void ByProducts(const Args& args, const Convolution& c, Compute<T>* to) {
  using C = Compute<T>;
  // Many taps read each element: it is widened but once.
  const Widened<T> x(args[0].as<T>(), args[0].elems), w(args[1].as<T>(), args[1].elems);
  const Widened<T> bias(args.Has(2) ? args[2].as<T>() : nullptr, args.Has(2) ? args[2].elems : 0);
  const auto is_point = [](const Axis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.after == 0;
  };
  const bool is_pointwise = std::ranges::all_of(c.axes, is_point);
  Multiply<C>(c.images * c.groups, [&](int64_t i) {
    const int64_t group = i % c.groups, depth = c.channels * c.taps;
    Product<C> p{.m = c.filters,
                 .n = c.out,
                 .k = depth,
                 .a = w.get() + group * c.filters * depth,
                 .a_row = depth,
                 .b_row = c.in,
                 .c = to + i * c.filters * c.out,
                 .c_row = c.out};
    const C* image = x.get() + i * c.channels * c.in;
    if (is_pointwise)
      p.b = image;
    else
      p.pack = Windows<C>(c, image);
    if (args.Has(2)) p.bias = bias.get() + group * c.filters;
    return p;
  });
}

// The channels of an image with their pads, where each stride-th place along an axis lies side by
// side: then every tap reads what it meets one after another, and none is outside.
struct Padded {
  explicit Padded(const Convolution& c) {
    bool overflow = false;
    for (size_t d = 3; d-- > 0;) {
      const Axis& a = c.axes[d];
      extent[d] = a.out + (a.reach() - 1) / a.stride;  // of one phase
      phase[d] = whole;
      overflow |= __builtin_mul_overflow(whole, std::min(a.stride, a.reach()), &whole);
    }
    for (size_t d = 3; d-- > 0;) {
      stride[d] = plane;
      overflow |= __builtin_mul_overflow(plane, extent[d], &plane);
    }
    overflow |= __builtin_mul_overflow(plane, whole, &whole);
    for (int64_t& p : phase) overflow |= __builtin_mul_overflow(p, plane, &p);
    // Far pads and strides would make it much larger than the image.
    int64_t all = 0;
    fits = !overflow && !__builtin_mul_overflow(whole, c.channels, &all) && all < kMostExtent &&
           whole / 8 <= c.in + c.out + 64;
  }

  int64_t Place(const Convolution& c, size_t d, int64_t at) const {
    const Axis& a = c.axes[d];
    return at % a.stride * phase[d] + at / a.stride * stride[d];
  }

  std::array<int64_t, 3> extent{}, phase{}, stride{};
  int64_t plane = 1, whole = 1;  // elements of one phase, and of a channel
  bool fits = false;
};

// The elements of an axis that go to one phase begin at `first`, in the phase at `place`.
struct Phase {
  int64_t first = 0, place = 0;
};

std::vector<Phase> PhasesOf(const Axis& a, int64_t pitch) {
  std::vector<Phase> phases(std::min(a.stride, a.reach()));
  for (int64_t f = 0; f < static_cast<int64_t>(phases.size()); ++f) {
    const int64_t first = ((f - a.before) % a.stride + a.stride) % a.stride;
    phases[f] = {.first = first, .place = f * pitch + (first + a.before) / a.stride};
  }
  return phases;
}

// What no window meets has no place.
int64_t EndOf(const Axis& a) {
  return std::min(a.in, (a.out - 1) * a.stride + a.reach() - a.before);
}
bool IsMet(const Axis& a, int64_t at) { return (at + a.before) % a.stride < a.reach(); }

template <typename T>
void CopyPadded(const Convolution& c, const Padded& padded, std::span<const Phase> phases,
                const T* from, Compute<T>* to) {
  const auto& [z, y, x] = c.axes;
  const int64_t end = std::max<int64_t>(EndOf(x), 0);
  std::fill_n(to, padded.whole, Compute<T>{0});
  for (int64_t iz = 0; iz < EndOf(z); ++iz) {
    if (!IsMet(z, iz)) continue;
    const int64_t at_z = padded.Place(c, 0, iz + z.before);
    for (int64_t iy = 0; iy < EndOf(y); ++iy) {
      if (!IsMet(y, iy)) continue;
      const T* row = from + (iz * y.in + iy) * x.in;
      Compute<T>* at = to + at_z + padded.Place(c, 1, iy + y.before);
      if (x.stride == 1) {
        Widen(row, end, at + x.before);
        continue;
      }
      for (const Phase& phase : phases) {
        Compute<T>* place = at + phase.place;
        for (int64_t ix = phase.first; ix < end; ix += x.stride) *place++ = row[ix];
      }
    }
  }
}

// Rows [y0, y1) of a filter's result at z, with what lies between them in a padded channel.
template <typename T>
void SumRows(const Convolution& c, const Padded& padded, TapsCall<Compute<T>> call, int64_t z,
             int64_t y0, int64_t y1, T* to) {
  const int64_t pitch = padded.stride[1], width = c.axes[2].out;
  const Scratch<Compute<T>> sums((y1 - y0) * pitch + kSlack);
  call.in += z * padded.stride[0] + y0 * pitch;
  call.out = sums.get();
  call.count = (y1 - y0 - 1) * pitch + width;
  SumTaps(call);
  to += (z * c.axes[1].out + y0) * width;
  for (int64_t y = 0; y < y1 - y0; ++y, to += width)
    for (int64_t x = 0; x < width; ++x) to[x] = To<T>(sums.get()[y * pitch + x]);
}

// The place of each tap in the padded channels.
std::vector<int64_t> TapOffsets(const Convolution& c, const Padded& padded) {
  std::vector<int64_t> offsets;
  for (int64_t p = 0; p < c.channels * c.taps; ++p) {
    int64_t at = p / c.taps * padded.whole, tap = p % c.taps;
    for (size_t d = 3; d-- > 0; tap /= c.axes[d].kernel)
      at += padded.Place(c, d, tap % c.axes[d].kernel * c.axes[d].dilation);
    offsets.push_back(at);
  }
  return offsets;
}

template <typename T>
void ByTaps(const Args& args, const Convolution& c, const Padded& padded, const Out& out) {
  using C = Compute<T>;
  const int64_t depth = c.channels * c.taps, groups = c.images * c.groups;
  const Widened<T> w(args[1].as<T>(), args[1].elems);
  const std::vector<int64_t> offsets = TapOffsets(c, padded);
  const std::vector<Phase> phases = PhasesOf(c.axes[2], padded.phase[2]);
  // So many rows at once; one where most would be computed in vain.
  const auto& [z, y, x] = c.axes;
  const int64_t pitch = padded.stride[1];
  const int64_t rows = pitch > 2 * x.out ? 1 : std::clamp<int64_t>(2048 / pitch, 1, y.out);
  const int64_t blocks = (y.out + rows - 1) / rows;
  const double work = static_cast<double>(out.elems) * static_cast<double>(depth);
  const double inner = groups == 1 ? work : 0;  // threads do not start threads
  ForPieces(groups, work, [&](int64_t i) {
    const Scratch<C> image(c.channels * padded.whole + kSlack);
    std::fill_n(image.get() + c.channels * padded.whole, kSlack, C{0});
    ForPieces(c.channels, inner, [&](int64_t channel) {
      CopyPadded(c, padded, phases, args[0].as<T>() + (i * c.channels + channel) * c.in,
                 image.get() + channel * padded.whole);
    });
    ForPieces(c.filters * z.out * blocks, inner, [&](int64_t piece) {
      Poll();
      const int64_t filter = piece / blocks / z.out, all = i % c.groups * c.filters + filter;
      const TapsCall<C> call{.taps = depth,
                             .offsets = offsets.data(),
                             .weights = w.get() + all * depth,
                             .in = image.get(),
                             .start = args.Has(2) ? static_cast<C>(args[2].as<T>()[all]) : C{0}};
      const int64_t y0 = piece % blocks * rows;
      SumRows<T>(c, padded, call, piece / blocks % z.out, y0, std::min(y0 + rows, y.out),
                 out.as<T>() + (i * c.filters + filter) * c.out);
    });
  });
}

// Filters too few to share what unfolding costs.
constexpr int64_t kFewFilters = 4;

template <typename T>
void RunAs(const Args& args, const Convolution& c, const Out& out) {
  if (c.filters <= kFewFilters) {
    if (const Padded padded(c); padded.fits) return ByTaps<T>(args, c, padded, out);
  }
  const Sums<T> sums(out);
  ByProducts<T>(args, c, sums.get());
  sums.Round();
}

}  // namespace

Status RunConv(const Args& args) {
  WEFT_TRY(Convolution c, ConvolutionOf(args));
  WEFT_TRY(const bool is_same, IsSame(args));
  const In &x = args[0], &w = args[1];
  WEFT_TRY(CheckGroups(args, c, w.shape[0]));
  c.channels = w.shape[1];
  c.filters = w.shape[0] / c.groups;
  int64_t channels = 0;
  if (__builtin_mul_overflow(c.channels, c.groups, &channels) || channels != x.shape[1]) {
    return args.Error("{} of shape {} and {} groups for {} of shape {}", args.Name(1),
                      Print(w.shape), c.groups, args.Name(0), Print(x.shape));
  }
  for (Axis& a : c.axes) WEFT_TRY(SlideOver(args, a, is_same));
  WEFT_TRY(const Out out, ResultOf(args, c));
  const bool known = ByFloat(out.dtype, [&]<typename T>() {
    if (out.elems == 0) return;
    if (x.elems == 0 || w.elems == 0) return FillWithBias<T>(args, c, out);
    c.CountAll();
    RunAs<T>(args, c, out);
  });
  return known ? Status() : NoSuchType(args, out.dtype);
}

}  // namespace weft::fallback::native
