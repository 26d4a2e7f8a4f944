// Poolings: a window, or the whole plane, becomes one element. Averages and norms add up in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/affine.h"
#include "fallback/native/fold.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"
#include "fallback/native/vectors.h"
#include "fallback/native/windows.h"

namespace weft::fallback::native {
namespace {

constexpr int64_t kWork = 1 << 16;  // taps of a piece

// row(i) for each row of the plane that the windows at `at` have taps in.
template <typename Row>
void EachRow(const Windows& w, const std::vector<int64_t>& at, size_t d, int64_t i, Row& row) {
  if (d + 1 == w.axes.size()) return row(i);
  const Axis& a = w.axes[d];
  const Taps taps = w.taps[d][at[d]];
  for (int64_t t = taps.first; t < taps.last; ++t) {
    const int64_t here = at[d] * a.stride - a.before + t * a.dilation;
    EachRow(w, at, d + 1, i * a.in + here, row);
  }
}

// How the last axis is read. Rows that windows move along by more than one element are split by
// phase: element i lies at i / stride of part i % stride, so that next windows read next elements.
struct Along {
  explicit Along(const Windows& w);
  int64_t in, parts, width;        // elements of a row, parts of a row, elements of a part
  int64_t low = 0, high = 0;       // the windows that lie in the row with all their taps
  std::vector<int64_t> at, split;  // their taps: places in the row and in the split row, less those
                                   // of the window
};

Along::Along(const Windows& w) {
  const Axis& a = w.axes.back();
  in = a.in;
  parts = std::clamp<int64_t>(a.stride, 1, std::max<int64_t>(a.in, 1));
  width = (a.in + parts - 1) / parts;
  const int64_t room = a.in + a.before - a.reach();
  low = std::min((a.before + a.stride - 1) / a.stride, a.out);
  high = room < 0 ? low : std::clamp(room / a.stride + 1, low, a.out);
  if (a.stride > a.in) high = low;  // then the row has no parts that windows go along
  if (low == high) return;
  for (int64_t t = 0; t < a.kernel; ++t) {
    at.push_back(t * a.dilation - a.before);
    split.push_back(FloorMod(at.back(), parts) * width + FloorDiv(at.back(), parts));
  }
}

// A plane as what it computes in, its rows split.
template <typename T>
class Plane {
 public:
  using C = Compute<T>;
  Plane(const T* x, const Windows& w, const Along& along) : x(x), split(nullptr) {
    if constexpr (std::is_same_v<T, C>) {
      split = x;
      if (along.parts == 1) return;
    }
    const int64_t rows = w.in / std::max<int64_t>(along.in, 1), in = along.in, width = along.width;
    copy_.resize(rows * along.parts * width);
    split = copy_.data();
    Vectorised([=, parts = along.parts, to = copy_.data()] {
      for (int64_t row = 0; row < rows; ++row) {
        if (parts == 1)
          Split<1>(x + row * in, in, to + row * width, width, 1);
        else if (parts == 2)
          Split<2>(x + row * in, in, to + row * 2 * width, width, 2);
        else
          Split<0>(x + row * in, in, to + row * parts * width, width, parts);
      }
    });
  }

  const T* const x;
  const C* split;

 private:
  template <int64_t kParts>  // 0: any
  static void Split(const T* from, int64_t in, C* to, int64_t width, int64_t any) {
    const int64_t parts = kParts == 0 ? any : kParts;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t count = (in - p + parts - 1) / parts;
      for (int64_t i = 0; i < count; ++i) to[p * width + i] = from[i * parts + p];
    }
  }

  std::vector<C> copy_;
};

// The windows of one row of the output.
template <typename T, typename Acc, typename Step>
struct Row {
  const Windows& w;
  const Along& along;
  const Plane<T>& plane;
  Acc start;
  Step step;
  std::vector<int64_t> rows = {};                // of the input, that have taps
  std::vector<int64_t> places = {}, split = {};  // all taps of a window in the rows, as in Along

