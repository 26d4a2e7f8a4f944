#include <fmt/format.h>

#include "graph/infer/window.h"

namespace weft::graph::infer {

Status PoolRule(Context& c) {
  const Extents* x = c.In(0);  // [N, C, spatial...]
  WEFT_TRY(c.MinRank(0, 3));
  if (!x) return {};
  WEFT_TRY(const Window window, WindowOf(c, x->size() - 2, {}));
  Extents out = {(*x)[0], (*x)[1]};
  for (size_t i = 0; i + 2 < x->size(); ++i) {
    WEFT_TRY(const Extent extent, SlideOver(c, window, i, (*x)[i + 2]));
    out.push_back(extent);
  }
  c.Out(0, out);
  c.Out(1, std::move(out));
  return {};
}

Status GlobalPoolRule(Context& c) {
  const Extents* x = c.In(0);
  WEFT_TRY(c.MinRank(0, 2));
  if (!x) return {};
  Extents out(x->size(), Extent(1));
  out[0] = (*x)[0];
  out[1] = (*x)[1];
  c.Out(0, std::move(out));
  return {};
}

Status RoiAlignRule(Context& c) {
  WEFT_TRY(c.Rank(0, 4));
  WEFT_TRY(c.Rank(1, 2));
  const Extents* x = c.In(0);
  const Extents* rois = c.In(1);
  int64_t height = c.Int("output_height", 1), width = c.Int("output_width", 1);
  if (c.node.op == Op::kMaxRoiPool) {
    const auto pooled = IntsAttr(c.node, "pooled_shape");
    WEFT_TRY(c.Size("pooled_shape", pooled.size(), 2));
    height = pooled[0];
    width = pooled[1];
  }
  if (height < 0 || width < 0)
    return Invalid(fmt::format("found an output of {} x {}", height, width));
  if (x && rois) c.Out(0, {(*rois)[0], (*x)[1], height, width});
  return {};
}

Status GridSampleRule(Context& c) {
  const Extents* x = c.In(0);     // [N, C, spatial...]
  const Extents* grid = c.In(1);  // [N, out spatial..., rank]
  WEFT_TRY(c.MinRank(0, 3));
  if (!x || !grid) return {};
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(x->size())));
  WEFT_TRY(c.Same(grid->back(), static_cast<int64_t>(x->size() - 2),
                  "the grid's last axis and the spatial rank"));
  Extents out = {(*x)[0], (*x)[1]};
  out.insert(out.end(), grid->begin() + 1, grid->end() - 1);
  c.Out(0, std::move(out));
  return {};
}

}  // namespace weft::graph::infer
