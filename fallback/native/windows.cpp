#include "fallback/native/windows.h"

#include <algorithm>

#include "base/affine.h"

namespace weft::fallback::native {
namespace {

// Those of window `o` that lie in [low, high).
Taps TapsIn(const Axis& a, int64_t o, int64_t low, int64_t high) {
  const int64_t at = o * a.stride - a.before;
  const auto in_front = [&](int64_t place) {
    return std::clamp<int64_t>(FloorDiv(place - at + a.dilation - 1, a.dilation), 0, a.kernel);
  };
  return {in_front(low), in_front(high)};
}

Result<std::vector<int64_t>> IntsOf(const Args& args, std::string_view name, size_t size,
                                    int64_t least, std::optional<int64_t> otherwise) {
  std::vector<int64_t> values = IntsAttr(args.call, name);
  if (values.empty() && otherwise) values.assign(size, *otherwise);
  if (values.size() != size)
    return args.Error("{} holds {}, expected {}", name, values.size(), size);
  for (int64_t value : values) {
    if (value < least || value > INT32_MAX)
      return args.Error("{} holds {}, expected {} to {}", name, value, least, INT32_MAX);
  }
  return values;
}

// The windows of an axis, after its pads are known. A window that would start in the padding behind
// the input is left out.
Status Count(const Args& args, size_t i, bool ceil, Axis& a) {
  const int64_t last = a.in + a.before + a.after - a.reach();
  const auto above = [&](int64_t n) { return FloorDiv(n + a.stride - 1, a.stride); };
  a.out = ceil ? std::min(above(last) + 1, above(a.in + a.before)) : FloorDiv(last, a.stride) + 1;
  if (a.out >= (a.in > 0 ? 1 : 0)) return {};
  return args.Error("the window reaches over {} of spatial axis {}, which has {} with its pads",
                    a.reach(), i, a.in + a.before + a.after);
}

}  // namespace

Result<Windows> WindowsOf(const Args& args) {
  const Shape& shape = args[0].shape;
  if (shape.size() < 3)
    return args.Error("{} has the shape {}, expected rank 3 or more", args.Name(0), Print(shape));
  const size_t n = shape.size() - 2;
  WEFT_TRY(const auto kernel, IntsOf(args, "kernel_shape", n, 1, std::nullopt));
  WEFT_TRY(const auto strides, IntsOf(args, "strides", n, 1, 1));
  WEFT_TRY(const auto dilations, IntsOf(args, "dilations", n, 1, 1));
  WEFT_TRY(const auto pads, IntsOf(args, "pads", 2 * n, 0, 0));
  const std::string mode = args.Text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID") {
    return args.Error("auto_pad is \"{}\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode);
  }
  Windows w;
  for (size_t i = 0; i < n; ++i) {
    Axis a{.in = shape[i + 2], .kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    if (a.in > int64_t{1} << 60) return args.Error("extent {} is too large for a window", a.in);
    if (mode == "NOTSET") a.before = pads[i], a.after = pads[n + i];
    if (same) {
      a.out = (a.in + a.stride - 1) / a.stride;
      const int64_t total = std::max<int64_t>((a.out - 1) * a.stride + a.reach() - a.in, 0);
      a.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      a.after = total - a.before;
    } else {
      WEFT_TRY(Count(args, i, args.Int("ceil_mode", 0) != 0, a));
    }
    w.axes.push_back(a);
    // Products leave int64 beside an empty axis only, or where the output is refused.
    if (__builtin_mul_overflow(w.in, a.in, &w.in)) w.in = 0;
    if (__builtin_mul_overflow(w.out, a.out, &w.out)) w.out = 0;
  }
  return w;
}

Shape ShapeOf(const Shape& in, const Windows& w) {
  Shape shape{in[0], in[1]};
  for (const Axis& a : w.axes) shape.push_back(a.out);
  return shape;
}

void FindTaps(Windows& w) {
  for (const Axis& a : w.axes) {
    std::vector<Taps>& of = w.taps.emplace_back();
    for (int64_t o = 0; o < a.out; ++o) of.push_back(TapsIn(a, o, 0, a.in));
  }
}

std::vector<std::vector<double>> CountsOf(const Windows& w, bool with_pads) {
  std::vector<std::vector<double>> counts;
  for (const Axis& a : w.axes) {
    std::vector<double>& of = counts.emplace_back();
    for (int64_t o = 0; o < a.out; ++o) {
      const Taps taps = with_pads ? TapsIn(a, o, -a.before, a.in + a.after) : TapsIn(a, o, 0, a.in);
      of.push_back(static_cast<double>(taps.last - taps.first));
    }
  }
  return counts;
}

}  // namespace weft::fallback::native
