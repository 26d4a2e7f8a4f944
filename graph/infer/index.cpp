#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// Constant indices lie in -extent to extent - 1; the others are checked when the network runs.
Status CheckIndices(Context& c, size_t input, Extent extent) {
  if (!extent.IsConstant()) return {};
  const auto indices = c.IntsIfKnown(input);
  if (!indices) return {};
  for (int64_t index : *indices) {
    if (index < -extent.value() || index >= extent.value()) {
      return Invalid(fmt::format("found index {}, expected {} to {}", index, -extent.value(),
                                 extent.value() - 1));
    }
  }
  return {};
}

}  // namespace

Status GatherRule(Context& c) {
  const Extents* x = c.In(0);
  const Extents* indices = c.In(1);
  if (!x || !indices) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
  WEFT_TRY(CheckIndices(c, 1, (*x)[static_cast<size_t>(axis)]));
  Extents out(x->begin(), x->begin() + axis);
  out.insert(out.end(), indices->begin(), indices->end());
  out.insert(out.end(), x->begin() + axis + 1, x->end());
  c.Out(0, std::move(out));
  return {};
}

Status GatherElementsRule(Context& c) {
  const Extents* x = c.In(0);
  const Extents* indices = c.In(1);
  if (!x || !indices) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
  WEFT_TRY(c.Rank(1, static_cast<int64_t>(x->size())));
  WEFT_TRY(CheckIndices(c, 1, (*x)[static_cast<size_t>(axis)]));
  c.Out(0, *indices);
  return {};
}

Status GatherNDRule(Context& c) {
  const Extents* x = c.In(0);
  const Extents* indices = c.In(1);
  if (!x || !indices) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(c.MinRank(1, 1));
  const int64_t batch = c.Int("batch_dims", 0);
  const auto rank = static_cast<int64_t>(x->size());
  if (batch < 0 || batch >= rank || batch >= static_cast<int64_t>(indices->size())) {
    return Invalid(fmt::format("attribute \"batch_dims\" is {} for ranks {} and {}", batch, rank,
                               indices->size()));
  }
  if (!indices->back().IsConstant()) return {};
  const int64_t tuple = indices->back().value();
  if (tuple < 1 || batch + tuple > rank)
    return Invalid(fmt::format("indices of {} numbers do not fit {}", tuple, c.Text(*x)));
  for (int64_t i = 0; i < batch; ++i) {
    WEFT_TRY(
        c.Same((*x)[static_cast<size_t>(i)], (*indices)[static_cast<size_t>(i)], "the batch axes"));
  }
  Extents out(indices->begin(), indices->end() - 1);
  out.insert(out.end(), x->begin() + batch + tuple, x->end());
  c.Out(0, std::move(out));
  return {};
}

Status ScatterElementsRule(Context& c) {
  WEFT_TRY(c.OneOf("reduction", "none", {"none", "add", "mul", "max", "min"}));
  const Extents* x = c.In(0);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  const auto rank = static_cast<int64_t>(x->size());
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  WEFT_TRY(c.Rank(1, rank));
  WEFT_TRY(c.Rank(2, rank));
  const Extents* indices = c.In(1);
  const Extents* updates = c.In(2);
  for (size_t i = 0; indices && updates && i < x->size(); ++i) {
    WEFT_TRY(c.Same((*indices)[i], (*updates)[i], "the indices and the updates"));
  }
  WEFT_TRY(CheckIndices(c, 1, (*x)[static_cast<size_t>(axis)]));
  c.Out(0, *x);
  return {};
}

Status ScatterNDRule(Context& c) {
  WEFT_TRY(c.OneOf("reduction", "none", {"none", "add", "mul", "max", "min"}));
  const Extents* x = c.In(0);
  const Extents* indices = c.In(1);
  const Extents* updates = c.In(2);
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(c.MinRank(1, 1));
  c.Out(0, *x);
  if (!indices || !indices->back().IsConstant()) return {};
  const int64_t tuple = indices->back().value();
  if (tuple < 0 || tuple > static_cast<int64_t>(x->size()))
    return Invalid(fmt::format("indices of {} numbers do not fit {}", tuple, c.Text(*x)));
  Extents wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), x->begin() + tuple, x->end());
  WEFT_TRY(c.Rank(2, static_cast<int64_t>(wanted.size())));
  for (size_t i = 0; updates && i < wanted.size(); ++i)
    WEFT_TRY(c.Same(wanted[i], (*updates)[i], "the updates and what the indices select"));
  return {};
}

Status NonZeroRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  const auto rank = static_cast<int64_t>(x->size());
  c.Out(0, {rank == 0 ? 1 : rank, c.Fresh("nonzero", 0, c.Range(c.Product(*x)).hi)});
  return {};
}

Status CompressRule(Context& c) {
  const Extents* x = c.In(0);
  WEFT_TRY(c.Rank(1, 1));
  if (!x) return {};
  WEFT_TRY(c.MinRank(0, 1));
  const Facts* chosen = c.FactsIn(1);
  const auto kept = [&](Extent from) {
    const bool known =
        chosen && from.IsConstant() && std::ranges::all_of(*chosen, &Elem::IsConstant);
    if (!known) return c.Fresh("compressed", 0, c.Range(from).hi);
    const auto end = chosen->begin() + std::min(from.value(), static_cast<int64_t>(chosen->size()));
    return Extent(
        std::count_if(chosen->begin(), end, [](const Elem& e) { return e.AsDouble() != 0; }));
  };
  if (!FindAttribute(c.node, "axis")) {
    c.Out(0, {kept(c.Product(*x))});
    return {};
  }
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
  Extents out = *x;
  Extent& extent = out[static_cast<size_t>(axis)];
  extent = kept(extent);
  c.Out(0, std::move(out));
  return {};
}

Status NmsRule(Context& c) {
  WEFT_TRY(c.Rank(0, 3));  // boxes [batches, boxes, 4]
  WEFT_TRY(c.Rank(1, 3));  // scores [batches, classes, boxes]
  if (const Extents* boxes = c.In(0)) WEFT_TRY(c.Same((*boxes)[2], 4, "the numbers of a box"));
  const Extents* scores = c.In(1);
  c.Out(0, {c.Fresh("selected", 0, scores ? c.Range(c.Product(*scores)).hi : INT32_MAX), 3});
  return {};
}

Status UniqueRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  for (size_t i = 1; i < 4; ++i) c.OutType(i, Dtype::kI64);
  const bool flat = !FindAttribute(c.node, "axis");
  Extents out = *x;
  Extent count;
  if (flat) {
    count = c.Fresh("unique", 0, c.Range(c.Product(*x)).hi);
    out = {count};
    c.Out(2, {c.Product(*x)});
  } else {
    WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", 0), static_cast<int64_t>(x->size())));
    count = c.Fresh("unique", 0, c.Range((*x)[static_cast<size_t>(axis)]).hi);
    c.Out(2, {(*x)[static_cast<size_t>(axis)]});
    out[static_cast<size_t>(axis)] = count;
  }
  c.Out(0, std::move(out));
  c.Out(1, {count});
  c.Out(3, {count});
  return {};
}

Status TriluRule(Context& c) {
  WEFT_TRY(c.MinRank(0, 2));
  if (const Extents* x = c.In(0)) c.Out(0, *x);
  return {};
}

}  // namespace weft::graph::infer
