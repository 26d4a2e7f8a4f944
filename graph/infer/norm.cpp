#include <fmt/format.h>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

// Inputs first..last are vectors over the channels of input 0; a vector has one channel.
Status ChannelVectors(Context& c, size_t first, size_t last) {
  const Extents* x = c.In(0);
  for (size_t i = first; i <= last; ++i) {
    WEFT_TRY(c.Rank(i, 1));
    const Extents* v = c.In(i);
    const Extent channels = x && x->size() > 1 ? (*x)[1] : Extent(1);
    if (x && v) WEFT_TRY(c.Same(channels, (*v)[0], fmt::format("the channels and input {}", i)));
  }
  return {};
}

}  // namespace

Status BatchNormRule(Context& c) {
  const Extents* x = c.In(0);  // [N, C, ...], or [N]
  WEFT_TRY(c.MinRank(0, 1));
  if (x) WEFT_TRY(ChannelVectors(c, 1, 4));
  if (x) c.Out(0, *x);
  for (size_t i = 1; i < 3; ++i) {
    if (const Extents* running = c.In(i + 2)) c.Out(i, *running);
  }
  return {};
}

// InstanceNormalization, GroupNormalization, LRN, LpNormalization, MeanVarianceNormalization
Status NormRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  if (c.node.op == Op::kInstanceNormalization || c.node.op == Op::kGroupNormalization) {
    WEFT_TRY(c.MinRank(0, c.node.op == Op::kGroupNormalization ? 2 : 3));
    WEFT_TRY(ChannelVectors(c, 1, 2));
  }
  if (c.node.op == Op::kGroupNormalization) {
    const int64_t groups = c.Int("num_groups", 0);
    const Extent channels = (*x)[1];
    if (groups < 1 || (channels.IsConstant() && channels.value() % groups != 0)) {
      return Invalid(
          fmt::format("{} channels do not divide into {} groups", c.Text(channels), groups));
    }
  }
  if (c.node.op == Op::kLRN) {
    WEFT_TRY(c.MinRank(0, 2));
    if (c.Int("size", 1) < 1)
      return Invalid(fmt::format("attribute \"size\" is {}, expected 1 or more", c.Int("size", 1)));
  }
  if (c.node.op == Op::kLpNormalization) {
    WEFT_TRY(c.Axis(c.Int("axis", -1), static_cast<int64_t>(x->size())));
    if (const int64_t p = c.Int("p", 2); p != 1 && p != 2)
      return Invalid(fmt::format("attribute \"p\" is {}, expected 1 or 2", p));
  }
  if (c.node.op == Op::kMeanVarianceNormalization) {
    WEFT_TRY(c.Axes(IntsAttr(c.node, "axes"), static_cast<int64_t>(x->size())));
  }
  c.Out(0, *x);
  return {};
}

// LayerNormalization (three outputs), RMSNormalization
Status LayerNormRule(Context& c) {
  const Extents* x = c.In(0);
  c.OutType(1, Dtype::kF32);
  c.OutType(2, Dtype::kF32);
  if (!x) return {};
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", -1), static_cast<int64_t>(x->size())));
  for (size_t i = 1; i < 3; ++i) {  // the scale and the bias broadcast to the normalized axes
    const Extents* v = c.In(i);
    if (!v) continue;
    if (v->size() > x->size())
      return Invalid(
          fmt::format("input {} has the shape {}, more axes than {}", i, c.Text(*v), c.Text(*x)));
    for (size_t k = 0; k < v->size(); ++k) {
      WEFT_TRY(c.BroadcastsTo((*v)[k], (*x)[x->size() - v->size() + k],
                              fmt::format("input {} and input 0", i)));
    }
  }
  Extents reduced = *x;
  for (size_t i = static_cast<size_t>(axis); i < reduced.size(); ++i) reduced[i] = Extent(1);
  c.Out(0, *x);
  c.Out(1, reduced);
  c.Out(2, std::move(reduced));
  return {};
}

Status SoftmaxRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  if (!x->empty()) WEFT_TRY(c.Axis(c.Int("axis", -1), static_cast<int64_t>(x->size())));
  c.Out(0, *x);
  return {};
}

}  // namespace weft::graph::infer
