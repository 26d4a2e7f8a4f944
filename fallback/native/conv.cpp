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
    Index tap{};
    for (int64_t t = p0 % c_->taps, d = Last(); d >= 0; t /= c_->axes[d--].kernel)
      tap[d] = t % c_->axes[d].kernel;
    const C* from = image_ + p0 / c_->taps * c_->in;
    for (int64_t p = p0; p < p1; ++p, to += pitch) {
      for (int64_t r = 0; r < count; ++r) Unfold(from, runs[r], tap, to + runs[r].column);
      if (Advance(c_->axes, &Axis::kernel, tap)) from += c_->in;
    }
  }

 private:
  // Columns whose windows lie in the same rows of the image, and where the first one begins.
  struct Run {
    int64_t column = 0, count = 0;
    Index first;
  };
  static constexpr int64_t kMostRuns = 64;  // a panel has no more columns

  int64_t Last() const { return static_cast<int64_t>(c_->axes.size()) - 1; }

  int64_t Runs(int64_t j, int64_t width, Run* runs) const {
    int64_t count = 0;
    for (int64_t at = 0; at < width; at += runs[count++].count) {
      Run& run = runs[count];
      int64_t place = j + at;
      run.column = at;
      run.count = std::min(width - at, c_->axes[Last()].out - place % c_->axes[Last()].out);
      for (int64_t d = Last(); d >= 0; place /= c_->axes[d--].out)
        run.first[d] = place % c_->axes[d].out * c_->axes[d].stride - c_->axes[d].before;
    }
    return count;
  }

  // What a tap reads of a channel in the windows of a run.
  void Unfold(const C* from, const Run& run, const Index& tap, C* to) const {
    int64_t row = 0;
    for (int64_t d = 0; d < Last(); ++d) {
      const Axis& a = c_->axes[d];
      const int64_t at = run.first[d] + tap[d] * a.dilation;
      if (at < 0 || at >= a.in) {
        std::fill_n(to, run.count, C{0});
        return;
      }
      row = row * a.in + at;
    }
    const Axis& x = c_->axes[Last()];
    Row(from + row * x.in, run.first[Last()] + tap[Last()] * x.dilation, run.count, to);
  }

  // Every stride-th element of a row from x on, zero outside.
  void Row(const C* from, int64_t x, int64_t count, C* to) const {
    const int64_t stride = c_->axes[Last()].stride, in = c_->axes[Last()].in;
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
class Padded {
 public:
  explicit Padded(const Convolution& c) : c_(c) {
    bool overflow = false;
    int64_t phases = 1;
    for (size_t d = c.axes.size(); d-- > 0;) {
      const Axis& a = c.axes[d];
      const int64_t extent = a.out + (a.reach() - 1) / a.stride;  // of one phase
      phase_[d] = phases;
      stride[d] = plane_;
      overflow |= __builtin_mul_overflow(phases, std::min(a.stride, a.reach()), &phases);
      overflow |= __builtin_mul_overflow(plane_, extent, &plane_);
    }
    overflow |= __builtin_mul_overflow(plane_, phases, &whole);
    // Far pads and strides would make it much larger than the image.
    int64_t all = 0;
    fits = !overflow && !__builtin_mul_overflow(whole, c.channels, &all) && all < kMostExtent &&
           whole / 8 <= c.in + c.out + 64;
  }

  // Of what is so far behind the first pad of an axis.
  int64_t Place(size_t d, int64_t at) const {
    const Axis& a = c_.axes[d];
    return at % a.stride * phase_[d] * plane_ + at / a.stride * stride[d];
  }

  // The places of each axis' elements; of those that no window meets -1.
  std::vector<std::vector<int64_t>> Places() const {
    std::vector<std::vector<int64_t>> places(c_.axes.size());
    for (size_t d = 0; d < places.size(); ++d) {
      const Axis& a = c_.axes[d];
      const int64_t end = (a.out - 1) * a.stride + a.reach();
      for (int64_t i = 0; i < a.in; ++i) {
        const int64_t at = i + a.before;
        places[d].push_back(at < end && at % a.stride < a.reach() ? Place(d, at) : -1);
      }
    }
    return places;
  }

  int64_t whole = 1;  // elements of a channel
  Index stride{};     // of an axis within a phase
  bool fits = false;

 private:
  const Convolution& c_;
  Index phase_{};      // from one to the next along an axis, in phases
  int64_t plane_ = 1;  // elements of a phase
};

template <typename T>
void CopyPadded(const Convolution& c, const std::vector<std::vector<int64_t>>& places,
                const T* from, Compute<T>* to) {
  const std::span outer = std::span(c.axes).first(c.axes.size() - 1);
  const Axis& x = c.axes.back();
  const std::vector<int64_t>& along = places.back();
  // At stride 1 all elements up to the last one that is met lie side by side.
  const int64_t met = std::ranges::find(along, -1) - along.begin();
  Index index{};
  do {
    int64_t at = 0;
    for (size_t d = 0; d < outer.size() && at >= 0; ++d)
      at = places[d][index[d]] < 0 ? -1 : at + places[d][index[d]];
    if (at >= 0 && x.stride == 1 && met > 0) {
      Widen(from, met, to + at + along[0]);
    } else if (at >= 0) {
      for (int64_t i = 0; i < x.in; ++i)
        if (along[i] >= 0) to[at + along[i]] = from[i];
    }
    from += x.in;
  } while (!Advance(outer, &Axis::in, index));
}

// Some rows of a filter's result, along its last two axes, with what lies between them in a padded
// channel; `call` tells where its taps begin for the first of them, and has room for all.
template <typename T>
void SumRows(TapsCall<Compute<T>> call, int64_t rows, int64_t width, int64_t pitch, T* to) {
  call.count = (rows - 1) * pitch + width;
  SumTaps(call);
  for (int64_t y = 0; y < rows; ++y, to += width)
    for (int64_t x = 0; x < width; ++x) to[x] = To<T>(call.out[y * pitch + x]);
}

// The place of each tap in the padded channels.
std::vector<int64_t> TapOffsets(const Convolution& c, const Padded& padded) {
  std::vector<int64_t> offsets;
  for (int64_t p = 0; p < c.channels * c.taps; ++p) {
    int64_t at = p / c.taps * padded.whole, tap = p % c.taps;
    for (size_t d = c.axes.size(); d-- > 0; tap /= c.axes[d].kernel)
      at += padded.Place(d, tap % c.axes[d].kernel * c.axes[d].dilation);
    offsets.push_back(at);
  }
  return offsets;
}

template <typename T>
class ByTaps {
 public:
  using C = Compute<T>;
  ByTaps(const Args& args, const Convolution& c, const Padded& padded, const Out& out)
      : args_(args), c_(c), padded_(padded), out_(out), w_(args[1].as<T>(), args[1].elems) {
    const int64_t pitch = padded.stride[c.axes.size() - 2];
    // So many rows at once; one where most would be computed in vain.
    if (pitch <= 2 * c.axes.back().out) rows_ = std::clamp<int64_t>(2048 / pitch, 1, y_.out);
    blocks_ = (y_.out + rows_ - 1) / rows_;
  }

  void operator()() const {
    const int64_t groups = c_.images * c_.groups, pieces = c_.out / c_.axes.back().out / y_.out;
    const double work = static_cast<double>(out_.elems) * static_cast<double>(offsets_.size());
    const double inner = groups == 1 ? work : 0;  // threads do not start threads
    ForRanges(groups, work, [&](int64_t from, int64_t to) {
      const int64_t elems = c_.channels * padded_.whole + kSlack;
      const Scratch<C> image(elems);
      std::fill_n(image.get(), elems, C{0});  // the pads stay what they are
      for (int64_t i = from; i < to; ++i) {
        ForPieces(c_.channels, inner, [&](int64_t channel) {
          CopyPadded(c_, places_, args_[0].as<T>() + (i * c_.channels + channel) * c_.in,
                     image.get() + channel * padded_.whole);
        });
        ForRanges(c_.filters * pieces * blocks_, inner, [&](int64_t first, int64_t end) {
          const Scratch<C> sums(rows_ * padded_.stride[c_.axes.size() - 2] + kSlack);
          for (int64_t at = first; at < end; ++at) {
            Poll();
            Block(image.get(), i * c_.filters + at / blocks_ / pieces, at / blocks_ % pieces,
                  at % blocks_ * rows_, sums.get());
          }
        });
      }
    });
  }

 private:
  // Rows from y on of a filter of all images, at one place of the axes before the last two.
  void Block(const C* image, int64_t filter, int64_t place, int64_t y, C* sums) const {
    const size_t last = c_.axes.size() - 1;
    const int64_t depth = static_cast<int64_t>(offsets_.size()), width = c_.axes[last].out;
    const int64_t all = filter % (c_.groups * c_.filters);
    image += y * padded_.stride[last - 1];
    T* to = out_.as<T>() + filter * c_.out + (place * y_.out + y) * width;
    for (size_t d = last - 1; d-- > 0; place /= c_.axes[d].out)
      image += place % c_.axes[d].out * padded_.stride[d];
    const TapsCall<C> call{.taps = depth,
                           .offsets = offsets_.data(),
                           .weights = w_.get() + all * depth,
                           .in = image,
                           .start = args_.Has(2) ? static_cast<C>(args_[2].as<T>()[all]) : C{0},
                           .out = sums};
    SumRows<T>(call, std::min(rows_, y_.out - y), width, padded_.stride[last - 1], to);
  }

  const Args& args_;
  const Convolution& c_;
  const Padded& padded_;
  const Out& out_;
  const Widened<T> w_;
  const Axis& y_ = c_.axes[c_.axes.size() - 2];
  const std::vector<int64_t> offsets_ = TapOffsets(c_, padded_);
  const std::vector<std::vector<int64_t>> places_ = padded_.Places();
  int64_t rows_ = 1, blocks_ = 1;
};

// Filters too few to share what unfolding costs.
constexpr int64_t kFewFilters = 4;

template <typename T>
void RunAs(const Args& args, const Convolution& c, const Out& out) {
  if (c.filters <= kFewFilters) {
    if (const Padded padded(c); padded.fits) return ByTaps<T>(args, c, padded, out)();
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