  void FindPlaces() {
    places.clear(), split.clear();
    for (int64_t row : rows) {
      for (int64_t at : along.at) places.push_back(row * along.in + at);
      for (int64_t at : along.split) split.push_back(row * along.parts * along.width + at);
    }
  }

  // Windows that may reach out of the row.
  void Outside(int64_t low, int64_t high, Acc* to) const {
    const Axis& a = w.axes.back();
    for (int64_t o = low; o < high; ++o) {
      Poll();
      Acc acc = start;
      const Taps taps = w.taps.back()[o];
      for (int64_t row : rows) {
        for (int64_t t = taps.first; t < taps.last; ++t) {
          const int64_t at = row * a.in + o * a.stride - a.before + t * a.dilation;
          acc = step(acc, static_cast<Compute<T>>(plane.x[at]), at);
        }
      }
      to[o] = acc;
    }
  }

  // kCount of those that lie in it, from `o` on: vectors of windows.
  template <int64_t kCount>
  void Block(int64_t o, Acc* to) const {
    const auto taps = static_cast<int64_t>(places.size());
    const int64_t stride = w.axes.back().stride;
    Acc acc[kCount];
    for (Acc& a : acc) a = start;
    for (int64_t t = 0; t < taps; ++t) {
      const Compute<T>* const from = plane.split + (split[t] + o);
      const int64_t place = places[t] + o * stride;
#pragma omp simd
      for (int64_t k = 0; k < kCount; ++k) acc[k] = step(acc[k], from[k], place + k * stride);
    }
    for (int64_t k = 0; k < kCount; ++k) to[o + k] = acc[k];
  }

