// Resize: axis by axis, each output element is a weighted sum of a few neighbours.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "tc_lang/ops/families.h"
#include "tc_lang/ops/resample.h"

namespace weft::tc::ops {
namespace {

ResampleRule RuleOf(const Writer& w) {
  ResampleRule rule;
  rule.mode = graph::StringAttr(w.node, "mode", "nearest");
  rule.coordinates = graph::StringAttr(w.node, "coordinate_transformation_mode", "half_pixel");
  rule.nearest_mode = graph::StringAttr(w.node, "nearest_mode", "round_prefer_floor");
  rule.antialias = w.Int("antialias", 0) != 0;
  rule.exclude_outside = w.Int("exclude_outside", 0) != 0;
  rule.cubic_a = w.Float("cubic_coeff_a", -0.75F);
  return rule;
}

// Elements of a constant input as doubles; empty if it is absent.
std::vector<double> Reals(Writer& w, size_t i) {
  std::vector<double> out;
  if (!w.Has(i)) return out;
  const Tensor* constant = w.Constant(i);
  if (constant == nullptr)
    w.Refuse(fmt::format("input {} is not constant", i), Reason::kOpaqueAccess);
  for (int64_t k = 0; constant != nullptr && k < constant->elems(); ++k)
    out.push_back(ElemAsDouble(*constant, k));
  return out;
}

// out / in by axis, as scales or sizes give it, for the axes that the node names.
std::vector<double> Scales(Writer& w, const Operand& x, const Ints& axes) {
  std::vector<double> scales = Reals(w, 2);
  const std::vector<double> sizes = Reals(w, 3);
  const std::string policy = graph::StringAttr(w.node, "keep_aspect_ratio_policy", "stretch");
  if (scales.empty()) {
    for (size_t k = 0; k < axes.size() && k < sizes.size(); ++k) {
      scales.push_back(sizes[k] / static_cast<double>(w.Extent(x, axes[k])));
    }
    if (policy != "stretch" && !scales.empty()) {
      const auto [low, high] = std::minmax_element(scales.begin(), scales.end());
      scales.assign(scales.size(), policy == "not_larger" ? *low : *high);
    }
  }
  if (scales.size() != axes.size()) w.Refuse("neither scales nor sizes fit the axes");
  scales.resize(axes.size(), 1);
  return scales;
}

// A resampled axis of x, and where element `i` of it comes from as an expression, if it has one.
struct Resampled {
  size_t axis = 0;
  std::string i;
  Resample rule;
  Periodic periodic;
  std::string base;
  Dtype dtype = Dtype::kF32;  // of weights
  std::optional<Line> line;   // if a table of them would be long
};

// Floats do not hold large integers.
Dtype WeightType(Dtype of_x) {
  const bool large = of_x == Dtype::kF64 || (!IsFloat(of_x) && SizeBytes(of_x) >= 4);
  return large ? Dtype::kF64 : Dtype::kF32;
}

Resampled MakeResampled(size_t axis, const std::string& i, const ResampleRule& rule, Resample r,
                        double scale, Dtype of_x) {
  constexpr int64_t kMostListed = 8192;
  const Periodic periodic = PeriodOf(r);
  std::string base = BaseText(r, periodic, i);
  const Dtype dtype = WeightType(of_x);
  std::optional<Line> line;
  if (periodic.period * r.taps > kMostListed) line = LineOf(rule, r, scale);
  if (line) base = fmt::format("({}) / {}", Sum({{line->a, i}}, line->b), line->d);
  return {axis, i, std::move(r), periodic, std::move(base), dtype, line};
}

// The element of x, and its weight, along one axis.
struct Tap {
  std::string at, weight, inside;
};

// The weights of output i, in a table that is as long as they repeat.
struct Weights {
  Operand table;
  std::string row;
};

Weights MakeWeights(Writer& w, const Resampled& along) {
  const Resample& r = along.rule;
  const int64_t period = along.periodic.period;
  const auto kept = static_cast<size_t>(period * r.taps);
  const std::string name = fmt::format("weight{}", along.axis);
  return {w.Const(name, along.dtype, {period, r.taps}, std::span(r.weights).first(kept)),
          period == 1       ? "0"
          : period == r.out ? along.i
                            : fmt::format("{} % {}", along.i, period)};
}

Tap MakeTap(Writer& w, const Resampled& along) {
  const auto& [axis, i, r, periodic, base, dtype, line] = along;
  Tap tap;
  tap.at = base;
  if (tap.at.empty()) {
    const std::vector<double> table(r.base.begin(), r.base.end());
    tap.at = w.At(w.Const(fmt::format("base{}", axis), Dtype::kI32, {r.out}, table), {i});
  }
  const std::string k = r.taps == 1 ? "" : w.Range(fmt::format("k{}", axis), r.taps);
  if (r.taps > 1) {
    tap.at += " + " + k;
    const Weights weights = MakeWeights(w, along);
    tap.weight = w.At(weights.table, {weights.row, k});
  }
  const auto [low, high] = std::minmax_element(r.base.begin(), r.base.end());
  if (*low < 0) tap.at = fmt::format("max({}, 0)", tap.at);
  if (*high + r.taps > r.in) tap.at = fmt::format("min({}, {})", tap.at, r.in - 1);
  if (!r.outside.empty()) {
    std::vector<double> flags;
    for (bool outside : r.outside) flags.push_back(outside ? 0 : 1);
    tap.inside =
        w.At(w.Const(fmt::format("inside{}", axis), Dtype::kI32, {r.out}, flags), {i}) + " != 0";
  }
  return tap;
}

// Linear interpolation along one axis. Outputs before `low` and from `high` on lie beyond the first
// and the last element, and are these.
struct LinearAxis {
  size_t axis = 0;
  int64_t in = 0, out = 0, low = 0, high = 0;
  std::string i, base;
  std::string first, second;  // weights
};

bool IsLinear(const Resampled& along) {
  const Resample& r = along.rule;
  return r.taps == 2 && r.outside.empty() && !along.base.empty();
}

LinearAxis MakeLinear(Writer& w, const Resampled& along) {
  const Resample& r = along.rule;
  const auto from = [&](int64_t element) {
    return std::ranges::lower_bound(r.base, element) - r.base.begin();
  };
  LinearAxis axis{.axis = along.axis,
                  .in = r.in,
                  .out = r.out,
                  .low = from(0),
                  .high = std::max(from(r.in - 1), from(0)),
                  .i = along.i,
                  .base = along.base};
  if (along.line) {
    const auto& [a, b, d] = *along.line;
    axis.second = fmt::format(
        "{} / {}", Cast(along.dtype, fmt::format("({}) % {}", Sum({{a, along.i}}, b), d)),
        Lit(along.dtype, static_cast<double>(d)));
    axis.first = fmt::format("({} - {})", Lit(along.dtype, 1), axis.second);
  } else {
    const Weights weights = MakeWeights(w, along);
    axis.first = w.At(weights.table, {weights.row, "0"});
    axis.second = w.At(weights.table, {weights.row, "1"});
  }
  return axis;
}

// One expression, so that what is inside reads neighbours without a clamp, which lanes could not
// share a load over.
std::string Blend(Writer& w, const Operand& x, std::span<const LinearAxis> axes, Subs from) {
  if (axes.empty()) return w.At(x, from);
  const LinearAxis& a = axes[0];
  const auto at = [&](const std::string& place) {
    from[a.axis] = place;
    return Blend(w, x, axes.subspan(1), from);
  };
  std::string value;
  if (a.low < a.high) {
    value =
        fmt::format("({} * ({}) + {} * ({}))", a.first, at(a.base), a.second, at(a.base + " + 1"));
  }
  if (a.high < a.out) {
    const std::string last = at(std::to_string(a.in - 1));
    value = value.empty() ? last : fmt::format("({} >= {} ? {} : {})", a.i, a.high, last, value);
  }
  if (a.low > 0) {
    const std::string first = at("0");
    value = value.empty() ? first : fmt::format("({} < {} ? {} : {})", a.i, a.low, first, value);
  }
  return value;
}

// What the node asks for: which axes of x are sampled anew, from outside in, and how.
struct Resizing {
  Operand x, y;
  Subs i;  // of y
  ResampleRule rule;
  std::vector<Resampled> axes;
};

Resizing MakeResizing(Writer& w) {
  Resizing r{w.In(0), w.Out(), {}, RuleOf(w), {}};
  Ints axes = w.Axes(graph::IntsAttr(w.node, "axes"), r.x.rank());
  if (axes.empty()) {
    axes.resize(r.x.dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  const bool crop = r.rule.coordinates == "tf_crop_and_resize";
  const std::vector<double> scales = Scales(w, r.x, axes);
  const std::vector<double> roi = crop ? Reals(w, 1) : std::vector<double>();
  if (crop && w.ok() && roi.size() != 2 * axes.size()) {
    w.Refuse(fmt::format("found {} ends of regions, expected {}", roi.size(), 2 * axes.size()));
    return r;
  }
  r.i = w.Indices("i", r.y.dims);
  for (size_t k = 0; k < axes.size() && w.ok(); ++k) {
    const auto axis = static_cast<size_t>(axes[k]);
    if (r.x.dims[axis] == r.y.dims[axis] && std::fabs(scales[k] - 1) < 1e-9 && !crop) continue;
    const int64_t in = w.Extent(r.x, axes[k]), out = w.Extent(r.y, axes[k]);
    if (in == 0 || out == 0) continue;
    std::optional<Resample> along = MakeResample(r.rule, in, out, scales[k], crop ? roi[k] : 0,
                                                 crop ? roi[axes.size() + k] : 1);
    if (!along) {
      w.Refuse(fmt::format("axis {} takes too large a table", axis));
      return r;
    }
    r.axes.push_back(
        MakeResampled(axis, r.i[axis], r.rule, *std::move(along), scales[k], r.x.dtype));
  }
  std::ranges::sort(r.axes, {}, &Resampled::axis);
  return r;
}

}  // namespace

void Resize(Writer& w) {
  const auto& [x, y, i, rule, resampled] = MakeResizing(w);
  if (!w.ok()) return;
  constexpr size_t kMostBlended = 2;  // axes; each takes four times the reads
  const bool linear = std::ranges::all_of(resampled, IsLinear);
  if (linear && !resampled.empty() && resampled.size() <= kMostBlended && IsFloat(x.dtype)) {
    std::vector<LinearAxis> blended;
    for (const Resampled& along : resampled) blended.push_back(MakeLinear(w, along));
    const std::string value = Blend(w, x, blended, i);
    return w.Set("pointwise", y, i, SizeBytes(y.dtype) < 4 ? Cast(y.dtype, value) : value);
  }
  Subs from = i, weights, inside;
  bool table = false;
  for (const Resampled& along : resampled) {
    const Tap tap = MakeTap(w, along);
    from[along.axis] = tap.at;
    table = table || tap.at.find("base") != tap.at.npos;
    if (!tap.weight.empty()) weights.push_back(tap.weight);
    if (!tap.inside.empty()) inside.push_back(tap.inside);
  }
  if (!w.ok()) return;
  std::string value = w.At(x, from);
  if (!weights.empty()) {
    const Dtype real = IsFloat(y.dtype) ? y.dtype : WeightType(x.dtype);
    if (!IsFloat(x.dtype)) value = Cast(real, value);
    const std::string product = Join(weights, " * ") + " * " + value;
    if (inside.empty() && IsFloat(y.dtype)) return w.Reduce("window", y, i, "+=!", product);
    const Operand sum = w.Temp("sum", real);
    w.Reduce("window", sum, i, "+=!", product);
    value = w.At(sum, i);
    if (!IsFloat(y.dtype)) value = Cast(y.dtype, "round(" + value + ")");
  }
  if (!inside.empty()) {
    value = fmt::format("{} ? {} : {}", Join(inside, " && "), value,
                        Lit(y.dtype, w.Float("extrapolation_value", 0)));
  }
  w.Set(table ? "gather" : "copy", y, i, value);
}

// One axis after another: an element takes as many neighbours as the axes have, not their product,
// and rows are blended lane by lane before lanes look for neighbours in a row.
void ResizeByAxis(Writer& w) {
  const Resizing r = MakeResizing(w);
  if (!w.ok()) return;
  const auto blends = [](const Resampled& a) { return a.rule.taps > 1 && a.rule.outside.empty(); };
  if (r.axes.size() < 2 || !IsFloat(r.x.dtype) || !std::ranges::all_of(r.axes, blends))
    return w.Refuse("nothing to blend along a second axis");
  Operand from = r.x;
  Subs at = r.i;
  for (const Resampled& along : r.axes)
    at[along.axis] = w.Range(fmt::format("j{}", along.axis), along.rule.in);
  for (const Resampled& along : r.axes) {
    const bool last = &along == &r.axes.back();
    const Operand to = last ? r.y : w.Temp(fmt::format("along{}", along.axis), r.y.dtype);
    Subs read = at;
    at[along.axis] = along.i;
    if (IsLinear(along)) {
      const LinearAxis axis = MakeLinear(w, along);
      const std::string value = Blend(w, from, std::span(&axis, 1), read);
      w.Set("pointwise", to, at, SizeBytes(to.dtype) < 4 ? Cast(to.dtype, value) : value);
    } else {
      const Tap tap = MakeTap(w, along);
      read[along.axis] = tap.at;
      w.Reduce("window", to, at, "+=!", fmt::format("{} * {}", tap.weight, w.At(from, read)));
    }
    from = to;
  }
}

}  // namespace weft::tc::ops
