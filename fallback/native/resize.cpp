// Resize: axis by axis, each output element a weighted sum of a few neighbours.
#include "base/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

ResampleRule RuleOf(const Args& args) {
  ResampleRule rule;
  rule.mode = args.Text("mode", "nearest");
  rule.coordinates = args.Text("coordinate_transformation_mode", "half_pixel");
  rule.nearest_mode = args.Text("nearest_mode", "round_prefer_floor");
  rule.antialias = args.Int("antialias", 0) != 0;
  rule.exclude_outside = args.Int("exclude_outside", 0) != 0;
  rule.cubic_a = FloatAttr(args.call, "cubic_coeff_a", -0.75F);
  return rule;
}

// An operand of floats as doubles; empty if it is absent.
Result<std::vector<double>> Reals(const Args& args, size_t i) {
  std::vector<double> reals;
  if (!args.Has(i)) return reals;
  const In& in = args[i];
  const bool known = ByFloat(in.dtype, [&]<typename T>() {
    for (int64_t k = 0; k < in.elems; ++k) reals.push_back(static_cast<double>(in.as<T>()[k]));
  });
  if (!known) return args.Error("{} is {}, expected floats", args.Name(i), DtypeName(in.dtype));
  return reals;
}

// How the result is asked for: of each axis that the node names, out / in, and its extent.
struct Asked {
  std::vector<int64_t> axes;
  std::vector<double> scales;
  Shape shape;
};

Status NotPositive(const Args& args, size_t i, double value) {
  return args.Error("{} has {}, expected more than 0", args.Name(i), value);
}

// As every implementation computes it: in f32, rounded down.
Status ByScales(const Args& args, Asked& asked) {
  WEFT_TRY(asked.scales, Reals(args, 2));
  if (asked.scales.size() != asked.axes.size())
    return args.Error("{} has {} elements, expected {}", args.Name(2), asked.scales.size(),
                      asked.axes.size());
  for (size_t k = 0; k < asked.axes.size(); ++k) {
    const auto scale = static_cast<float>(asked.scales[k]);
    if (!(scale > 0) || !std::isfinite(scale)) return NotPositive(args, 2, scale);
    int64_t& extent = asked.shape[asked.axes[k]];
    const float size = std::floor(static_cast<float>(extent) * scale);
    if (size > 4.6e18F) return Limit("Resize: a scale makes the output too large");
    extent = static_cast<int64_t>(size);
  }
  return {};
}

// With one scale for all axes where the ratio of the extents is kept.
Status BySizes(const Args& args, Asked& asked) {
  WEFT_TRY(const std::vector<int64_t> sizes, args.Ints(3));
  if (sizes.size() != asked.axes.size())
    return args.Error("{} has {} elements, expected {}", args.Name(3), sizes.size(),
                      asked.axes.size());
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 0) return NotPositive(args, 3, static_cast<double>(sizes[k]));
    asked.scales.push_back(static_cast<double>(sizes[k]) /
                           static_cast<double>(asked.shape[asked.axes[k]]));
  }
  const std::string policy = args.Text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && !sizes.empty()) {
    const auto [low, high] = std::ranges::minmax_element(asked.scales);
    asked.scales.assign(sizes.size(), policy == "not_larger" ? *low : *high);
  }
  for (size_t k = 0; k < sizes.size(); ++k) {
    int64_t& extent = asked.shape[asked.axes[k]];
    const double size = std::round(asked.scales[k] * static_cast<double>(extent));
    if (policy != "stretch" && !(std::fabs(size) < 4.6e18))
      return Limit("Resize: the ratio makes the output too large");
    extent = policy == "stretch" ? sizes[k] : static_cast<int64_t>(size);
  }
  return {};
}

Result<Asked> AskedOf(const Args& args) {
  Asked asked{.axes = IntsAttr(args.call, "axes"), .shape = args[0].shape};
  if (asked.axes.empty()) {
    asked.axes.resize(asked.shape.size());
    std::iota(asked.axes.begin(), asked.axes.end(), 0);
  }
  WEFT_TRY(asked.axes, args.Axes(asked.axes, asked.shape.size()));
  if (args.Has(2) == args.Has(3)) return args.Error("one of scales and sizes is expected");
  WEFT_TRY(args.Has(2) ? ByScales(args, asked) : BySizes(args, asked));
  return asked;
}

// A tensor between two axes that are resampled.
template <typename C>
struct Field {
  Shape shape;
  std::vector<C> elems;
};

// The places of the axis that output i reads, inside, and their weights.
template <typename C, typename Body>
void Taps(const Resample& r, int64_t i, Body body) {
  for (int64_t t = 0; t < r.taps; ++t) {
    const int64_t at = std::clamp<int64_t>(r.base[i] + t, 0, r.in - 1);
    body(at, r.weights.empty() ? C{1} : static_cast<C>(r.weights[i * r.taps + t]));
  }
}

template <typename C>
Field<C> Along(const Field<C>& x, size_t axis, const Resample& r) {
  Field<C> y{.shape = x.shape};
  y.shape[axis] = r.out;
  const auto product = [](auto from, auto to) {
    return std::accumulate(from, to, int64_t{1}, std::multiplies<>());
  };
  const auto at = x.shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const int64_t outer = product(x.shape.begin(), at), inner = product(at + 1, x.shape.end());
  y.elems.resize(static_cast<size_t>(outer * r.out * inner));
  for (int64_t o = 0; o < outer; ++o) {
    Poll();
    const C* from = x.elems.data() + o * r.in * inner;
    C* to = y.elems.data() + o * r.out * inner;
    for (int64_t i = 0; i < r.out; ++i, to += inner) {
      Taps<C>(r, i, [&](int64_t place, C weight) {
        const C* row = from + place * inner;
        for (int64_t k = 0; k < inner; ++k) to[k] += weight * row[k];
      });
    }
  }
  return y;
}

