// Attention, and what goes with it in models of sequences.
#include <fmt/format.h>

#include <array>

#include "graph/infer/engine.h"

namespace weft::graph::infer {
namespace {

Status Between(Context& c, std::string_view attribute, int64_t otherwise, int64_t low,
               int64_t high) {
  const int64_t found = c.Int(attribute, otherwise);
  if (found >= low && found <= high) return {};
  return Invalid(
      fmt::format("attribute \"{}\" is {}, expected {} to {}", attribute, found, low, high));
}

// Queries share keys in groups of the same size.
Status CheckHeads(Extent queries, Extent keys) {
  if (!queries.IsConstant() || !keys.IsConstant()) return {};
  if (keys.value() > 0 && queries.value() % keys.value() == 0) return {};
  return Invalid(fmt::format("{} heads of queries do not divide into groups for {} heads of keys",
                             queries.value(), keys.value()));
}

Result<Extent> HeadSize(Context& c, Extent all, int64_t heads) {
  if (all.IsConstant() && all.value() % heads != 0)
    return Invalid(fmt::format("{} does not divide into {} heads", all.value(), heads));
  return c.ToExtent(FloorDiv(c.Meaning(all), heads), "the size of a head");
}

Status SameShape(Context& c, size_t input, const Extents& expected) {
  const Extents* found = c.In(input);
  if (!found) return {};
  WEFT_TRY(c.Rank(input, static_cast<int64_t>(expected.size())));
  for (size_t i = 0; i < expected.size(); ++i)
    WEFT_TRY(c.Same((*found)[i], expected[i], fmt::format("axis {} of input {}", i, input)));
  return {};
}

// The sizes of an Attention, whether its operands are [batch, heads, length, size] or [batch,
// length, heads * size] with the numbers of heads as attributes.
struct Sizes {
  Extent batch, heads, kv_heads, queries, keys, size, value_size;
  Extent past = 0, total = 0;
  bool packed = false;
};

Result<Sizes> SizesOf(Context& c, const Extents& q, const Extents& k, const Extents& v) {
  if (q.size() != k.size() || k.size() != v.size())
    return Invalid("the query, the key and the value differ in rank");
  Sizes s;
  s.packed = q.size() == 3;
  s.batch = q[0];
  s.queries = q[s.packed ? 1 : 2];
  s.keys = k[s.packed ? 1 : 2];
  Extent key_size = k.back();
  if (s.packed) {
    const int64_t heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
    if (heads < 1 || kv_heads < 1)
      return Invalid("rank 3 needs the attributes \"q_num_heads\" and \"kv_num_heads\"");
    s.heads = heads;
    s.kv_heads = kv_heads;
    WEFT_TRY(s.size, HeadSize(c, q[2], heads));
    WEFT_TRY(key_size, HeadSize(c, k[2], kv_heads));
    WEFT_TRY(s.value_size, HeadSize(c, v[2], kv_heads));
  } else {
    s.heads = q[1];
    s.kv_heads = k[1];
    s.size = q[3];
    s.value_size = v[3];
    WEFT_TRY(c.Same(s.kv_heads, v[1], "the heads of key and value"));
  }
  WEFT_TRY(CheckHeads(s.heads, s.kv_heads));
  WEFT_TRY(c.Same(s.size, key_size, "the sizes of query and key"));
  WEFT_TRY(c.Same(s.batch, k[0], "the batches of query and key"));
  WEFT_TRY(c.Same(s.batch, v[0], "the batches of query and value"));
  WEFT_TRY(c.Same(s.keys, v[s.packed ? 1 : 2], "the lengths of key and value"));
  s.total = s.keys;
  if (const Extents* past = c.In(4)) {
    WEFT_TRY(c.Rank(4, 4));
    s.past = (*past)[2];
    const auto sum = Plus(c.Meaning(s.past), c.Meaning(s.keys));
    if (!sum) return Limit("the key is too long");
    WEFT_TRY(s.total, c.ToExtent(*sum, "the length of past and present"));
    WEFT_TRY(SameShape(c, 4, {s.batch, s.kv_heads, s.past, s.size}));
    WEFT_TRY(SameShape(c, 5, {s.batch, s.kv_heads, s.past, s.value_size}));
  }
  return s;
}

// The mask broadcasts to [batch, heads, queries, total]; its last axis may end before that.
Status CheckMask(Context& c, const Sizes& s) {
  const Extents* mask = c.In(3);
  if (!mask) return {};
  const std::array<Extent, 4> full = {s.batch, s.heads, s.queries, s.total};
  if (mask->empty() || mask->size() > 4)
    return Invalid(fmt::format("input 3 has the shape {}, expected rank 1 to 4", c.Text(*mask)));
  for (size_t i = 0; i + 1 < mask->size(); ++i) {
    WEFT_TRY(c.BroadcastsTo((*mask)[i], full[4 - mask->size() + i], "the mask and the scores"));
  }
  const Extent last = mask->back();
  if (last.IsConstant() && s.total.IsConstant() && last.value() > s.total.value())
    return Invalid(
        fmt::format("the mask covers {} keys, there are {}", last.value(), s.total.value()));
  return {};
}

}  // namespace

Status AttentionRule(Context& c) {
  constexpr int64_t kWidest = int64_t{1} << 30;
  WEFT_TRY(Between(c, "left_window_size", -1, -1, kWidest));
  WEFT_TRY(Between(c, "right_window_size", -1, -1, kWidest));
  WEFT_TRY(Between(c, "qk_matmul_output_mode", 0, 0, 3));
  if (c.Has(4) != c.Has(5)) return Invalid("past keys and past values only come together");
  if (c.Has(4) && c.Has(6))
    return Invalid("lengths (nonpad_kv_seqlen) do not go with past keys and values");
  for (size_t i = 0; i < 3; ++i) {
    const Extents* in = c.In(i);
    if (in && in->size() != 3 && in->size() != 4)
      return Invalid(
          fmt::format("input {} has the shape {}, expected rank 3 or 4", i, c.Text(*in)));
  }
  const Extents* q = c.In(0);
  const Extents* k = c.In(1);
  const Extents* v = c.In(2);
  if (!q || !k || !v || (c.Has(4) && !c.In(4))) return {};
  WEFT_TRY(const Sizes s, SizesOf(c, *q, *k, *v));
  WEFT_TRY(CheckMask(c, s));
  WEFT_TRY(SameShape(c, 6, {s.batch}));
  if (s.packed) {
    const std::array<Extent, 2> sizes = {s.heads, s.value_size};
    c.Out(0, {s.batch, s.queries, c.Product(sizes)});
  } else {
    c.Out(0, {s.batch, s.heads, s.queries, s.value_size});
  }
  c.Out(1, {s.batch, s.kv_heads, s.total, s.size});
  c.Out(2, {s.batch, s.kv_heads, s.total, s.value_size});
  c.Out(3, {s.batch, s.heads, s.queries, s.total});
  return {};
}

Status RotaryRule(Context& c) {
  const Extents* x = c.In(0);
  if (!x) return {};
  if (x->size() != 3 && x->size() != 4)
    return Invalid(fmt::format("input 0 has the shape {}, expected rank 3 or 4", c.Text(*x)));
  const bool packed = x->size() == 3;
  const int64_t heads = c.Int("num_heads", 0);
  if (packed && heads < 1) return Invalid("rank 3 needs the attribute \"num_heads\"");
  Extent size = x->back();
  if (packed) {
    WEFT_TRY(size, HeadSize(c, size, heads));
  }
  const int64_t turned = c.Int("rotary_embedding_dim", 0);
  const int64_t most = size.IsConstant() ? size.value() : INT32_MAX;
  if (turned < 0 || turned > most || turned % 2 != 0)
    return Invalid(
        fmt::format("attribute \"rotary_embedding_dim\" is {}, expected an even number up to {}",
                    turned, most));
  if (turned == 0 && size.IsConstant() && size.value() % 2 != 0)
    return Invalid(fmt::format("a head has {} numbers, expected pairs", size.value()));
  const Extent batch = (*x)[0], length = (*x)[packed ? 1 : 2];
  for (size_t i = 1; i < 3; ++i) {
    const Extents* table = c.In(i);
    WEFT_TRY(c.Rank(i, c.Has(3) ? 2 : 3));
    if (!table) continue;
    if (!c.Has(3)) {
      WEFT_TRY(c.Same((*table)[0], batch, fmt::format("the batches of inputs 0 and {}", i)));
      WEFT_TRY(c.Same((*table)[1], length, fmt::format("the lengths of inputs 0 and {}", i)));
    }
    if (turned > 0)
      WEFT_TRY(c.Same(table->back(), turned / 2, fmt::format("the angles of input {}", i)));
    else if (size.IsConstant())
      WEFT_TRY(c.Same(table->back(), size.value() / 2, fmt::format("the angles of input {}", i)));
  }
  WEFT_TRY(SameShape(c, 3, {batch, length}));
  c.Out(0, *x);
  return {};
}

Status TensorScatterRule(Context& c) {
  WEFT_TRY(c.OneOf("mode", "linear", {"linear", "circular"}));
  const Extents* past = c.In(0);
  const Extents* update = c.In(1);
  if (!past) return {};
  WEFT_TRY(c.MinRank(0, 2));
  const auto rank = static_cast<int64_t>(past->size());
  WEFT_TRY(const int64_t axis, c.Axis(c.Int("axis", -2), rank));
  if (axis == 0) return Invalid("attribute \"axis\" is the batch, expected another axis");
  WEFT_TRY(c.Rank(1, rank));
  for (size_t i = 0; update && i < past->size(); ++i) {
    const Extent room = (*past)[i], steps = (*update)[i];
    if (static_cast<int64_t>(i) != axis)
      WEFT_TRY(c.Same(room, steps, fmt::format("axis {} of cache and update", i)));
    else if (room.IsConstant() && steps.IsConstant() && steps.value() > room.value())
      return Invalid(fmt::format("{} steps do not fit a cache of {}", steps.value(), room.value()));
  }
  WEFT_TRY(SameShape(c, 2, {(*past)[0]}));
  c.Out(0, *past);
  return {};
}

Status CausalConvRule(Context& c) {
  WEFT_TRY(c.OneOf("activation", "none", {"none", "silu", "swish"}));
  const Extents* x = c.In(0);       // [batch, channels, length]
  const Extents* filter = c.In(1);  // [channels, 1, taps]
  WEFT_TRY(c.Rank(0, 3));
  WEFT_TRY(c.Rank(1, 3));
  if (!x || !filter) return {};
  WEFT_TRY(c.Same((*filter)[0], (*x)[1], "the filters and the channels"));
  WEFT_TRY(c.Same((*filter)[1], 1, "the channels of a filter"));
  WEFT_TRY(SameShape(c, 2, {(*x)[1]}));
  WEFT_TRY(const Extent kept, c.ToExtent(c.Meaning((*filter)[2]) + -1, "the taps before the last"));
  const Extents state = {(*x)[0], (*x)[1], kept};
  WEFT_TRY(SameShape(c, 3, state));
  c.Out(0, *x);
  c.Out(1, state);
  return {};
}

Status LinearAttentionRule(Context& c) {
  WEFT_TRY(c.OneOf("update_rule", "gated_delta", {"linear", "gated", "delta", "gated_delta"}));
  const std::string rule = StringAttr(c.node, "update_rule", "gated_delta");
  if (c.Has(4) != rule.starts_with("gated"))
    return Invalid(fmt::format("the rule \"{}\" {} a decay", rule, c.Has(4) ? "has no" : "needs"));
  if (c.Has(5) != rule.ends_with("delta"))
    return Invalid(fmt::format("the rule \"{}\" {} a beta", rule, c.Has(5) ? "has no" : "needs"));
  const int64_t heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1)
    return Invalid("attributes \"q_num_heads\" and \"kv_num_heads\" are to be 1 or more");
  WEFT_TRY(CheckHeads(heads, kv_heads));
  for (size_t i : {0, 1, 2, 4, 5}) WEFT_TRY(c.Rank(i, 3));
  const Extents* q = c.In(0);
  const Extents* k = c.In(1);
  const Extents* v = c.In(2);
  // No past state says its type: it is that of the query then.
  if (const auto dtype = c.Type(c.Has(3) ? 3 : 0)) c.OutType(1, *dtype);
  if (!q || !k || !v) return {};
  const Extent batch = (*q)[0], steps = (*q)[1];
  WEFT_TRY(const Extent size, HeadSize(c, (*q)[2], heads));
  WEFT_TRY(const Extent key_size, HeadSize(c, (*k)[2], kv_heads));
  WEFT_TRY(const Extent value_size, HeadSize(c, (*v)[2], kv_heads));
  WEFT_TRY(c.Same(size, key_size, "the sizes of query and key"));
  for (size_t i : {1, 2, 4, 5}) {
    const Extents* x = c.In(i);
    if (!x) continue;
    WEFT_TRY(c.Same((*x)[0], batch, fmt::format("the batches of inputs 0 and {}", i)));
    WEFT_TRY(c.Same((*x)[1], steps, fmt::format("the lengths of inputs 0 and {}", i)));
  }
  if (const Extents* decay = c.In(4); decay && decay->back() != Extent(kv_heads))
    WEFT_TRY(c.Same(decay->back(), (*k)[2], "the decays and the keys"));
  if (const Extents* beta = c.In(5); beta && beta->back() != Extent(1))
    WEFT_TRY(c.Same(beta->back(), kv_heads, "the betas and the heads of keys"));
  const Extents state = {batch, kv_heads, size, value_size};
  WEFT_TRY(SameShape(c, 3, state));
  const std::array<Extent, 2> sizes = {heads, value_size};
  c.Out(0, {batch, steps, c.Product(sizes)});
  c.Out(1, state);
  return {};
}

}  // namespace weft::graph::infer
