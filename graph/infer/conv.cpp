#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/infer/window.h"

namespace weft::graph::infer {
namespace {

constexpr int64_t kMax = INT32_MAX;  // of a stride, a dilation, a kernel or a pad

Status InRange(std::string_view name, const std::vector<int64_t>& values, int64_t min) {
  for (int64_t value : values) {
    if (value < min || value > kMax) {
      return Invalid(
          fmt::format("attribute \"{}\" has {}, expected {} to {}", name, value, min, kMax));
    }
  }
  return {};
}

// Operands of the kinds of convolution lie at different places.
struct Operands {
  size_t x = 0, w = 1, bias = 2;
};

Operands OperandsOf(Op op) {
  if (op == Op::kQLinearConv) return {0, 3, 8};
  if (op == Op::kConvInteger) return {0, 1, 99};
  if (op == Op::kDeformConv) return {0, 1, 3};
  return {};
}

// The constant extents of axes 2 and up, or empty if some is not constant.
std::vector<int64_t> SpatialOf(const Extents& weights) {
  std::vector<int64_t> out;
  for (size_t i = 2; i < weights.size(); ++i) {
    if (!weights[i].IsConstant()) return {};
    out.push_back(weights[i].value());
  }
  return out;
}

// Whether only a run knows the kernel: no attribute says it, and the weights have open extents.
bool HasOpenKernel(const Context& c, const Extents& weights) {
  return IntsAttr(c.node, "kernel_shape").empty() &&
         !std::all_of(weights.begin() + 2, weights.end(), [](Extent e) { return e.IsConstant(); });
}

}  // namespace

Result<Window> WindowOf(Context& c, size_t rank, std::vector<int64_t> weights) {
  Window w{.kernel = IntsAttr(c.node, "kernel_shape"),
           .strides = IntsAttr(c.node, "strides"),
           .dilations = IntsAttr(c.node, "dilations"),
           .pads = IntsAttr(c.node, "pads"),
           .auto_pad = StringAttr(c.node, "auto_pad", "NOTSET"),
           .ceil = c.Int("ceil_mode", 0) != 0};
  if (w.kernel.empty()) w.kernel = weights;
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.dilations.empty()) w.dilations.assign(rank, 1);
  if (w.pads.empty()) w.pads.assign(2 * rank, 0);
  WEFT_TRY(c.Size("kernel_shape", w.kernel.size(), rank));
  WEFT_TRY(c.Size("strides", w.strides.size(), rank));
  WEFT_TRY(c.Size("dilations", w.dilations.size(), rank));
  WEFT_TRY(c.Size("pads", w.pads.size(), 2 * rank));
  WEFT_TRY(InRange("kernel_shape", w.kernel, 1));
  WEFT_TRY(InRange("strides", w.strides, 1));
  WEFT_TRY(InRange("dilations", w.dilations, 1));
  WEFT_TRY(InRange("pads", w.pads, 0));
  if (!weights.empty() && w.kernel != weights) {
    return Invalid(fmt::format("attribute \"kernel_shape\" is {}, but the weights have {}",
                               weft::Print(w.kernel), weft::Print(weights)));
  }
  static constexpr std::string_view kModes[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  if (std::ranges::find(kModes, w.auto_pad) == std::end(kModes)) {
    return Invalid("attribute \"auto_pad\" is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER");
  }
  return w;
}

Result<Extent> SlideOver(Context& c, const Window& w, size_t i, Extent in) {
  const size_t rank = w.kernel.size();
  const int64_t stride = w.strides[i], reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
  const Affine x = c.Meaning(in);
  if (in.IsConstant() && in.value() > int64_t{1} << 60)
    return Limit(fmt::format("extent {} is too large for a window", in.value()));
  if (w.auto_pad.starts_with("SAME")) return c.ToExtent(CeilDiv(x, stride), "the output's extent");
  const bool valid = w.auto_pad == "VALID";
  const int64_t begin = valid ? 0 : w.pads[i], end = valid ? 0 : w.pads[rank + i];
  const Affine last = x + (begin + end - reach);  // where the last window may start, at most
  const Affine starts = w.ceil ? CeilDiv(last, stride) : FloorDiv(last, stride);
  if (in.IsConstant() && in.value() > 0 && starts.constant() < 0) {
    return Invalid(
        fmt::format("the window reaches over {} of spatial axis {}, which has {} with its pads",
                    reach, i, in.value() + begin + end));
  }
  if (!w.ceil) return c.ToExtent(starts + 1, "the output's extent");
  // A window that would start in the padding behind the input is left out.
  const Affine up = starts + 1, inside = CeilDiv(x + begin, stride);
  if (end + stride <= reach) return c.ToExtent(up, "the output's extent");
  if (up.IsConstant())
    return c.ToExtent(std::min(up.constant(), inside.constant()), "the output's extent");
  return c.Opaque(fmt::format("pool({}, {}, {}, {}, {})", c.Text(in), reach, stride, begin, end));
}

Status ConvRule(Context& c) {
  const Operands at = OperandsOf(c.node.op);
  const Extents* x = c.In(at.x);  // [N, C, spatial...]
  const Extents* w = c.In(at.w);  // [M, C / group, spatial...]
  WEFT_TRY(c.MinRank(at.x, 3));
  WEFT_TRY(c.MinRank(at.w, 3));
  if (!x || !w) return {};
  WEFT_TRY(c.Rank(at.w, static_cast<int64_t>(x->size())));
  const int64_t group = c.Int("group", 1);
  if (group < 1 || group > kMax)
    return Invalid(fmt::format("attribute \"group\" is {}, expected 1 or more", group));
  const Extent channels = (*x)[1], filters = (*w)[0], each = (*w)[1];
  if (channels.IsConstant() && each.IsConstant() && each.value() <= kMax &&
      channels.value() != each.value() * group) {
    return Invalid(fmt::format("found {} channels, the weights {} with {} groups expect {}",
                               channels.value(), c.Text(*w), group, each.value() * group));
  }
  if (filters.IsConstant() && filters.value() % group != 0) {
    return Invalid(fmt::format("{} filters do not divide into {} groups", filters.value(), group));
  }
  if (const Extents* bias = c.In(at.bias)) {
    WEFT_TRY(c.Rank(at.bias, 1));
    WEFT_TRY(c.Same((*bias)[0], filters, "the bias and the filters"));
  }
  Extents out = {(*x)[0], filters};
  if (HasOpenKernel(c, *w)) {
    for (size_t i = 2; i < x->size(); ++i) out.push_back(c.Fresh("conv"));
    c.Out(0, std::move(out));
    return {};
  }
  const auto spatial = SpatialOf(*w);
  WEFT_TRY(const Window window, WindowOf(c, x->size() - 2, spatial));
  for (size_t i = 0; i + 2 < x->size(); ++i) {
    WEFT_TRY(const Extent extent, SlideOver(c, window, i, (*x)[i + 2]));
    out.push_back(extent);
  }
  c.Out(0, std::move(out));
  return {};
}

Status ConvTransposeRule(Context& c) {
  const Extents* x = c.In(0);  // [N, C, spatial...]
  const Extents* w = c.In(1);  // [C, M / group, spatial...]
  WEFT_TRY(c.MinRank(0, 3));
  if (!x || !w) return {};
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(x->size())));
  const size_t rank = x->size() - 2;
  const int64_t group = c.Int("group", 1);
  if (group < 1 || group > kMax)
    return Invalid(fmt::format("attribute \"group\" is {}, expected 1 or more", group));
  WEFT_TRY(c.Same((*x)[1], (*w)[0], "the channels of the input and of the weights"));
  if ((*w)[0].IsConstant() && (*w)[0].value() % group != 0) {
    return Invalid(fmt::format("{} channels do not divide into {} groups", (*w)[0].value(), group));
  }
  const std::array<Extent, 2> filters = {(*w)[1], group};
  Extents out = {(*x)[0], c.Product(filters)};
  if (HasOpenKernel(c, *w)) {
    for (size_t i = 0; i < rank; ++i) out.push_back(c.Fresh("conv"));
    c.Out(0, std::move(out));
    return {};
  }
  const auto spatial = SpatialOf(*w);
  WEFT_TRY(const Window window, WindowOf(c, rank, spatial));
  auto extra = IntsAttr(c.node, "output_padding");
  if (extra.empty()) extra.assign(rank, 0);
  WEFT_TRY(c.Size("output_padding", extra.size(), rank));
  WEFT_TRY(InRange("output_padding", extra, 0));
  auto wanted = IntsAttr(c.node, "output_shape");
  if (wanted.size() == rank + 2)
    wanted.erase(wanted.begin(), wanted.begin() + 2);  // some writers give N and C too
  if (!wanted.empty()) WEFT_TRY(c.Size("output_shape", wanted.size(), rank));
  if (const Extents* bias = c.In(2)) {
    WEFT_TRY(c.Rank(2, 1));
    WEFT_TRY(c.Same((*bias)[0], out[1], "the bias and the filters"));
  }
  for (size_t i = 0; i < rank; ++i) {
    if (!wanted.empty()) {
      if (wanted[i] < 0)
        return Invalid(fmt::format("attribute \"output_shape\" has {}", wanted[i]));
      out.emplace_back(wanted[i]);
      continue;
    }
    const auto scaled = Times(c.Meaning((*x)[i + 2]), Affine(window.strides[i]));
    if (!scaled) return Limit("the output is too large");
    const int64_t reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
    int64_t more = reach - window.strides[i] + extra[i];
    if (window.auto_pad.starts_with("SAME")) more = 0;
    if (window.auto_pad == "NOTSET") more -= window.pads[i] + window.pads[rank + i];
    const auto total = Plus(*scaled, Affine(more));
    if (!total) return Limit("the output is too large");
    WEFT_TRY(const Extent extent, c.ToExtent(*total, "the output's extent"));
    out.push_back(extent);
  }
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
