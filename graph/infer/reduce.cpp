#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {

namespace {

// Axes that come at run time: their number may still tell the rank.
Status UnknownAxes(Context& c, const Extents& x, bool keep) {
  const Extents* count = c.In(1);
  const bool counted = count && (*count)[0].IsConstant();
  if (!keep && !counted) return {};
  const int64_t gone = keep ? 0 : (*count)[0].value();
  if (counted && gone == 0 && !keep && c.Int("noop_with_empty_axes", 0) == 0) {
    c.Out(0, {});  // no axes are all axes
    return {};
  }
  const auto rank = static_cast<int64_t>(x.size());
  if (gone > rank) return Invalid(fmt::format("found {} axes for rank {}", gone, rank));
  Extents out;
  for (int64_t i = 0; i < rank - gone; ++i) {
    const Interval range = c.Range(x[static_cast<size_t>(i)]);
    out.push_back(
        keep ? c.Fresh("reduced", std::min<int64_t>(range.lo, 1), std::max<int64_t>(range.hi, 1))
             : c.Fresh("reduced"));
  }
  c.Out(0, std::move(out));
  return {};
}

}  // namespace

Status ReduceRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  const bool keep = c.Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (c.Has(1)) {
    WEFT_TRY(c.Rank(1, 1));
    const auto given = c.Ints(1);
    if (!given) return UnknownAxes(c, *x, keep);
    WEFT_TRY(axes, c.Axes(*given, rank));
  }
  if (axes.empty() && c.Int("noop_with_empty_axes", 0) == 0) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  Extents out;
  for (int64_t i = 0; i < rank; ++i) {
    const bool reduced = std::ranges::find(axes, i) != axes.end();
    if (!reduced) out.push_back((*x)[static_cast<size_t>(i)]);
    if (reduced && keep) out.emplace_back(1);
  }
  c.Out(0, std::move(out));
  return {};
}

Status ArgReduceRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
  Extents out = *x;
  if (out[static_cast<size_t>(axis)] == Extent(0))
    return Invalid(fmt::format("axis {} has no elements", axis));
  if (c.Int("keepdims", 1) != 0) {
    out[static_cast<size_t>(axis)] = Extent(1);
  } else {
    out.erase(out.begin() + axis);
  }
  c.Out(0, std::move(out));
  return {};
}

Status TopKRule(Context& c) {
  const Extents* x = c.In(0);
  c.OutType(1, Dtype::kI64);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", -1), static_cast<int64_t>(x->size())));
  const Extent in = (*x)[static_cast<size_t>(axis)];
  const Facts* k = c.FactsIn(1);
  if (k && k->size() != 1)
    return Invalid(fmt::format("input 1 has {} elements, expected 1", k->size()));
  Extents out = *x;
  if (k && (*k)[0].kind == Elem::kInteger) {
    WEFT_TRY(const Extent count, c.ToExtent((*k)[0].integer, "k"));
    if (count.IsConstant() && in.IsConstant() && count.value() > in.value()) {
      return Invalid(fmt::format("k is {}, but axis {} has {}", count.value(), axis, in.value()));
    }
    out[static_cast<size_t>(axis)] = count;
  } else {
    out[static_cast<size_t>(axis)] = c.Fresh("topk", 0, c.Range(in).hi);
  }
  c.Out(0, out);
  c.Out(1, std::move(out));
  return {};
}

Status CumSumRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  if (const auto axis = c.Ints(1)) {
    if (axis->size() != 1)
      return Invalid(fmt::format("input 1 has {} elements, expected 1", axis->size()));
    WEFT_TRY(c.Axis((*axis)[0], static_cast<int64_t>(x->size())));
  }
  c.Out(0, *x);
  return {};
}

}  // namespace weft::graph::infer
