// Reads between pixels, at places that are data: GridSample, RoiAlign, DeformConv.
#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc::ops {
namespace {

// A place along one axis as a whole number, and what lies behind it.
struct Between {
  Operand whole, rest;
  Subs at;
};

// Splits the place `text`, an expression over `at`.
Between Split(Writer& w, std::string_view name, Dtype dtype, const Subs& at,
              const std::string& text) {
  const Operand place = w.Temp(fmt::format("{}_place", name), dtype);
  const Between b{w.Temp(fmt::format("{}_whole", name), Dtype::kI32),
                  w.Temp(fmt::format("{}_rest", name), dtype), at};
  w.Set("pointwise", place, at, text);
  w.Set("pointwise", b.whole, at, Cast(Dtype::kI32, fmt::format("floor({})", w.At(place, at))));
  w.Set("pointwise", b.rest, at, fmt::format("{0} - floor({0})", w.At(place, at)));
  return b;
}

// Of pixels 0 and 1 behind the whole number, by their distance.
std::string LinearWeight(const std::string& tap, const std::string& rest, Dtype dtype) {
  return fmt::format("({} == 0 ? {} - {} : {})", tap, Lit(dtype, 1), rest, rest);
}

// Of pixels -1 to 2 (Keys, "Cubic convolution interpolation", 1981, with a = -0.75).
std::string CubicWeight(const std::string& tap, const std::string& rest, Dtype dtype) {
  const auto lit = [&](double v) { return Lit(dtype, v); };
  const auto near = [&](const std::string& d) {
    return fmt::format("(({0} * {1} - {2}) * {1} * {1} + {3})", lit(1.25), d, lit(2.25), lit(1));
  };
  const auto far = [&](const std::string& d) {
    return fmt::format("((({0} * {1} + {2}) * {1} - {3}) * {1} + {4})", lit(-0.75), d, lit(3.75),
                       lit(6), lit(3));
  };
  const std::string behind = fmt::format("({} - {})", lit(1), rest);
  return fmt::format("({} == 0 ? {} : ({} == 1 ? {} : ({} == 2 ? {} : {})))", tap,
                     far(fmt::format("({} + {})", rest, lit(1))), tap, near(rest), tap,
                     near(behind), far(fmt::format("({} + {})", behind, lit(1))));
}

struct GridAxis {
  int64_t extent = 1;
  bool corners = false;  // the grid's ends are pixels, and not the outer edges of pixels
  std::string padding;   // zeros, border, reflection
};

// The pixel that the grid's number g, from -1 to 1, stands for.
std::string Denormalized(const GridAxis& a, const std::string& g, Dtype dtype) {
  const auto lit = [&](int64_t v) { return Lit(dtype, static_cast<double>(v)); };
  if (a.corners) return fmt::format("({} + {}) / {} * {}", g, lit(1), lit(2), lit(a.extent - 1));
  return fmt::format("(({} + {}) * {} - {}) / {}", g, lit(1), lit(a.extent), lit(1), lit(2));
}

// A place beyond the border, brought inside.
std::string Padded(const GridAxis& a, const std::string& x, Dtype dtype) {
  if (a.padding == "zeros") return x;
  const std::string low = Lit(dtype, a.corners ? 0 : -0.5),
                    high = Lit(dtype, static_cast<double>(a.extent) - (a.corners ? 1 : 0.5));
  const std::string last = Lit(dtype, static_cast<double>(a.extent - 1));
  std::string zero = Lit(dtype, 0);
  std::string inside = fmt::format("min(max({}, {}), {})", x, zero, last);
  if (a.padding == "reflection") {
    const int64_t length = a.corners ? a.extent - 1 : a.extent;
    if (length == 0) return zero;
    // The distance from the lower border, folded at both borders.
    const std::string period = Lit(dtype, static_cast<double>(2 * length));
    const std::string far = fmt::format("abs({} - {})", x, low);
    const std::string folded = fmt::format("({0} - floor({0} / {1}) * {1})", far, period);
    inside = fmt::format("{} + min({}, {} - {})", low, folded, period, folded);
  }
  return fmt::format("({0} < {1} || {0} > {2} ? {3} : {0})", x, low, high, inside);
}

// The same for whole numbers, which end inside whatever they are.
std::string PaddedWhole(const GridAxis& a, const std::string& p) {
  if (a.padding == "border") return fmt::format("min(max({}, 0), {})", p, a.extent - 1);
  if (a.padding == "zeros") return p;
  if (a.corners) {
    if (a.extent == 1) return "0";
    const std::string m = fmt::format("(({}) % {})", p, 2 * (a.extent - 1));
    return fmt::format("min({}, {} - {})", m, 2 * (a.extent - 1), m);
  }
  const std::string m = fmt::format("(({}) % {})", p, 2 * a.extent);
  return fmt::format("min({}, {} - {})", m, 2 * a.extent - 1, m);
}

struct Taps {
  Subs places, weights;  // one an axis
  Subs guards;           // under which all places are inside
};

// Axis `axis` of a grid sample: the pixels that a place reads, and how much of each.
void AddTaps(Writer& w, Taps& taps, size_t axis, const GridAxis& a, const Between& b,
             const std::string& mode) {
  const int64_t count = mode == "nearest" ? 1 : mode == "linear" ? 2 : 4;
  const std::string tap = count == 1 ? "0" : w.Range(fmt::format("j{}", axis), count);
  const Operand place = w.Temp(fmt::format("pixel{}", axis), Dtype::kI32);
  Subs at = b.at;
  if (count > 1) at.push_back(tap);
  const std::string base = w.At(b.whole, b.at);
  const std::string pixel =
      count == 1 ? base : fmt::format("{} + {}{}", base, tap, count == 4 ? " - 1" : "");
  w.Set("pointwise", place, at, PaddedWhole(a, pixel));
  taps.places.push_back(w.At(place, at));
  if (a.padding == "zeros")
    taps.guards.push_back(fmt::format("{0} >= 0 && {0} < {1}", taps.places.back(), a.extent));
  if (count == 1) return;
  const Operand weight = w.Temp(fmt::format("weight{}", axis), b.rest.dtype);
  const std::string rest = w.At(b.rest, b.at);
  w.Set("pointwise", weight, at,
        count == 2 ? LinearWeight(tap, rest, weight.dtype) : CubicWeight(tap, rest, weight.dtype));
  taps.weights.push_back(w.At(weight, at));
}

}  // namespace