  // All of those. The last blocks overlap.
  template <int64_t kCount>
  void Inside(int64_t low, int64_t high, Acc* to) const {
    if constexpr (kCount > 1) {
      if (high - low < kCount) return Inside<kCount / 4>(low, high, to);
    }
    for (int64_t o = low; o < high; o += kCount) {
      Poll();
      Block<kCount>(std::min(o, high - kCount), to);
    }
  }
};

// finish(place, acc, at) for the windows of each row of the output; `at` says which row, and step
// is called as acc = step(acc, element, its place in the plane).
template <typename T, typename Acc, typename Step, typename Finish>
void Slide(const Windows& w, const Along& along, const T* x, Acc start, Step step, Finish finish) {
  const Plane<T> plane(x, w, along);
  Row<T, Acc, Step> row{w, along, plane, start, step};
  const int64_t end = w.axes.back().out;
  std::vector<Acc> acc(end);
  std::vector<int64_t> at(w.axes.size());
  auto add = [&](int64_t i) { row.rows.push_back(i); };
  for (int64_t place = 0; place < w.out; place += end) {
    row.rows.clear();
    EachRow(w, at, 0, 0, add);
    row.FindPlaces();
    Vectorised([&, to = acc.data()] {
      row.Outside(0, along.low, to);
      row.template Inside<16>(along.low, along.high, to);
      row.Outside(along.high, end, to);
    });
    finish(place, acc.data(), at);
    for (size_t d = at.size() - 1; d-- > 0 && ++at[d] == w.axes[d].out;) at[d] = 0;
  }
}

// body(plane) for each of N * C planes.
template <typename Body>
void EachPlane(const Args& args, int64_t work, Body body) {
  const int64_t planes = args[0].shape[0] * args[0].shape[1];
  InPieces(planes, std::max<int64_t>(kWork / std::max<int64_t>(work, 1), 1),
           [&](int64_t from, int64_t to) {
             for (int64_t plane = from; plane < to; ++plane) body(plane);
           });
}

// How many taps the windows of a plane have, at most; a guess where that is beyond all bounds.
int64_t WorkOf(const Windows& w) {
  double taps = static_cast<double>(w.out);
  for (const Axis& a : w.axes) taps *= static_cast<double>(std::min(a.kernel, a.in));
  return static_cast<int64_t>(std::min(taps, 1e9));
}

template <typename C>
C Least() {
  using Limits = std::numeric_limits<C>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <typename T>
void Max(const Args& args, const Windows& w, const Out& out) {
  using C = Compute<T>;
  const Along along(w);
  EachPlane(args, WorkOf(w), [&](int64_t plane) {
    T* y = out.as<T>() + plane * w.out;
    const auto finish = [&](int64_t place, const C* acc, const auto&) {
      for (int64_t o = 0; o < w.axes.back().out; ++o) y[place + o] = To<T>(acc[o]);
    };
    Slide(
        w, along, args[0].as<T>() + plane * w.in, Least<C>(),
        [](C a, C b, int64_t) { return Larger(a, b); }, finish);
  });
}

// The place of an element in its plane, with the last axis slowest.
int64_t ColumnMajor(const Windows& w, int64_t place) {
  int64_t flat = 0;
  for (size_t d = w.axes.size(); d-- > 0; place /= w.axes[d].in)
    flat = flat * w.axes[d].in + place % w.axes[d].in;
  return flat;
}

// With where each maximum lies in the whole input; the first of equal ones. A window that has
// padding alone says 0 of its plane.
template <typename T>
void MaxWithIndices(const Args& args, const Windows& w, const Out& out, const Out& indices) {
  using C = Compute<T>;
  struct Found {
    C value;
    int64_t place;
  };
  const auto step = [](Found found, C x, int64_t place) {
    const bool better =
        found.place < 0 || x > found.value || (x != x && found.value == found.value);
    return better ? Found{x, place} : found;
  };
  const bool column_major = args.Int("storage_order", 0) != 0;
  const Along along(w);
  EachPlane(args, WorkOf(w), [&](int64_t plane) {
    T* y = out.as<T>() + plane * w.out;
    int64_t* at = indices.as<int64_t>() + plane * w.out;
    const auto finish = [&](int64_t place, const Found* found, const auto&) {
      for (int64_t o = 0; o < w.axes.back().out; ++o) {
        const int64_t inside = std::max<int64_t>(found[o].place, 0);
        y[place + o] = To<T>(found[o].value);
        at[place + o] = plane * w.in + (column_major ? ColumnMajor(w, inside) : inside);
      }
    };
    Slide(w, along, args[0].as<T>() + plane * w.in, Found{Least<C>(), -1}, step, finish);
  });
}

template <typename T>
void Average(const Args& args, const Windows& w, const Out& out) {
  const auto counts = CountsOf(w, args.Int("count_include_pad", 0) != 0);
  const Along along(w);
  EachPlane(args, WorkOf(w), [&](int64_t plane) {
    T* y = out.as<T>() + plane * w.out;
    const auto finish = [&](int64_t place, const double* sums, const std::vector<int64_t>& at) {
      double outer = 1;
      for (size_t d = 0; d + 1 < at.size(); ++d) outer *= counts[d][at[d]];
      Vectorised([=, y = y + place, along = counts.back().data(), n = w.axes.back().out] {
        for (int64_t o = 0; o < n; ++o) y[o] = To<T>(sums[o] / (outer * along[o]));
      });
    };
    Slide(
        w, along, args[0].as<T>() + plane * w.in, 0.0,
        [](double sum, Compute<T> x, int64_t) { return sum + static_cast<double>(x); }, finish);
  });
}

// |x|^p, and the root of a sum of such.
double Power(double x, int64_t p) {
  if (p == 1) return std::fabs(x);
  return p == 2 ? x * x : std::pow(std::fabs(x), static_cast<double>(p));
}
double Root(double sum, int64_t p) {
  if (p == 1) return sum;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / static_cast<double>(p));
}

template <typename T>
void Norm(const Args& args, const Windows& w, const Out& out) {
  const int64_t p = args.Int("p", 2);
  const Along along(w);
  EachPlane(args, WorkOf(w), [&](int64_t plane) {
    T* y = out.as<T>() + plane * w.out;
    const auto finish = [&](int64_t place, const double* sums, const auto&) {
      for (int64_t o = 0; o < w.axes.back().out; ++o) y[place + o] = To<T>(Root(sums[o], p));
    };
    const auto slide = [&](auto power) {
      Slide(
          w, along, args[0].as<T>() + plane * w.in, 0.0,
          [=](double sum, Compute<T> x, int64_t) { return sum + power(static_cast<double>(x)); },
          finish);
    };
    if (p == 2) return slide([](double x) { return x * x; });
    slide([p](double x) { return Power(x, p); });
  });
}

// All of a plane at once.
template <typename T>
void Global(const Args& args, const Out& out, int64_t count) {
  const std::string& op = args.call.op;
  const int64_t p = args.Int("p", 2);
  EachPlane(args, count, [&](int64_t plane) {
    using C = Compute<T>;
    const T* x = args[0].as<T>() + plane * count;
    T* y = out.as<T>() + plane;
    if (op == "GlobalMaxPool") {
      Vectorised([=] {
        *y = To<T>(Fold(
            count, Least<C>(), [=](int64_t i) { return static_cast<C>(x[i]); },
            [](C a, C b) { return Larger(a, b); }));
      });
    } else if (op == "GlobalAveragePool") {
      Vectorised([=] {
        const double sum = FoldSum(count, [=](int64_t i) { return static_cast<double>(x[i]); });
        *y = To<T>(sum / static_cast<double>(count));
      });
    } else {
      const auto map = [=](int64_t i) { return Power(static_cast<double>(x[i]), p); };
      *y = To<T>(Root(FoldSum(count, map), p));
    }
  });
}

}  // namespace

