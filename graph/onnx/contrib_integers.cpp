// Of com.microsoft, sums and products of integers (ContribOperators.md).
#include <fmt/format.h>

#include "graph/onnx/expansion.h"

namespace weft::graph {

Status ExpandMatMulInteger16(Expansion& e) {
  WEFT_TRY(e.Obeys("A:T1 B:T2", "Y:T3", "T1=i16|u16 T2=i16|u16 T3=i32|u32"));
  Formula f(e);
  return f.Finish(f.Do(Op::kMatMul, {f.Cast(e.In(0), Dtype::kI32), f.Cast(e.In(1), Dtype::kI32)}));
}

// (A - its zero point) * (B - its zero point)
Status ExpandMulInteger(Expansion& e) {
  WEFT_TRY(e.Obeys("A:T A_zero_point?:T B:T B_zero_point?:T", "C:T1", "T=i8|u8 T1=i32"));
  Formula f(e);
  const auto whole = [&](size_t i) {
    const ValueId x = f.Cast(e.In(i), Dtype::kI32);
    return e.Has(i + 1) ? f.Sub(x, f.Cast(e.In(i + 1), Dtype::kI32)) : x;
  };
  return f.Finish(f.Mul(whole(0), whole(2)));
}

namespace {

// Axes that are an attribute, for a reduction of which they are an input.
std::vector<ValueId> WithAxes(Expansion& e, ValueId x) {
  const std::vector<int64_t> axes = IntsAttr(e.node(), "axes");
  if (axes.empty()) return {x};
  return {x, e.Ints("axes", axes)};
}

}  // namespace

// In integers of 32 bits that have a sign if those that are summed up have one.
Status ExpandReduceSumInteger(Expansion& e) {
  WEFT_TRY(e.Obeys("data:T1", "reduced:T2", "T1=i8|u8 T2=i32|u32", "axes!:I keepdims!:i"));
  const auto dtype = e.Known(e.In(0)).dtype;
  if (!dtype) return Unsupported("an operand of unknown type is not supported");
  Formula f(e);
  const ValueId x = f.Cast(e.In(0), *dtype == Dtype::kI8 ? Dtype::kI32 : Dtype::kU32);
  return f.Finish(f.Do(Op::kReduceSum, WithAxes(e, x), Kept(e.node(), {"keepdims"})));
}

Status ExpandQLinearReduceMean(Expansion& e) {
  WEFT_TRY(
      e.Obeys("data:T data_scale:=f32 data_zero_point?:T reduced_scale:=f32 "
              "reduced_zero_point?:T",
              "reduced:T", "T=i8|u8", "axes!:I keepdims!:i"));
  Formula f(e);
  const ValueId real = f.Do(Op::kDequantizeLinear, {e.In(0), e.In(1), e.In(2)});
  const ValueId mean = f.Do(Op::kReduceMean, WithAxes(e, real), Kept(e.node(), {"keepdims"}));
  const ValueId zero = e.Has(4) ? e.In(4) : f.Number(0, e.In(0));
  return f.Finish(f.Do(Op::kQuantizeLinear, {mean, e.In(3), zero}));
}

}  // namespace weft::graph
