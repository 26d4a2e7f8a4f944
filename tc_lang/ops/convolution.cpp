// Convolutions. A padded tap is no tap: it is read through a guard and adds nothing.
#include <algorithm>

#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc::ops {
namespace {

// A 1x1 kernel that meets no padding is a matrix product.
std::string_view TagOf(const Windows& windows) {
  for (const WindowAxis& a : windows.axes) {
    if (a.kernel != 1) return "convolution";
  }
  return windows.guards.empty() ? "contraction" : "convolution";
}

}  // namespace

void Conv(Writer& w) {
  const Operand x = w.In(0), filter = w.In(1), y = w.Out();
  const Windows win = MakeWindows(w, x, y, w.Extents(filter, 2));
  const Channels c = MakeChannels(w, w.Extent(x, 1), w.Extent(y, 1), false);
  if (!w.ok()) return;
  w.Range("n", x.dims[0]);
  const std::string product = fmt::format("{} * {}", w.At(x, Concat({"n", c.in}, win.at)),
                                          w.At(filter, Concat(c.filter, win.tap)));
  SumWithBias(w, TagOf(win), y, Concat({"n", c.out}, win.out),
              Guarded(win.guards, product, Lit(y.dtype, 0)));
}

// Instructions that multiply matrices of bfloat16 want rows of channels, and no guards around them:
// the image is copied so, with its padding.
void ConvChannelsLast(Writer& w) {
  const Convolution conv = MakeConvolution(w, 0, 1);
  if (!w.ok()) return;
  if (conv.x.dtype != Dtype::kBF16 || conv.filter.dtype != Dtype::kBF16)
    return w.Refuse("factors that are no bfloat16");
  const PaddedImage p = PadImage(w, conv);
  const Operand image = w.Copy("image", conv.x.dtype);
  w.Set("pointwise", image, ChannelsLast(p.at),
        Guarded(p.guards, w.At(conv.x, p.inside), Lit(conv.x.dtype, 0)));
  SumWithBias(w, TagOf(conv.win), conv.y, Concat({"n", conv.c.out}, conv.win.out),
              fmt::format("{} * {}", w.At(image, ChannelsLast(p.taps)),
                          w.At(conv.filter, Concat(conv.c.filter, conv.win.tap))));
}

namespace {

// Output o takes input i through tap t where o = i * stride + t * dilation - pad_lo, so
// i = (o + pad_lo - t * dilation) / stride where that is whole and inside.
void FromOutputs(Writer& w, Windows& win) {
  win.out = OutIndices(w, win.axes);
  win.tap = TapIndices(w, win.axes);
  for (size_t i = 0; i < win.axes.size(); ++i) {
    const WindowAxis& a = win.axes[i];
    const std::string e =
        Sum({{1, win.out[i]}, {a.kernel == 1 ? 0 : -a.dilation, win.tap[i]}}, a.pad_lo);
    if (a.pad_lo < (a.kernel - 1) * a.dilation) win.guards.push_back(e + " >= 0");
    if (a.out - 1 + a.pad_lo >= a.stride * a.in)
      win.guards.push_back(fmt::format("{} < {}", e, a.stride * a.in));
    if (a.stride > 1) win.guards.push_back(fmt::format("({}) % {} == 0", e, a.stride));
    win.at.push_back(a.stride > 1 ? fmt::format("({}) / {}", e, a.stride) : e);
  }
}

// The axes of a transposed convolution, whose filter is `kernel`.
std::vector<WindowAxis> TransposedAxes(Writer& w, const Operand& x, const Operand& y,
                                       const Ints& kernel) {
  std::vector<WindowAxis> axes;
  const size_t n = kernel.size();
  const Ints strides = w.IntsOr("strides", 1, n), dilations = w.IntsOr("dilations", 1, n);
  const Ints pads = w.IntsOr("pads", 0, 2 * n), extra = w.IntsOr("output_padding", 0, n);
  const std::string mode = graph::StringAttr(w.node, "auto_pad", "NOTSET");
  const bool fitted = !graph::IntsAttr(w.node, "output_shape").empty() || mode.starts_with("SAME");
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    WindowAxis a{.in = w.Extent(x, axis),
                 .out = w.Extent(y, axis),
                 .kernel = kernel[i],
                 .stride = strides[i],
                 .dilation = dilations[i],
                 .pad_lo = mode == "VALID" ? 0 : pads[i]};
    const int64_t total =
        a.stride * (a.in - 1) + extra[i] + (a.kernel - 1) * a.dilation + 1 - a.out;
    // What is less than nothing is shared out alike: rows of zeros on both sides.
    const int64_t half = FloorDiv(total, 2);
    if (fitted) a.pad_lo = mode == "SAME_UPPER" ? half : total - half;
    axes.push_back(a);
  }
  return axes;
}

// Outputs with one residue (o + pad_lo) mod stride take every stride-th tap and neighbouring
// inputs: with o + pad_lo = stride * i + j they take input i - u through tap stride * u + j. So
// each residue is a convolution of stride 1 (Shi et al., Is the deconvolution layer the same as a
// convolutional layer?, 2016), and no product is by a zero between two inputs.
struct Residues {
  Windows win;        // `out` are indices of y; `tap`, `at` and `guards` those of the sums
  Subs sums, from_y;  // subscripts of the sums: where they are made, and of what becomes y's
};

