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

}  // namespace weft::graph::infer
