// Samples of images at places that are data, and images of overlapping blocks.
#include <fmt/format.h>

#include "graph/infer/window.h"

namespace weft::graph::infer {

Status RoiAlignRule(Context& c) {
  WEFT_TRY(c.Rank(0, 4));
  WEFT_TRY(c.Rank(1, 2));
  const Extents* x = c.In(0);
  const Extents* rois = c.In(1);
  int64_t height = c.Int("output_height", 1), width = c.Int("output_width", 1);
  const bool pool = c.node.op == Op::kMaxRoiPool;
  if (pool) {
    const auto pooled = IntsAttr(c.node, "pooled_shape");
    WEFT_TRY(c.Size("pooled_shape", pooled.size(), 2));
    height = pooled[0];
    width = pooled[1];
  } else {
    WEFT_TRY(c.OneOf("mode", "avg", {"avg", "max"}));
    WEFT_TRY(c.OneOf("coordinate_transformation_mode", "half_pixel",
                     {"half_pixel", "output_half_pixel"}));
    if (const int64_t ratio = c.Int("sampling_ratio", 0); ratio < 0 || ratio > 1 << 12)
      return Invalid(
          fmt::format("attribute \"sampling_ratio\" is {}, expected 0 to {}", ratio, 1 << 12));
  }
  if (height < 0 || width < 0)
    return Invalid(fmt::format("found an output of {} x {}", height, width));
  if (rois) WEFT_TRY(c.Same((*rois)[1], pool ? 5 : 4, "the numbers of a region"));
  if (rois && !pool) {
    WEFT_TRY(c.Rank(2, 1));
    if (const Extents* batches = c.In(2))
      WEFT_TRY(c.Same((*batches)[0], (*rois)[0], "the regions and their images"));
  }
  if (x && rois) c.Out(0, {(*rois)[0], (*x)[1], height, width});
  return {};
}

Status GridSampleRule(Context& c) {
  WEFT_TRY(c.OneOf("mode", "linear", {"linear", "nearest", "cubic"}));
  WEFT_TRY(c.OneOf("padding_mode", "zeros", {"zeros", "border", "reflection"}));
  const Extents* x = c.In(0);     // [N, C, spatial...]
  const Extents* grid = c.In(1);  // [N, out spatial..., rank]
  WEFT_TRY(c.MinRank(0, 3));
  if (!x || !grid) return {};
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(x->size())));
  WEFT_TRY(c.Same((*x)[0], (*grid)[0], "the batches of image and grid"));
  WEFT_TRY(c.Same(grid->back(), static_cast<int64_t>(x->size() - 2),
                  "the grid's last axis and the spatial rank"));
  Extents out = {(*x)[0], (*x)[1]};
  out.insert(out.end(), grid->begin() + 1, grid->end() - 1);
  c.Out(0, std::move(out));
  return {};
}

Status DeformConvRule(Context& c) {
  const Extents* x = c.In(0);  // [N, C, spatial...]
  WEFT_TRY(ConvRule(c));
  WEFT_TRY(c.MinRank(2, 3));
  const Extents* y = c.OutShape(0);
  const Extents* filter = c.In(1);
  const int64_t groups = c.Int("offset_group", 1);
  if (groups < 1 || groups > INT32_MAX)
    return Invalid(fmt::format("attribute \"offset_group\" is {}, expected 1 or more", groups));
  if (!x || !y || !filter) return {};
  if ((*x)[1].IsConstant() && (*x)[1].value() % groups != 0)
    return Invalid(fmt::format("{} channels do not divide into {} groups of offsets",
                               (*x)[1].value(), groups));
  Extents taps = {groups};
  taps.insert(taps.end(), filter->begin() + 2, filter->end());
  // [N, offset_group * taps * rank, out spatial...], and for the mask without the rank
  for (size_t i : {2, 4}) {
    const Extents* given = c.In(i);
    if (!given) continue;
    Extents wanted = *y;
    wanted[0] = (*x)[0];
    Extents each = taps;
    if (i == 2) each.emplace_back(static_cast<int64_t>(x->size()) - 2);
    wanted[1] = c.Product(each);
    WEFT_TRY(c.Rank(i, static_cast<int64_t>(wanted.size())));
    for (size_t k = 0; k < wanted.size(); ++k)
      WEFT_TRY(c.Same((*given)[k], wanted[k], fmt::format("axis {} of input {}", k, i)));
  }
  return {};
}

