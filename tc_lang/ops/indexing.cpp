#include "tc_lang/ops/indexing.h"

#include <algorithm>

namespace weft::tc::ops {
namespace {

// The index of spatial axis i of n: the last three have letters.
std::string AxisName(const char* letters, char otherwise, size_t i, size_t n) {
  return i + 3 < n ? fmt::format("{}{}", otherwise, i) : std::string(1, letters[i + 3 - n]);
}

void SetPads(Writer& w, std::vector<WindowAxis>& axes) {
  const std::string mode = graph::StringAttr(w.node, "auto_pad", "NOTSET");
  if (mode == "VALID") return;
  const size_t n = axes.size();
  const Ints pads = w.IntsOr("pads", 0, 2 * n);
  for (size_t i = 0; i < n; ++i) {
    WindowAxis& a = axes[i];
    a.pad_lo = pads[i];
    a.pad_hi = pads[n + i];
    if (mode != "SAME_UPPER" && mode != "SAME_LOWER") continue;
    const int64_t total =
        std::max<int64_t>((a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in, 0);
    a.pad_lo = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    a.pad_hi = total - a.pad_lo;
  }
}

}  // namespace

Subs OutIndices(Writer& w, const std::vector<WindowAxis>& axes) {
  Subs out;
  for (size_t i = 0; i < axes.size(); ++i)
    out.push_back(w.Range(AxisName("dhw", 'i', i, axes.size()), axes[i].out));
  return out;
}

Subs TapIndices(Writer& w, const std::vector<WindowAxis>& axes) {
  Subs out;
  for (size_t i = 0; i < axes.size(); ++i) {
    out.push_back(
        axes[i].kernel == 1 ? "0" : w.Range(AxisName("qrs", 'j', i, axes.size()), axes[i].kernel));
  }
  return out;
}

Windows MakeWindows(Writer& w, const Operand& x, const Operand& y, const Ints& kernel) {
  const size_t n = kernel.size();
  Windows out;
  if (n == 0 || x.dims.size() != n + 2 || y.dims.size() != n + 2) {
    w.Refuse(fmt::format("{} spatial axes", n));
    return out;
  }
  const Ints strides = w.IntsOr("strides", 1, n), dilations = w.IntsOr("dilations", 1, n);
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    out.axes.push_back({.in = w.Extent(x, axis),
                        .out = w.Extent(y, axis),
                        .kernel = kernel[i],
                        .stride = strides[i],
                        .dilation = dilations[i]});
  }
  SetPads(w, out.axes);
  out.out = OutIndices(w, out.axes);
  out.tap = TapIndices(w, out.axes);
  for (size_t i = 0; i < n; ++i) {
    const WindowAxis& a = out.axes[i];
    const int64_t tap_factor = a.kernel == 1 ? 0 : a.dilation;
    out.at.push_back(Sum({{a.stride, out.out[i]}, {tap_factor, out.tap[i]}}, -a.pad_lo));
    if (a.pad_lo > 0) out.guards.push_back(out.at[i] + " >= 0");
    const int64_t last = (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation - a.pad_lo;
    if (last >= a.in) out.guards.push_back(fmt::format("{} < {}", out.at[i], a.in));
  }
  return out;
}

std::string Guarded(const Subs& guards, const std::string& inside, const std::string& otherwise) {
  if (guards.empty()) return inside;
  return fmt::format("({} ? {} : {})", Join(guards, " && "), inside, otherwise);
}

void SumWithBias(Writer& w, std::string_view tag, const Operand& y, const Subs& at,
                 const std::string& product, size_t bias) {
  if (!w.Has(bias)) return w.Reduce(tag, y, at, "+=!", product);
  const Operand sum = w.Temp("conv", y.dtype);
  w.Reduce(tag, sum, at, "+=!", product);
  w.Set("pointwise", y, at, fmt::format("{} + {}", w.At(sum, at), w.At(w.In(bias), {at[1]})));
}

Channels MakeChannels(Writer& w, int64_t ins, int64_t outs, bool transposed) {
  const int64_t groups = w.Int("group", 1);
  if (groups < 1 || ins % groups != 0 || outs % groups != 0) {
    w.Refuse(fmt::format("{} groups of {} and {} channels", groups, ins, outs));
    return {};
  }
  const int64_t in_size = ins / groups, out_size = outs / groups;
  Channels c;
  std::string in = in_size == 1 ? "0" : "c", out = out_size == 1 ? "0" : "k";  // in the group
  if (groups == 1) {
    c.in = in = w.Range("c", ins);
    c.out = out = w.Range("k", outs);
  } else if (in_size == 1 && out_size == 1) {
    c.in = c.out = w.Range("c", groups);
  } else if (!transposed) {
    // One index for all outputs, so that lanes may hold several groups.
    w.Range("k", outs);
    if (in_size > 1) w.Range("c", in_size);
    const std::string group = out_size == 1 ? "k" : fmt::format("k / {}", out_size);
    c.in = in_size == 1 ? group : fmt::format("{} * ({}) + c", in_size, group);
    c.out = "k";
    c.filter = {c.out, in};
    return c;
  } else {
    w.Range("g", groups);
    if (in_size > 1) w.Range("c", in_size);
    if (out_size > 1) w.Range("k", out_size);
    c.in = in_size == 1 ? "g" : Sum({{in_size, "g"}, {1, "c"}});
    c.out = out_size == 1 ? "g" : Sum({{out_size, "g"}, {1, "k"}});
  }
  c.filter = transposed ? Subs{c.in, out} : Subs{c.out, in};
  return c;
}

Convolution MakeConvolution(Writer& w, size_t x, size_t filter) {
  Convolution conv{w.In(x), w.In(filter), w.Out(), {}, {}};
  conv.win = MakeWindows(w, conv.x, conv.y, w.Extents(conv.filter, 2));
  conv.c = MakeChannels(w, w.Extent(conv.x, 1), w.Extent(conv.y, 1), false);
  if (w.ok()) w.Range("n", conv.x.dims[0]);
  return conv;
}

Subs ChannelsLast(Subs i) {
  std::rotate(i.begin() + 1, i.begin() + 2, i.end());
  return i;
}

PaddedImage PadImage(Writer& w, const Convolution& conv, int64_t places) {
  const auto& [x, filter, y, win, c] = conv;
  PaddedImage p;
  Dims dims{x.dims[0], x.dims[1]};
  p.taps = {"n", c.in};
  for (size_t i = 0; i < win.axes.size(); ++i) {
    const WindowAxis& a = win.axes[i];
    dims.emplace_back((a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1);
    p.taps.push_back(Sum({{a.stride, win.out[i]}, {a.kernel == 1 ? 0 : a.dilation, win.tap[i]}}));
  }
  if (places > 0) dims.back() = places;
  p.at = w.Indices("k", dims);  // an axis of four has i0 and j0
  p.inside = p.at;
  for (size_t i = 0; i < win.axes.size(); ++i) {
    const WindowAxis& a = win.axes[i];
    std::string& place = p.inside[i + 2];
    place = Sum({{1, place}}, -a.pad_lo);
    if (a.pad_lo > 0) p.guards.push_back(place + " >= 0");
    if (dims[i + 2].value - a.pad_lo > a.in)
      p.guards.push_back(fmt::format("{} < {}", place, a.in));
  }
  return p;
}

}  // namespace weft::tc::ops
