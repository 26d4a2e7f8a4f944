// Poolings: a window, or the whole plane, becomes one element.
#include <cmath>

#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc::ops {
namespace {

struct Pool {
  Operand x, y;
  Windows win;
  Subs at, from;  // of y and x
};

Pool MakePool(Writer& w) {
  Pool p{w.In(0), w.Out(), {}, {}, {}};
  p.win = MakeWindows(w, p.x, p.y,
                      w.IntsOr("kernel_shape", 1, p.x.dims.size() < 2 ? 0 : p.x.dims.size() - 2));
  if (!w.ok()) return p;
  const Subs plane{w.Range("n", p.x.dims[0]), w.Range("c", w.Extent(p.x, 1))};
  p.at = Concat(plane, p.win.out);
  p.from = Concat(plane, p.win.at);
  return p;
}

// How many taps of the window at `out` lie in [0, hi): an expression of out, or a number.
std::string TapsInside(const WindowAxis& a, const std::string& out, int64_t lo, int64_t hi) {
  const int64_t first = -a.pad_lo,
                last = (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation - a.pad_lo;
  if (first >= lo && last < hi) return std::to_string(a.kernel);
  // Taps t with lo <= o * stride - pad_lo + t * dilation < hi.
  const auto quotient = [&](std::string e) {
    return a.dilation == 1 ? e : fmt::format("({}) / {}", e, a.dilation);
  };
  std::string end = std::to_string(a.kernel), begin = "0";
  if (last >= hi) {
    end = fmt::format("min({}, {})", a.kernel,
                      quotient(Sum({{-a.stride, out}}, hi + a.pad_lo + a.dilation - 1)));
  }
  if (first < lo)
    begin = fmt::format("max(0, {})",
                        quotient(Sum({{-a.stride, out}}, lo + a.pad_lo + a.dilation - 1)));
  return begin == "0" ? end : fmt::format("({} - {})", end, begin);
}

// The planes' elements x(n, c, r, s…) and how many one plane has.
struct Plane {
  Operand x, y;
  Subs at, from;
  int64_t count = 1;
};

Plane MakePlane(Writer& w) {
  Plane p{w.In(0), w.Out(), {}, {}, 1};
  if (p.x.rank() < 2) {
    w.Refuse("a tensor without channels");
    return p;
  }
  p.at = p.from = {w.Range("n", p.x.dims[0]), w.Range("c", w.Extent(p.x, 1))};
  for (int64_t axis = 2; axis < p.x.rank(); ++axis) {
    p.count *= w.Extent(p.x, axis);
    p.from.push_back(w.Range(fmt::format("k{}", axis), p.x.dims[static_cast<size_t>(axis)]));
    p.at.push_back(w.Range(fmt::format("j{}", axis), 1));
  }
  return p;
}

// |x|^p, and the root of a sum of such.
std::string Power(Dtype dtype, int64_t p, const std::string& x) {
  if (p == 1) return fmt::format("abs({})", x);
  if (p == 2) return fmt::format("{0} * {0}", x);
  return fmt::format("pow(abs({}), {})", x, Lit(dtype, static_cast<double>(p)));
}
std::string Root(Dtype dtype, int64_t p, const std::string& sum) {
  if (p == 1) return sum;
  if (p == 2) return fmt::format("sqrt({})", sum);
  return fmt::format("pow({}, {})", sum, Lit(dtype, 1.0 / static_cast<double>(p)));
}

}  // namespace

void MaxPool(Writer& w) {
  const Pool p = MakePool(w);
  if (!w.ok()) return;
  const std::string value = Guarded(p.win.guards, w.At(p.x, p.from), Lowest(p.x.dtype));
  if (!w.HasOut(1)) return w.Reduce("window", p.y, p.at, "max=!", value);
  // Where the maximum lies: row-major over the whole input, or with the spatial axes reversed.
  // Where all that a window has is the least there is, its first element wins, which taps in front
  // stand for.
  const bool column_major = w.Int("storage_order", 0) != 0;
  const size_t n = p.win.axes.size();
  std::string flat = fmt::format("int64(n)*{} + c", w.Extent(p.x, 1));
  for (size_t k = 0; k < n; ++k) {
    const size_t axis = column_major ? n - 1 - k : k;
    const WindowAxis& a = p.win.axes[axis];
    const std::string& at = p.win.at[axis];
    const std::string first =
        a.pad_lo > 0 ? fmt::format("({0}) < 0 ? ({0}) % {1} : ({0})", at, a.dilation) : at;
    flat = fmt::format("({})*{} + ({})", flat, a.in, first);
  }
  w.Pick("window", p.y, w.Out(1), p.at, "max=!", value, flat);
}

namespace {

// A window is reduced along one axis after another: the sum of their taps is computed, not the
// product, and what is in between is stored. Windows that leave places out have to save half of it.
void ReduceByAxis(Writer& w, const Pool& p, const Operand& result, std::string_view assign,
                  const std::string& identity) {
  std::vector<size_t> axes;  // along which an output is not the element at its own place
  int64_t product = 1, sum = 0;
  bool dense = true;  // a window at each place
  for (size_t k = p.win.axes.size(); k-- > 0;) {
    const WindowAxis& a = p.win.axes[k];
    product *= a.kernel;
    sum += a.kernel;
    dense &= a.stride == 1;
    if (a.kernel != 1 || a.stride != 1 || a.pad_lo != 0 || a.pad_hi != 0) axes.push_back(k);
  }
  if (product < (dense ? sum + 1 : 2 * sum)) return w.Refuse("a window of few elements");
  Operand from = p.x;
  Subs at = p.at;
  for (const size_t k : axes) at[k + 2] = w.Range(fmt::format("i{}", k), p.win.axes[k].in);
  for (const size_t k : axes) {
    Subs read = at, guards;
    read[k + 2] = p.win.at[k];
    at[k + 2] = p.win.out[k];
    for (const std::string& guard : p.win.guards)
      if (guard.starts_with(p.win.at[k] + " ")) guards.push_back(guard);
    const bool last = k == axes.back();
    const Operand to = last ? result : w.Temp(fmt::format("along{}", k), result.dtype);
    w.Reduce("window", to, at, assign, Guarded(guards, w.At(from, read), identity));
    from = to;
  }
}

}  // namespace

void MaxPoolByAxis(Writer& w) {
  const Pool p = MakePool(w);
  if (!w.ok()) return;
  if (w.HasOut(1)) return w.Refuse("where the maximum lies is asked for too");
  ReduceByAxis(w, p, p.y, "max=!", Lowest(p.x.dtype));
}

namespace {

// The sum of each window over how many elements it has.
void Average(Writer& w, const Pool& p, const Operand& sum) {
  const bool with_pads = w.Int("count_include_pad", 0) != 0;
  int64_t constant = 1;
  Subs counts;
  for (size_t i = 0; i < p.win.axes.size(); ++i) {
    const WindowAxis& a = p.win.axes[i];
    const std::string count =
        TapsInside(a, p.win.out[i], with_pads ? -a.pad_lo : 0, a.in + (with_pads ? a.pad_hi : 0));
    if (count == std::to_string(a.kernel))
      constant *= a.kernel;
    else
      counts.push_back(count);
  }
  std::string divisor = Lit(p.y.dtype, static_cast<double>(constant));
  if (!counts.empty()) {
    if (constant != 1) counts.push_back(std::to_string(constant));
    divisor = Cast(sum.dtype, Join(counts, " * "));
  }
  w.Set("pointwise", p.y, p.at, fmt::format("{} / {}", w.At(sum, p.at), divisor));
}

}  // namespace

void AveragePool(Writer& w) {
  const Pool p = MakePool(w);
  if (!w.ok()) return;
  const Operand sum = w.Temp("window", p.y.dtype);
  w.Reduce("window", sum, p.at, "+=!", Guarded(p.win.guards, w.At(p.x, p.from), Lit(p.y.dtype, 0)));
  Average(w, p, sum);
}

void AveragePoolByAxis(Writer& w) {
  const Pool p = MakePool(w);
  if (!w.ok()) return;
  if (SizeBytes(p.y.dtype) < 4) return w.Refuse("sums along one axis would be rounded");
  const Operand sum = w.Temp("window", p.y.dtype);
  ReduceByAxis(w, p, sum, "+=!", Lit(p.y.dtype, 0));
  if (w.ok()) Average(w, p, sum);
}

void LpPool(Writer& w) {
  const Pool pool = MakePool(w);
  if (!w.ok()) return;
  const int64_t p = w.Int("p", 2);
  const Operand sum = w.Temp("window", pool.y.dtype);
  w.Reduce("window", sum, pool.at, "+=!",
           Guarded(pool.win.guards, Power(pool.y.dtype, p, w.At(pool.x, pool.from)),
                   Lit(pool.y.dtype, 0)));
  w.Set("pointwise", pool.y, pool.at, Root(pool.y.dtype, p, w.At(sum, pool.at)));
}

void GlobalAveragePool(Writer& w) {
  const Plane p = MakePlane(w);
  const Operand sum = w.Temp("sum", p.y.dtype);
  w.Reduce("reduction", sum, p.at, "+=!", w.At(p.x, p.from));
  w.Set("pointwise", p.y, p.at,
        fmt::format("{} / {}", w.At(sum, p.at), Lit(p.y.dtype, static_cast<double>(p.count))));
}

void GlobalMaxPool(Writer& w) {
  const Plane p = MakePlane(w);
  w.Reduce("reduction", p.y, p.at, "max=!", w.At(p.x, p.from));
}

void GlobalLpPool(Writer& w) {
  const Plane plane = MakePlane(w);
  const int64_t p = w.Int("p", 2);
  const Operand sum = w.Temp("sum", plane.y.dtype);
  w.Reduce("reduction", sum, plane.at, "+=!", Power(plane.y.dtype, p, w.At(plane.x, plane.from)));
  w.Set("pointwise", plane.y, plane.at, Root(plane.y.dtype, p, w.At(sum, plane.at)));
}

}  // namespace weft::tc::ops