// What lies outside of a crop.
template <typename T, typename C>
void Extrapolate(const Shape& shape, size_t axis, const Resample& r, C value, std::vector<C>& y) {
  int64_t inner = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  for (size_t k = 0; k < y.size(); ++k)
    if (r.outside[(k / static_cast<size_t>(inner)) % static_cast<size_t>(r.out)]) y[k] = value;
}

struct ResampledAxis {
  size_t axis;
  Resample rule;
};

// Small numbers become floats between the axes, large ones doubles; what is to be an integer is
// rounded once, in the end, as ONNX's reference does.
template <typename T>
void RunAs(const Args& args, const std::vector<ResampledAxis>& axes, const Out& out) {
  constexpr bool kLarge = std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) >= 4);
  using C = std::conditional_t<kLarge, double, float>;
  Field<C> field{.shape = args[0].shape};
  const T* x = args[0].as<T>();
  field.elems.reserve(static_cast<size_t>(args[0].elems));
  for (int64_t i = 0; i < args[0].elems; ++i)
    field.elems.push_back(static_cast<C>(static_cast<Compute<T>>(x[i])));
  for (const auto& [axis, rule] : axes) field = Along(field, axis, rule);
  const auto value = static_cast<C>(FloatAttr(args.call, "extrapolation_value", 0));
  for (const auto& [axis, rule] : axes)
    if (!rule.outside.empty()) Extrapolate<T>(field.shape, axis, rule, value, field.elems);
  for (int64_t i = 0; i < out.elems; ++i) {
    const C v = field.elems[static_cast<size_t>(i)];
    out.as<T>()[i] = To<T>(std::is_integral_v<T> ? std::nearbyint(v) : v);
  }
}

// Nothing is computed of what is only copied.
void RunNearest(const In& in, const std::vector<ResampledAxis>& axes, const Out& out) {
  std::vector<std::vector<int64_t>> places(out.shape.size());  // times the stride
  int64_t stride = 1;
  for (size_t d = out.shape.size(); d-- > 0; stride *= in.shape[d])
    for (int64_t i = 0; i < out.shape[d]; ++i) places[d].push_back(i * stride);
  stride = 1;
  std::vector<int64_t> strides(in.shape.size(), 1);
  for (size_t d = in.shape.size(); d-- > 1;) strides[d - 1] = strides[d] * in.shape[d];
  for (const auto& [axis, r] : axes)
    for (int64_t i = 0; i < r.out; ++i)
      places[axis][i] = std::clamp<int64_t>(r.base[i], 0, r.in - 1) * strides[axis];
  ByWidth(in.dtype, [&]<typename T>() {
    const T* x = in.as<T>();
    T* y = out.as<T>();
    const size_t rank = out.shape.size();
    if (rank == 0) {
      *y = *x;
      return;
    }
    std::vector<int64_t> index(rank, 0);
    const std::vector<int64_t>& last = places[rank - 1];
    for (int64_t at = 0; at < out.elems; at += std::ssize(last)) {
      Poll();
      int64_t base = 0;
      for (size_t d = 0; d + 1 < rank; ++d) base += places[d][index[d]];
      for (size_t i = 0; i < last.size(); ++i) y[at + static_cast<int64_t>(i)] = x[base + last[i]];
      for (size_t d = rank - 1; d-- > 0;) {
        if (++index[d] < out.shape[d]) break;
        index[d] = 0;
      }
    }
  });
}

}  // namespace

Status RunResize(const Args& args) {
  WEFT_TRY(args.Need(1));
  const In& x = args[0];
  WEFT_TRY(const Asked asked, AskedOf(args));
  const ResampleRule rule = RuleOf(args);
  const bool crop = rule.coordinates == "tf_crop_and_resize";
  std::vector<double> roi;
  if (crop) {
    WEFT_TRY(roi, Reals(args, 1));
  }
  if (crop && roi.size() != 2 * asked.axes.size())
    return args.Error("{} has {} elements, expected {}", args.Name(1), roi.size(),
                      2 * asked.axes.size());
  WEFT_TRY(const Out out, args.Output(0, x.dtype, asked.shape));
  if (out.elems == 0) return {};
  if (x.elems == 0) return args.Error("{} is empty, the output is not", args.Name(0));
  std::vector<ResampledAxis> axes;
  for (size_t k = 0; k < asked.axes.size(); ++k) {
    const auto axis = static_cast<size_t>(asked.axes[k]);
    const double scale = asked.scales[k];
    if (x.shape[axis] == out.shape[axis] && std::fabs(scale - 1) < 1e-9 && !crop) continue;
    auto along = MakeResample(rule, x.shape[axis], out.shape[axis], scale, crop ? roi[k] : 0,
                              crop ? roi[asked.axes.size() + k] : 1);
    if (!along) return Unsupported(fmt::format("Resize: axis {} takes too large a table", axis));
    axes.push_back({axis, *std::move(along)});
  }
  // What shrinks goes first: then nothing between is longer than the operand or the result.
  std::ranges::stable_sort(axes, {}, [](const ResampledAxis& a) {
    return static_cast<double>(a.rule.out) / static_cast<double>(a.rule.in);
  });
  const bool copies = std::ranges::all_of(
      axes, [](const ResampledAxis& a) { return a.rule.taps == 1 && a.rule.outside.empty(); });
  if (copies) {
    RunNearest(x, axes, out);
    return {};
  }
  const bool known = ByType(x.dtype, [&]<typename T>() { RunAs<T>(args, axes, out); });
  return known ? Status() : NoSuchType(args, x.dtype);
}

}  // namespace weft::fallback::native
