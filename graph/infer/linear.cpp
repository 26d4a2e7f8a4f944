#include <fmt/format.h>

#include <array>

#include "graph/infer/engine.h"

namespace weft::graph::infer {

// NumPy's matmul: vectors gain an axis and lose it again, the axes before the last two broadcast.
Status MatMulRule(Context& c) {
  const size_t second = c.node.op == Op::kQLinearMatMul ? 3 : 1;
  WEFT_TRY(c.MinRank(0, 1));
  WEFT_TRY(c.MinRank(second, 1));
  const Extents* a = c.In(0);
  const Extents* b = c.In(second);
  if (!a || !b) return {};
  const Extent inner_a = a->back(), inner_b = b->size() == 1 ? (*b)[0] : (*b)[b->size() - 2];
  WEFT_TRY(c.Same(inner_a, inner_b,
                  fmt::format("the inner extents of {} and {}", c.Text(*a), c.Text(*b))));
  const Extents batch_a(a->begin(),
                        a->end() - static_cast<int64_t>(std::min<size_t>(a->size(), 2)));
  const Extents batch_b(b->begin(),
                        b->end() - static_cast<int64_t>(std::min<size_t>(b->size(), 2)));
  WEFT_TRY(Extents out, c.Broadcast(batch_a, batch_b));
  if (a->size() > 1) out.push_back((*a)[a->size() - 2]);
  if (b->size() > 1) out.push_back(b->back());
  c.Out(0, std::move(out));
  return {};
}

// x [.., m, k], weights [k, n], their scales and zero points [ceil(k / block_size), n].
Status DequantizeMatMulRule(Context& c) {
  // No operator of ONNX, so no schema has looked.
  const size_t inputs = c.node.inputs.size();
  if (inputs < 3 || inputs > 4 || !c.Has(0) || !c.Has(1) || !c.Has(2) || c.node.outputs.size() != 1)
    return Invalid(fmt::format("found {} inputs and {} outputs, expected 3 or 4 and 1", inputs,
                               c.node.outputs.size()));
  c.OutType(0, Dtype::kF32);
  const auto is = [&](size_t i, Dtype dtype) { return c.Type(i).value_or(dtype) == dtype; };
  const Dtype weights = c.Type(1).value_or(Dtype::kI8);
  const bool small = weights == Dtype::kI4 || weights == Dtype::kI8;
  if (!is(0, Dtype::kF32) || !is(2, Dtype::kF32) || !small || (c.Has(3) && !is(3, weights)))
    return Invalid(
        "expected f32, weights that are i4 or i8, scales that are f32, zeros as weights");
  const int64_t block = c.Int("block_size", 0);
  if (block < 1 || block > INT32_MAX)
    return Invalid(fmt::format("block_size is {}, expected 1 to {}", block, INT32_MAX));
  WEFT_TRY(c.MinRank(0, 1));
  for (size_t i = 1; i < 4; ++i) WEFT_TRY(c.Rank(i, 2));
  const Extents* x = c.In(0);
  const Extents* w = c.In(1);
  if (!x || !w) return {};
  WEFT_TRY(c.Same(x->back(), (*w)[0],
                  fmt::format("the inner extents of {} and {}", c.Text(*x), c.Text(*w))));
  for (size_t i = 2; i < 4; ++i) {
    const Extents* by_block = c.In(i);
    if (!by_block) continue;
    if ((*w)[0].IsConstant())
      WEFT_TRY(c.Same((*by_block)[0], Extent(CeilDiv(Affine((*w)[0].value()), block).constant()),
                      fmt::format("the blocks of input {}", i)));
    WEFT_TRY(c.Same((*by_block)[1], (*w)[1], fmt::format("the columns of input {}", i)));
  }
  Extents out = *x;
  out.back() = (*w)[1];
  c.Out(0, std::move(out));
  return {};
}

Status GemmRule(Context& c) {
  WEFT_TRY(c.Rank(0, 2));
  WEFT_TRY(c.Rank(1, 2));
  const Extents* a = c.In(0);
  const Extents* b = c.In(1);
  if (!a || !b) return {};
  const bool ta = c.Int("transA", 0) != 0, tb = c.Int("transB", 0) != 0;
  WEFT_TRY(c.Same((*a)[ta ? 0 : 1], (*b)[tb ? 1 : 0],
                  fmt::format("the inner extents of {} and {}", c.Text(*a), c.Text(*b))));
  Extents out = {(*a)[ta ? 1 : 0], (*b)[tb ? 0 : 1]};
  if (const Extents* bias = c.In(2)) {
    if (bias->size() > 2)
      return Invalid(
          fmt::format("input 2 has the shape {}, expected rank 2 or less", c.Text(*bias)));
    for (size_t i = 0; i < bias->size(); ++i) {  // to the output's shape, not the other way
      const Extent have = (*bias)[bias->size() - 1 - i], want = out[1 - i];
      if (have == Extent(1)) continue;
      WEFT_TRY(c.Same(have, want,
                      fmt::format("input 2, {}, and the output, {}", c.Text(*bias), c.Text(out))));
    }
  }
  c.Out(0, std::move(out));
  return {};
}

// [batch, heads, length, size], or [batch, length, heads * size] with the numbers of heads as
// attributes.
Status AttentionRule(Context& c) {
  const Extents* q = c.In(0);
  const Extents* k = c.In(1);
  const Extents* v = c.In(2);
  for (size_t i = 0; i < 3; ++i) {
    const Extents* in = c.In(i);
    if (in && in->size() != 3 && in->size() != 4)
      return Invalid(
          fmt::format("input {} has the shape {}, expected rank 3 or 4", i, c.Text(*in)));
  }
  if (!q || !k || !v) return {};
  if (q->size() != k->size() || k->size() != v->size())
    return Invalid("the query, the key and the value differ in rank");
  const bool packed = q->size() == 3;
  const int64_t q_heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
  if (packed && (q_heads < 1 || kv_heads < 1))
    return Invalid("rank 3 needs the attributes \"q_num_heads\" and \"kv_num_heads\"");
  auto size_of = [&](Extent all, int64_t heads) -> Result<Extent> {
    if (all.IsConstant() && all.value() % heads != 0)
      return Invalid(fmt::format("{} does not divide into {} heads", all.value(), heads));
    return c.ToExtent(FloorDiv(c.Meaning(all), heads), "the size of a head");
  };
  const Extent batch = (*q)[0], q_len = (*q)[packed ? 1 : 2], kv_len = (*k)[packed ? 1 : 2];
  Extent heads = (*q)[1], k_heads = (*k)[1], k_size = (*k)[k->size() - 1], v_size = v->back();
  if (packed) {
    heads = q_heads;
    k_heads = kv_heads;
    WEFT_TRY(const Extent q_size, size_of((*q)[2], q_heads));
    WEFT_TRY(k_size, size_of((*k)[2], kv_heads));
    WEFT_TRY(v_size, size_of((*v)[2], kv_heads));
    WEFT_TRY(c.Same(q_size, k_size, "the sizes of query and key"));
  } else {
    WEFT_TRY(c.Same((*q)[3], k_size, "the sizes of query and key"));
  }
  WEFT_TRY(c.Same(batch, (*k)[0], "the batches of query and key"));
  WEFT_TRY(c.Same(kv_len, (*v)[packed ? 1 : 2], "the lengths of key and value"));
  Extent total = kv_len;
  if (const Extents* past = c.In(4); past && past->size() == 4) {
    const auto sum = Plus(c.Meaning((*past)[2]), c.Meaning(kv_len));
    if (!sum) return Limit("the key is too long");
    WEFT_TRY(total, c.ToExtent(*sum, "the length of past and present"));
  }
  if (packed) {
    const std::array<Extent, 2> sizes = {heads, v_size};
    c.Out(0, {batch, q_len, c.Product(sizes)});
  } else {
    c.Out(0, {batch, heads, q_len, v_size});
  }
  c.Out(1, {batch, k_heads, total, k_size});
  c.Out(2, {batch, k_heads, total, v_size});
  c.Out(3, {batch, heads, q_len, total});
  return {};
}

Status RotaryRule(Context& c) {
  const Extents* x = c.In(0);
  if (x && x->size() != 3 && x->size() != 4)
    return Invalid(fmt::format("input 0 has the shape {}, expected rank 3 or 4", c.Text(*x)));
  if (x && x->size() == 3 && c.Int("num_heads", 0) < 1)
    return Invalid("rank 3 needs the attribute \"num_heads\"");
  if (x) c.Out(0, *x);
  return {};
}

Status DetRule(Context& c) {
  WEFT_TRY(c.MinRank(0, 2));
  if (const Extents* x = c.In(0)) {
    WEFT_TRY(c.Same(x->back(), (*x)[x->size() - 2], "the last two extents"));
    c.Out(0, Extents(x->begin(), x->end() - 2));
  }
  return {};
}

}  // namespace weft::graph::infer
