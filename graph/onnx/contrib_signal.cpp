// Of com.microsoft, transforms and products of complex numbers, whose real and imaginary parts lie
// side by side in the last axis, and windows of a signal (ContribOperators.md).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

Status CheckTransform(Expansion& e, int64_t ndim) {
  if (IntAttr(e.node(), "onesided", 1) != 1)
    return Unsupported("transforms that are not one-sided are not supported");
  if (IntAttr(e.node(), "normalized", 0) != 0)
    return Unsupported("normalized transforms are not supported");
  if (ndim != 1) return Unsupported(fmt::format("signals of {} axes are not supported", ndim));
  return {};
}

}  // namespace

// The non-negative frequencies of a real signal along the last axis.
Status ExpandRfft(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", "T=f16|f32|f64", "normalized:i onesided:i signal_ndim:i"));
  WEFT_TRY(CheckTransform(e, IntAttr(e.node(), "signal_ndim", 1)));
  Formula f(e);
  const ValueId real = f.Do(Op::kUnsqueeze, {e.In(0), e.Ints("part", {-1})});
  return f.Finish(f.Do(Op::kDFT, {real, ValueId(), e.Int("axis", -2)}, {{"onesided", int64_t{1}}}));
}

// A real signal of an even length from its frequencies, divided by that length.
Status ExpandIrfft(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", "T=f16|f32|f64", "normalized:i onesided:i signal_ndim!:i"));
  WEFT_TRY(CheckTransform(e, IntAttr(e.node(), "signal_ndim", 1)));
  Formula f(e);
  const ValueId real = f.Do(Op::kDFT, {e.In(0), ValueId(), e.Int("axis", -2)},
                            {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}});
  return f.Finish(f.Do(Op::kSqueeze, {real, e.Ints("part", {-1})}));
}

// A times B, or times the conjugate of B.
Status ExpandComplexMul(Expansion& e) {
  WEFT_TRY(e.Obeys("A:T B:T", "C:T", "T=f16|f32|f64"));
  for (size_t i = 0; i < 2; ++i) {
    const Value& value = e.Known(e.In(i));
    if (!value.shape) continue;
    if (value.shape->empty() ||
        (value.shape->back().IsConstant() && value.shape->back() != Extent(2)))
      return Invalid(fmt::format("input {} has another last extent than 2", i));
  }
  WEFT_TRY(const auto a, Columns(e, e.In(0), {1, 1}, "part"));
  WEFT_TRY(const auto b, Columns(e, e.In(1), {1, 1}, "part"));
  Formula f(e);
  const bool conjugate = e.node().op_name == "ComplexMulConj";
  const ValueId imaginary = conjugate ? f.Do(Op::kNeg, {b[1]}) : b[1];
  const ValueId real = f.Sub(f.Mul(a[0], b[0]), f.Mul(a[1], imaginary));
  const ValueId other = f.Add(f.Mul(a[0], imaginary), f.Mul(a[1], b[0]));
  return f.Finish(f.Do(Op::kConcat, {real, other}, {{"axis", int64_t{-1}}}));
}

// All windows of `size` along an axis, `step` apart, whose places become the last axis.
Status ExpandUnfoldTensor(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T", "output:T", "T=any", "dim:i size!:i step:i"));
  const int64_t size = IntAttr(e.node(), "size", 0), step = IntAttr(e.node(), "step", 1);
  const auto rank = e.RankOf(e.In(0));
  if (!rank) return Unsupported("an input of unknown rank is not supported");
  const auto count = static_cast<int64_t>(*rank);
  int64_t dim = IntAttr(e.node(), "dim", -1);
  if (dim < -count || dim >= count)
    return Invalid(fmt::format("dim is {}, expected {} to {}", dim, -count, count - 1));
  if (dim < 0) dim += count;
  if (size < 1) return Invalid(fmt::format("size is {}, expected 1 or more", size));
  if (step < 1) return Invalid(fmt::format("step is {}, expected 1 or more", step));
  const auto extent = KnownExtent(e, e.In(0), static_cast<size_t>(dim), "an input");
  if (extent.ok() && size > *extent)
    return Invalid(fmt::format("size is {}, expected at most {}", size, *extent));
  WEFT_TRY(const ValueId length, ExtentOf(e, e.In(0), dim, "length"));
  Formula f(e);
  const auto counting = [&](ValueId end, int64_t by) {
    return f.Do(Op::kRange, {e.Int("first", 0), end, e.Int("step", by)});
  };
  const ValueId end =
      f.Sub(f.Do(Op::kSqueeze, {length, e.Ints("only", {0})}), e.Int("last", size - 1));
  const ValueId first = f.Do(Op::kUnsqueeze, {counting(end, step), e.Ints("column", {1})});
  const ValueId windows = f.Add(first, counting(e.Int("size", size), 1));
  const ValueId inside = f.Do(Op::kGather, {e.In(0), windows}, {{"axis", dim}});
  std::vector<int64_t> perm(*rank + 1);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + dim + 1, perm.begin() + dim + 2, perm.end());
  return f.Finish(f.Do(Op::kTranspose, {inside}, {{"perm", std::move(perm)}}));
}

}  // namespace weft::graph