Status RunMaxPool(const Args& args) {
  WEFT_TRY(args.Need(1));
  WEFT_TRY(Windows w, WindowsOf(args));
  const In& x = args[0];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, ShapeOf(x.shape, w)));
  Out indices;
  if (args.Wants(1)) {
    WEFT_TRY(indices, args.Output(1, Dtype::kI64, out.shape));
  }
  if (out.elems == 0) return {};
  FindTaps(w);
  const auto run = [&]<typename T>() {
    indices.data == nullptr ? Max<T>(args, w, out) : MaxWithIndices<T>(args, w, out, indices);
  };
  if (x.dtype == Dtype::kI8) return run.operator()<int8_t>(), Status();
  if (x.dtype == Dtype::kU8) return run.operator()<uint8_t>(), Status();
  return ByFloat(x.dtype, run) ? Status() : NoSuchType(args, x.dtype);
}

Status RunPool(const Args& args) {
  WEFT_TRY(args.Need(1));
  WEFT_TRY(Windows w, WindowsOf(args));
  const In& x = args[0];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, ShapeOf(x.shape, w)));
  if (!IsFloat(x.dtype)) return NoSuchType(args, x.dtype);
  if (out.elems == 0) return {};
  FindTaps(w);
  const bool is_average = args.call.op == "AveragePool";
  const bool known = ByFloat(x.dtype, [&]<typename T>() {
    is_average ? Average<T>(args, w, out) : Norm<T>(args, w, out);
  });
  return known ? Status() : NoSuchType(args, x.dtype);
}

Status RunGlobalPool(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& x = args[0];
  if (x.rank() < 2)
    return args.Error("{} has the shape {}, expected rank 2 or more", args.Name(0), Print(x.shape));
  Shape shape(x.rank(), 1);
  shape[0] = x.shape[0];
  shape[1] = x.shape[1];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, std::move(shape)));
  const int64_t count = out.elems == 0 ? 0 : x.elems / out.elems;
  const bool known = ByFloat(x.dtype, [&]<typename T>() { Global<T>(args, out, count); });
  return known ? Status() : NoSuchType(args, x.dtype);
}

}  // namespace weft::fallback::native