// Jaderberg et al., "Spatial transformer networks", 2015, section 3.3.
void GridSample(Writer& w) {
  const Operand x = w.In(0), grid = w.In(1), y = w.Out();
  const int64_t rank = x.rank() - 2;
  const std::string mode = graph::StringAttr(w.node, "mode", "linear");
  const bool whole = mode == "nearest";
  if (rank < 1 || rank > 3) return w.Refuse(fmt::format("{} spatial axes", rank));
  if (!IsFloat(grid.dtype) || (!IsFloat(x.dtype) && !whole))
    return w.Refuse("means of what is no float");
  const Ints extents = w.Extents(x, 2);
  if (Product(extents) == 0) return w.Refuse("an image without pixels");
  Subs at{w.Range("n", y.dims[0])};
  for (int64_t k = 0; k < rank; ++k)
    at.push_back(w.Range(fmt::format("i{}", k), y.dims[static_cast<size_t>(k) + 2]));
  w.Range("c", w.Extent(x, 1));
  if (!w.ok()) return;
  const Dtype dtype = grid.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  Taps taps;
  for (int64_t k = 0; k < rank; ++k) {
    const GridAxis a{.extent = extents[static_cast<size_t>(k)],
                     .corners = w.Int("align_corners", 0) != 0,
                     .padding = graph::StringAttr(w.node, "padding_mode", "zeros")};
    // The grid has its axes from the last to the first.
    const Subs from = Concat(at, {std::to_string(rank - 1 - k)});
    const Operand pixel = w.Temp(fmt::format("at{}", k), dtype);
    const std::string place = Denormalized(a, Cast(dtype, w.At(grid, from)), dtype);
    w.Set("pointwise", pixel, at, whole ? fmt::format("round({})", place) : place);
    const Between b =
        Split(w, fmt::format("axis{}", k), dtype, at, Padded(a, w.At(pixel, at), dtype));
    AddTaps(w, taps, static_cast<size_t>(k), a, b, mode);
  }
  Subs to = at;
  to.insert(to.begin() + 1, "c");
  const std::string read = w.At(x, Concat({"n", "c"}, taps.places));
  if (whole) {
    const std::string none = x.dtype == Dtype::kBool ? "false" : Lit(x.dtype, 0);
    return w.Set("gather", y, to, Guarded(taps.guards, read, none));
  }
  const Operand sum = w.Temp("sum", x.dtype == Dtype::kF64 ? Dtype::kF64 : dtype);
  const std::string product = fmt::format("{} * {}", Join(taps.weights, " * "), read);
  w.Reduce("reduction", sum, to, "+=!", Guarded(taps.guards, product, Lit(sum.dtype, 0)));
  const std::string value = w.At(sum, to);
  w.Set("pointwise", y, to, sum.dtype == y.dtype ? value : Cast(y.dtype, value));
}

