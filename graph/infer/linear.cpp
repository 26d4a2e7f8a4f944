#include <fmt/format.h>

#include <algorithm>

#include "graph/infer/engine.h"

namespace weft::graph::infer {

namespace {

// Input i, a scale or a zero point of a factor of which axis `summed` is summed over: one number,
// one for each of its lines along that axis, or one for each line of each matrix of a batch.
Status OfLines(Context& c, size_t i, const Extents& factor, size_t summed) {
  const Extents* given = c.In(i);
  if (!given) return {};
  Extents lines = factor;
  lines[summed] = Extent(1);
  if (given->size() == 1 && factor.size() > 1)
    lines = {factor[summed + 1 == factor.size() ? summed - 1 : summed + 1]};
  const auto fits = [](const Extent& found, const Extent& line) {
    return !found.IsConstant() || !line.IsConstant() || found.value() == 1 ||
           found.value() == line.value();
  };
  if (given->empty() || (given->size() == lines.size() && std::ranges::equal(*given, lines, fits)))
    return {};
  return Invalid(fmt::format("input {}: found {}, expected one number or {}", i, c.Text(*given),
                             c.Text(lines)));
}

// Of both factors, and of the result, which has one each.
Status QuantizedLines(Context& c, const Extents& a, const Extents& b) {
  const size_t summed_a = a.size() - 1, summed_b = b.size() < 2 ? 0 : b.size() - 2;
  if (c.node.op == Op::kMatMulInteger) {
    WEFT_TRY(OfLines(c, 2, a, summed_a));
    return OfLines(c, 3, b, summed_b);
  }
  WEFT_TRY(OfLines(c, 1, a, summed_a));
  WEFT_TRY(OfLines(c, 2, a, summed_a));
  WEFT_TRY(OfLines(c, 4, b, summed_b));
  WEFT_TRY(OfLines(c, 5, b, summed_b));
  WEFT_TRY(OfLines(c, 6, {Extent(1)}, 0));
  return OfLines(c, 7, {Extent(1)}, 0);
}

}  // namespace

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
  if (c.node.op != Op::kMatMul) WEFT_TRY(QuantizedLines(c, *a, *b));
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
      WEFT_TRY(c.BroadcastsTo(
          have, want, fmt::format("input 2, {}, and the output, {}", c.Text(*bias), c.Text(out))));
    }
  }
  c.Out(0, std::move(out));
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