Residues MakeResidues(Writer& w, const std::vector<WindowAxis>& axes) {
  Residues r;
  r.win.axes = axes;
  for (WindowAxis& a : r.win.axes) a.kernel = (a.kernel - 1) / a.stride + 1;
  r.win.out = OutIndices(w, axes);
  r.win.tap = TapIndices(w, r.win.axes);
  // Residues stand before places, so that a row of sums takes a row of inputs.
  Subs places, place_of_y;
  for (size_t k = 0; k < axes.size(); ++k) {
    const WindowAxis& a = axes[k];
    const int64_t first = FloorDiv(a.pad_lo, a.stride), skipped = a.pad_lo - a.stride * first;
    const int64_t count = (a.out - 1 + skipped) / a.stride + 1;
    const int64_t last_tap = r.win.axes[k].kernel - 1;
    const std::string place = w.Range(fmt::format("i{}", k), count);
    const std::string at =
        Sum({{1, place}, {last_tap == 0 ? 0 : -a.dilation, r.win.tap[k]}}, first);
    if (first < last_tap * a.dilation) r.win.guards.push_back(at + " >= 0");
    if (first + count > a.in) r.win.guards.push_back(fmt::format("{} < {}", at, a.in));
    r.win.at.push_back(at);
    places.push_back(place);
    const std::string o = Sum({{1, r.win.out[k]}}, skipped);
    place_of_y.push_back(a.stride == 1 ? o : fmt::format("({}) / {}", o, a.stride));
    if (a.stride == 1) continue;
    const std::string residue = w.Range(fmt::format("j{}", k), a.stride);
    r.win.tap[k] = Sum({{last_tap == 0 ? 0 : a.stride, r.win.tap[k]}, {1, residue}});
    if (a.kernel % a.stride != 0)
      r.win.guards.push_back(fmt::format("{} < {}", r.win.tap[k], a.kernel));
    r.sums.push_back(residue);
    r.from_y.push_back(fmt::format("({}) % {}", o, a.stride));
  }
  r.sums = Concat(r.sums, places);
  r.from_y = Concat(r.from_y, place_of_y);
  return r;
}

}  // namespace

void ConvTranspose(Writer& w) {
  const Operand x = w.In(0), filter = w.In(1), y = w.Out();
  const Ints kernel = w.Extents(filter, 2);
  if (kernel.empty() || x.dims.size() != kernel.size() + 2)
    return w.Refuse(fmt::format("{} spatial axes", kernel.size()));
  Windows win;
  win.axes = TransposedAxes(w, x, y, kernel);
  const Channels c = MakeChannels(w, w.Extent(x, 1), w.Extent(y, 1), true);
  if (!w.ok()) return;
  w.Range("n", x.dims[0]);
  const auto product = [&](const Windows& at) {
    const std::string term = fmt::format("{} * {}", w.At(x, Concat({"n", c.in}, at.at)),
                                         w.At(filter, Concat(c.filter, at.tap)));
    return Guarded(at.guards, term, Lit(y.dtype, 0));
  };
  const auto strided = [](const WindowAxis& a) { return a.stride > 1; };
  const auto sparse = [](const WindowAxis& a) { return a.stride > 1 && a.dilation > 1; };
  // Four spatial axes have no names for all these indices.
  if (kernel.size() <= 3 && std::ranges::any_of(win.axes, strided) &&
      std::ranges::none_of(win.axes, sparse)) {
    const Residues r = MakeResidues(w, win.axes);
    const Operand sums = w.Temp("residues", y.dtype);
    w.Reduce("convolution", sums, Concat({"n", c.out}, r.sums), "+=!", product(r.win));
    std::string value = w.At(sums, Concat({"n", c.out}, r.from_y));
    if (w.Has(2)) value += " + " + w.At(w.In(2), {c.out});
    return w.Set("pointwise", y, Concat({"n", c.out}, r.win.out), value);
  }
  FromOutputs(w, win);
  SumWithBias(w, "convolution", y, Concat({"n", c.out}, win.out), product(win));
}

// Blocks that overlap are added up. The input has an axis for what is in a block, and one for its
// place.
void Col2Im(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Ints block = w.ConstInts(2);
  const size_t n = block.size();
  if (!w.ok() || n == 0 || y.dims.size() != n + 2)
    return w.Refuse(fmt::format("{} spatial axes", n));
  const Ints strides = w.IntsOr("strides", 1, n), dilations = w.IntsOr("dilations", 1, n),
             pads = w.IntsOr("pads", 0, 2 * n);
  Windows win;
  for (size_t i = 0; i < n; ++i) {
    WindowAxis a{.out = w.Extent(y, static_cast<int64_t>(i) + 2),
                 .kernel = block[i],
                 .stride = strides[i],
                 .dilation = dilations[i],
                 .pad_lo = pads[i],
                 .pad_hi = pads[n + i]};
    a.in = (a.out + a.pad_lo + a.pad_hi - (a.kernel - 1) * a.dilation - 1) / a.stride + 1;
    win.axes.push_back(a);
  }
  FromOutputs(w, win);
  w.Range("n", x.dims[0]);
  w.Range("c", w.Extent(y, 1));
  std::string in_block = "c", place = "0";
  for (size_t i = 0; i < n; ++i) {
    in_block = fmt::format("({})*{} + {}", in_block, win.axes[i].kernel, win.tap[i]);
    place = i == 0 ? win.at[i] : fmt::format("({})*{} + {}", place, win.axes[i].in, win.at[i]);
  }
  if (!w.ok()) return;
  w.Reduce("window", y, Concat({"n", "c"}, win.out), "+=!",
           Guarded(win.guards, w.At(x, {"n", in_block, place}), Lit(y.dtype, 0)));
}

}  // namespace weft::tc::ops
