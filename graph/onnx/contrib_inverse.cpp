// Inverse of com.microsoft (ContribOperators.md): Gauss-Jordan elimination with partial pivoting, a
// column in each step of a Scan.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// Of M, which is [..., n, 2 n], column k becomes that of the identity; {0} is the element type.
constexpr std::string_view kStep = R"(graph step (m: {0}, k: i64[]) -> (next) {{
  zero: i64[] = const(0)
  one: i64[] = const(1)
  first: i64[1] = const(0)
  rows: i64[1] = const(-2)
  last: i64[1] = const(-1)
  none: {0}[] = const(0)
  less_than_any: {0}[] = const(-1)
  list = Unsqueeze(k, first)
  n = Shape(m) {{end = -1, start = -2}}
  count = Squeeze(n, first)
  place = Range(zero, count, one)
  column = Gather(m, k) {{axis = -1}}
  left = GreaterOrEqual(place, k)
  magnitudes = Abs(column)
  sizes = Where(left, magnitudes, less_than_any)
  best = ArgMax(sizes) {{axis = -1}}
  is_best = Equal(place, best)
  is_k = Equal(place, k)
  at_best = Unsqueeze(is_best, last)
  at_k = Unsqueeze(is_k, last)
  only_best = Where(at_best, m, none)
  best_row = ReduceSum(only_best, rows)
  row_k = Gather(m, list) {{axis = -2}}
  rest = Where(at_best, row_k, m)
  pivot = Gather(best_row, list) {{axis = -1}}
  row = Div(best_row, pivot)
  factor = Gather(rest, list) {{axis = -1}}
  part = Mul(factor, row)
  less = Sub(rest, part)
  next = Where(at_k, row, less)
}})";

}  // namespace

Status ExpandInverse(Expansion& e) {
  WEFT_TRY(e.Obeys("X:T", "Y:T", "T=f16|f32|f64"));
  const Value& x = e.Known(e.In(0));
  if (!x.dtype || !x.shape)
    return Unsupported("matrices of unknown type or rank are not supported");
  const size_t rank = x.shape->size();
  const auto differ = [](Extent a, Extent b) { return a.IsConstant() && b.IsConstant() && a != b; };
  if (rank < 2 || differ((*x.shape)[rank - 1], (*x.shape)[rank - 2]))
    return Invalid("the matrices are not square");
  const Dtype exact = *x.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  WEFT_TRY(Graph step, ParseGraph(fmt::format(fmt::runtime(kStep), DtypeName(exact)), "step", {}));
  Formula f(e);
  const ValueId m = f.Cast(e.In(0), exact);
  const ValueId n = f.Do(Op::kShape, {m}, {{"start", int64_t{-1}}});
  const ValueId place =
      f.Do(Op::kRange,
           {e.Int("first", 0), f.Do(Op::kSqueeze, {n, e.Ints("only", {0})}), e.Int("step", 1)});
  const ValueId diagonal =
      f.Do(Op::kEqual, {place, f.Do(Op::kUnsqueeze, {place, e.Ints("column", {1})})});
  const ValueId identity = f.Do(Op::kExpand, {f.Cast(diagonal, exact), f.Do(Op::kShape, {m})});
  const ValueId both = f.Do(Op::kConcat, {m, identity}, {{"axis", int64_t{-1}}});
  const ValueId done =
      f.Do(Op::kScan, {both, place},
           {{"body", std::make_shared<Graph>(std::move(step))}, {"num_scan_inputs", int64_t{1}}});
  const ValueId inverse =
      f.Do(Op::kSlice,
           {done, n, e.Ints("to", {std::numeric_limits<int64_t>::max()}), e.Ints("along", {-1})});
  return f.Finish(f.Do(Op::kCastLike, {inverse, e.In(0)}));
}

}  // namespace weft::graph