Status Col2ImRule(Context& c) {
  WEFT_TRY(c.Rank(0, 3));
  const Extents* x = c.In(0);  // [N, C * what is in a block, blocks]
  const auto image = c.Ints(1), block = c.Ints(2);
  if (!x || !image || !block) return {};
  const size_t rank = image->size();
  if (rank < 1 || block->size() != rank)
    return Invalid(fmt::format("an image of {} axes and a block of {}", rank, block->size()));
  for (const int64_t extent : *image) {
    if (extent < 0 || extent > INT32_MAX)
      return Invalid(fmt::format("the image's shape holds {}", extent));
  }
  WEFT_TRY(const Window window, WindowOf(c, rank, *block));
  int64_t each = 1, blocks = 1;
  for (size_t i = 0; i < rank; ++i) {
    WEFT_TRY(const Extent count, SlideOver(c, window, i, (*image)[i]));
    const auto grown = Times(Affine(blocks), Affine(count.value())),
               larger = Times(Affine(each), Affine((*block)[i]));
    if (!grown || !larger) return Limit("there are too many blocks");
    blocks = grown->constant();
    each = larger->constant();
  }
  WEFT_TRY(c.Same((*x)[2], blocks, "the blocks that the input has and that cover the image"));
  if ((*x)[1].IsConstant() && (*x)[1].value() % each != 0)
    return Invalid(
        fmt::format("{} channels do not divide into blocks of {}", (*x)[1].value(), each));
  WEFT_TRY(const Extent channels, c.ToExtent(FloorDiv(c.Meaning((*x)[1]), each), "the channels"));
  Extents out = {(*x)[0], channels};
  out.insert(out.end(), image->begin(), image->end());
  c.Out(0, std::move(out));
  return {};
}

// The inverse of the pool with the same attributes, unless the shape is given.
Status MaxUnpoolRule(Context& c) {
  const Extents* x = c.In(0);
  const Extents* places = c.In(1);
  WEFT_TRY(c.MinRank(0, 3));
  if (!x) return {};
  const size_t rank = x->size() - 2;
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(x->size())));
  for (size_t i = 0; places && i < x->size(); ++i)
    WEFT_TRY(c.Same((*x)[i], (*places)[i], fmt::format("axis {} of values and places", i)));
  WEFT_TRY(const Window window, WindowOf(c, rank, {}));
  Extents out = {(*x)[0], (*x)[1]};
  for (size_t i = 0; i < rank; ++i) {
    const auto scaled = Times(c.Meaning((*x)[i + 2]), Affine(window.strides[i]));
    const auto total = scaled ? Plus(*scaled, Affine(window.kernel[i] - window.strides[i] -
                                                     window.pads[i] - window.pads[rank + i]))
                              : std::nullopt;
    if (!total) return Limit("the output is too large");
    WEFT_TRY(const Extent extent, c.ToExtent(*total, "the output's extent"));
    out.push_back(extent);
  }
  if (!c.Has(2)) {
    c.Out(0, std::move(out));
    return {};
  }
  const auto given = c.Ints(2);
  if (!given) {
    for (size_t i = 2; i < out.size(); ++i) out[i] = c.Fresh("unpooled");
    c.Out(0, std::move(out));
    return {};
  }
  if (given->size() != out.size())
    return Invalid(
        fmt::format("the output's shape has {} axes, expected {}", given->size(), out.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].IsConstant() && (*given)[i] < out[i].value())
      return Invalid(fmt::format("the output's shape has {} at axis {}, expected {} or more",
                                 (*given)[i], i, out[i].value()));
    if ((*given)[i] < 0)
      return Invalid(fmt::format("the output's shape has {} at axis {}", (*given)[i], i));
    out[i] = (*given)[i];
  }
  c.Out(0, std::move(out));
  return {};
}

Status CenterCropPadRule(Context& c) {
  const Extents* x = c.In(0);
  WEFT_TRY(c.Rank(1, 1));
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  std::vector<int64_t> axes = IntsAttr(c.node, "axes");
  if (!FindAttribute(c.node, "axes")) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  WEFT_TRY(axes, c.Axes(axes, rank));
  const auto shape = c.Ints(1);
  if (!shape) {
    // How many there are is known, not how large they are.
    Extents out = *x;
    for (const int64_t axis : axes) out[static_cast<size_t>(axis)] = c.Fresh("cropped");
    c.Out(0, std::move(out));
    return {};
  }
  if (shape->size() != axes.size())
    return Invalid(fmt::format("found {} extents for {} axes", shape->size(), axes.size()));
  Extents out = *x;
  for (size_t i = 0; i < axes.size(); ++i) {
    if ((*shape)[i] < 0) return Invalid(fmt::format("the shape has {}", (*shape)[i]));
    out[static_cast<size_t>(axes[i])] = (*shape)[i];
  }
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
