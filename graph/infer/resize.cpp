#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// floor(extent * scale): in f32, as every implementation computes it.
Result<Extent> Scaled(Context& c, Extent in, const Elem& scale) {
  if (!scale.IsConstant()) return c.Fresh("resized");
  const auto factor = static_cast<float>(scale.AsDouble());
  if (!(factor > 0) || !std::isfinite(factor))
    return Invalid(fmt::format("found the scale {}, expected more than 0", factor));
  if (in.IsConstant()) {
    const float size = std::floor(static_cast<float>(in.value()) * factor);
    if (size > 4.6e18f)
      return Limit(fmt::format("the scale {} makes the output too large", factor));
    return Extent(static_cast<int64_t>(size));
  }
  for (int64_t below = 1; below <= 64; below *= 2) {  // a fraction such as 3/2 has an exact form
    const double above = static_cast<double>(factor) * static_cast<double>(below);
    if (above != std::trunc(above) || above > 1e6) continue;
    const auto product = Times(c.Meaning(in), Affine(static_cast<int64_t>(above)));
    if (product) return c.ToExtent(FloorDiv(*product, below), "the resized extent");
  }
  return c.Opaque(fmt::format("floor({}*{})", c.Text(in), factor));
}

}  // namespace

Status ResizeRule(Context& c) {
  WEFT_TRY(c.OneOf("mode", "nearest", {"nearest", "linear", "cubic"}));
  WEFT_TRY(
      c.OneOf("keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"}));
  WEFT_TRY(c.OneOf("coordinate_transformation_mode", "half_pixel",
                   {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}));
  // The last is what an upgrade of opset 10 writes.
  WEFT_TRY(
      c.OneOf("nearest_mode", "round_prefer_floor",
              {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "ceil_when_shrinking"}));
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  std::vector<int64_t> axes = IntsAttr(c.node, "axes");
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  } else {
    WEFT_TRY(axes, c.Axes(axes, rank));
  }
  if (c.Has(2) == c.Has(3))
    return Invalid(c.Has(2) ? "scales and sizes are both given"
                            : "neither scales nor sizes are given");
  // Where each element is read from: nothing can be compiled without.
  if (StringAttr(c.node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    c.FactsIn(1);
  const Facts* scales = c.FactsIn(2);
  const Facts* sizes = c.FactsIn(3);
  const Facts* given = scales ? scales : sizes;
  if (given && given->size() != axes.size()) {
    return Invalid(fmt::format("found {} {}, expected {}", given->size(),
                               scales ? "scales" : "sizes", axes.size()));
  }
  const bool ratio = StringAttr(c.node, "keep_aspect_ratio_policy", "stretch") != "stretch";
  Extents out = *x;
  for (size_t i = 0; i < axes.size(); ++i) {
    Extent& extent = out[static_cast<size_t>(axes[i])];
    if (scales) {
      WEFT_TRY(extent, Scaled(c, extent, (*scales)[i]));
    } else if (sizes && (*sizes)[i].kind == Elem::kInteger && !ratio) {
      WEFT_TRY(extent, c.ToExtent((*sizes)[i].integer, "the resized extent"));
    } else {
      extent = c.Fresh("resized");
    }
  }
  if (ratio && sizes) {  // one scale for all axes, the smallest or the largest of those asked for
    double chosen = 0;
    bool known = true;
    const bool larger = StringAttr(c.node, "keep_aspect_ratio_policy", "") == "not_smaller";
    for (size_t i = 0; i < axes.size(); ++i) {
      const Extent in = (*x)[static_cast<size_t>(axes[i])];
      known = known && in.IsConstant() && in.value() > 0 && (*sizes)[i].IsConstant();
      if (!known) break;
      const double scale = (*sizes)[i].AsDouble() / static_cast<double>(in.value());
      chosen = i == 0 ? scale : larger ? std::max(chosen, scale) : std::min(chosen, scale);
    }
    for (size_t i = 0; known && i < axes.size(); ++i) {
      const auto at = static_cast<size_t>(axes[i]);
      out[at] = static_cast<int64_t>(std::round(chosen * static_cast<double>((*x)[at].value())));
    }
  }
  c.Out(0, std::move(out));
  return {};
}

Status DepthToSpaceRule(Context& c) {
  WEFT_TRY(c.OneOf("mode", "DCR", {"DCR", "CRD"}));
  WEFT_TRY(c.Rank(0, 4));
  const Extents* x = c.In(0);
  const int64_t block = c.Int("blocksize", 0);
  if (block < 1 || block > 1 << 15)
    return Invalid(fmt::format("attribute \"blocksize\" is {}, expected 1 or more", block));
  if (!x) return {};
  const Extent channels = (*x)[1];
  if (channels.IsConstant() && channels.value() % (block * block) != 0) {
    return Invalid(fmt::format("{} channels do not divide into blocks of {}", channels.value(),
                               block * block));
  }
  WEFT_TRY(const Extent depth,
           c.ToExtent(FloorDiv(c.Meaning(channels), block * block), "the depth"));
  const std::array<Extent, 2> h = {(*x)[2], block}, w = {(*x)[3], block};
  c.Out(0, {(*x)[0], depth, c.Product(h), c.Product(w)});
  return {};
}

Status SpaceToDepthRule(Context& c) {
  WEFT_TRY(c.Rank(0, 4));
  const Extents* x = c.In(0);
  const int64_t block = c.Int("blocksize", 0);
  if (block < 1 || block > 1 << 15)
    return Invalid(fmt::format("attribute \"blocksize\" is {}, expected 1 or more", block));
  if (!x) return {};
  Extents out = *x;
  for (size_t i = 2; i < 4; ++i) {
    if (out[i].IsConstant() && out[i].value() % block != 0)
      return Invalid(fmt::format("axis {} has {}, no multiple of {}", i, out[i].value(), block));
    WEFT_TRY(out[i], c.ToExtent(FloorDiv(c.Meaning(out[i]), block), "the extent"));
  }
  const std::array<Extent, 2> depth = {(*x)[1], block * block};
  out[1] = c.Product(depth);
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