namespace {

// One side of the regions of a RoiAlign. Indices: r region, bin and sample as given.
struct Side {
  int64_t extent = 1, bins = 1, samples = 1;
  std::string bin, sample, tap;
  Operand start, size;  // of a region: where it starts, and the size of a bin
};

Side MakeSide(Writer& w, int64_t axis, const Operand& rois, Dtype dtype) {
  Side s;
  const bool rows = axis == 0;
  s.extent = w.Extent(w.In(0), 2 + axis);
  s.bins = w.Extent(w.Out(), 2 + axis);
  s.bin = w.Range(rows ? "h" : "w", s.bins);
  s.tap = w.Range(rows ? "i" : "j", 2);
  s.start = w.Temp(rows ? "top" : "left", dtype);
  s.size = w.Temp(rows ? "bin_height" : "bin_width", dtype);
  s.samples = w.Int("sampling_ratio", 0);
  const bool shifted =
      graph::StringAttr(w.node, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double scale = w.Float("spatial_scale", 1);
  const auto edge = [&](int64_t k) {
    const std::string at =
        fmt::format("{} * {}", w.At(rois, {"r", std::to_string(k)}), Lit(dtype, scale));
    return shifted ? fmt::format("({} - {})", at, Lit(dtype, 0.5)) : at;
  };
  w.Set("pointwise", s.start, {"r"}, edge(1 - axis));
  std::string length = fmt::format("{} - {}", edge(3 - axis), w.At(s.start, {"r"}));
  if (!shifted) length = fmt::format("max({}, {})", length, Lit(dtype, 1));
  w.Set("pointwise", s.size, {"r"},
        fmt::format("({}) / {}", length, Lit(dtype, static_cast<double>(s.bins))));
  s.sample = w.Range(rows ? "s" : "t", s.samples);
  return s;
}

// The pixel of this tap, and its weight: 0 where the sample is more than a pixel outside.
std::pair<std::string, std::string> TapOf(Writer& w, const Side& s, Dtype dtype) {
  const auto lit = [&](double v) { return Lit(dtype, v); };
  const std::string place =
      fmt::format("({} + {} * {} + ({} + {}) * {} / {})", w.At(s.start, {"r"}), Cast(dtype, s.bin),
                  w.At(s.size, {"r"}), Cast(dtype, s.sample), lit(0.5), w.At(s.size, {"r"}),
                  lit(static_cast<double>(s.samples)));
  const std::string last = lit(static_cast<double>(s.extent - 1));
  const std::string inside = fmt::format("min(max({}, {}), {})", place, lit(0), last);
  const std::string pixel =
      fmt::format("min({} + {}, {})", Cast(Dtype::kI32, inside), s.tap, s.extent - 1);
  const std::string rest = fmt::format("({0} - floor({0}))", inside);
  const std::string weight =
      fmt::format("({0} >= {1} && {0} <= {2} ? {3} : {4})", place, lit(-1),
                  lit(static_cast<double>(s.extent)), LinearWeight(s.tap, rest, dtype), lit(0));
  return {pixel, weight};
}

}  // namespace

// He et al., "Mask R-CNN", 2017, section 3: each bin of a region is the mean (or maximum) of
// samples.
void RoiAlign(Writer& w) {
  const Operand x = w.In(0), rois = w.In(1), batch = w.In(2), y = w.Out();
  if (x.rank() != 4 || rois.rank() != 2) return w.Refuse("no planes, or no regions");
  if (w.Int("sampling_ratio", 0) < 1) return w.Refuse("as many samples as regions are large");
  const Dtype dtype = x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  w.Range("r", y.dims[0]);
  w.Range("c", w.Extent(x, 1));
  if (!w.ok() || w.Extent(x, 2) * w.Extent(x, 3) == 0) return w.Refuse("an image without pixels");
  const Side rows = MakeSide(w, 0, rois, dtype), columns = MakeSide(w, 1, rois, dtype);
  const auto [row, row_weight] = TapOf(w, rows, dtype);
  const auto [column, column_weight] = TapOf(w, columns, dtype);
  const std::string value = fmt::format("{} * {} * {}", row_weight, column_weight,
                                        w.At(x, {w.At(batch, {"r"}), "c", row, column}));
  const bool is_max = graph::StringAttr(w.node, "mode", "avg") == "max";
  const Subs to{"r", "c", "h", "w"};
  const Operand found = w.Temp("found", dtype);
  w.Reduce("reduction", found, to, is_max ? "max=!" : "+=!", value);
  const std::string all = w.At(found, to);
  const auto count = static_cast<double>(rows.samples * columns.samples);
  const std::string result = is_max ? all : fmt::format("{} / {}", all, Lit(dtype, count));
  w.Set("pointwise", y, to, y.dtype == dtype ? result : Cast(y.dtype, result));
}

// A convolution whose taps lie where an offset says (Dai et al., "Deformable convolutional
// networks", 2017, section 2.1), each with a factor of its own (Zhu et al., "Deformable ConvNets
// v2", 2018, section 2.2).
void DeformConv(Writer& w) {
  const Operand x = w.In(0), filter = w.In(1), offset = w.In(2), y = w.Out();
  const Windows win = MakeWindows(w, x, y, w.Extents(filter, 2));
  const int64_t channels = w.Extent(x, 1), groups = w.Int("offset_group", 1);
  if (!w.ok()) return;
  if (groups < 1 || channels % groups != 0) return w.Refuse("offsets of unequal groups");
  const auto rank = static_cast<int64_t>(win.axes.size());
  int64_t taps = 1;
  std::string tap = "0";  // number of the tap, row-major
  for (size_t k = 0; k < win.axes.size(); ++k) {
    taps *= win.axes[k].kernel;
    if (win.axes[k].kernel == 1) continue;
    tap =
        tap == "0" ? win.tap[k] : fmt::format("({})*{} + {}", tap, win.axes[k].kernel, win.tap[k]);
  }
  w.Range("n", x.dims[0]);
  w.Range("g", groups);
  Subs at{"n", "g"};
  for (size_t k = 0; k < win.axes.size(); ++k) {
    if (win.axes[k].kernel > 1) at.push_back(win.tap[k]);
  }
  at.insert(at.end(), win.out.begin(), win.out.end());
  const Dtype dtype = x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  w.Range("e", channels);
  Subs of_channel = at;  // the same where e is the channel
  of_channel[1] = groups == 1 ? "0" : fmt::format("e / {}", channels / groups);
  Taps sample;
  for (size_t k = 0; k < win.axes.size(); ++k) {
    const std::string from =
        fmt::format("{}*g + {}*({}) + {}", groups == 1 ? 0 : taps * rank, rank, tap, k);
    const Between b = Split(w, fmt::format("axis{}", k), dtype, at,
                            fmt::format("{} + {}", Cast(dtype, fmt::format("({})", win.at[k])),
                                        w.At(offset, Concat({"n", from}, win.out))));
    const std::string corner = w.Range(fmt::format("j{}", k), 2);
    sample.places.push_back(fmt::format("{} + {}", w.At(b.whole, of_channel), corner));
    sample.weights.push_back(LinearWeight(corner, w.At(b.rest, of_channel), dtype));
    sample.guards.push_back(fmt::format("{0} >= 0 && {0} < {1}", sample.places[k], win.axes[k].in));
  }
  const Operand column = w.Temp("column", x.dtype);
  Subs in_column = at;
  in_column[1] = "e";
  w.Reduce("gather", column, in_column, "+=!",
           Guarded(sample.guards,
                   fmt::format("{} * {}", Join(sample.weights, " * "),
                               w.At(x, Concat({"n", "e"}, sample.places))),
                   Lit(column.dtype, 0)));
  const Channels c = MakeChannels(w, channels, w.Extent(y, 1), false);
  if (!w.ok()) return;
  Subs read = at;
  read[1] = c.in;
  std::string product =
      fmt::format("{} * {}", w.At(column, read), w.At(filter, Concat(c.filter, win.tap)));
  if (w.Has(4)) {
    const std::string group =
        groups == 1 ? "0" : fmt::format("(({}) / {})", c.in, channels / groups);
    product += fmt::format(
        " * {}",
        w.At(w.In(4), Concat({"n", fmt::format("{}*{} + {}", taps, group, tap)}, win.out)));
  }
  SumWithBias(w, "convolution", y, Concat({"n", c.out}, win.out), product, 3);
}

}  // namespace weft::tc::ops
