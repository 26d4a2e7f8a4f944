// Reductions over axes. Kept axes have indices i, reduced ones k; a reduced axis that stays with
// extent 1 has an index j of its own.
#include <algorithm>
#include <cmath>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

using graph::Op;

struct Reduction {
  Operand x, y;
  Subs at, from;      // of y and x
  int64_t count = 1;  // elements that become one
  bool none = false;  // nothing is reduced
};

Reduction MakeReduction(Writer& w, const Ints& axes) {
  Reduction r{w.In(0), w.Out(), {}, {}, 1, axes.empty()};
  const bool keep = w.Int("keepdims", 1) != 0;
  for (int64_t axis = 0; axis < r.x.rank(); ++axis) {
    const Dim& dim = r.x.dims[static_cast<size_t>(axis)];
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      r.from.push_back(w.Range(fmt::format("i{}", axis), dim));
      r.at.push_back(r.from.back());
      continue;
    }
    r.count *= w.Extent(r.x, axis);
    r.from.push_back(w.Range(fmt::format("k{}", axis), dim));
    if (keep) r.at.push_back(w.Range(fmt::format("j{}", axis), 1));
  }
  return r;
}

// Axes are input 1; without them all are meant, or none if the node says so.
Reduction MakeReduction(Writer& w) {
  const Operand x = w.In(0);
  Ints axes;
  if (w.Has(1)) axes = w.Axes(w.ConstInts(1), x.rank());
  if (axes.empty() && w.Int("noop_with_empty_axes", 0) == 0) {
    for (int64_t k = 0; k < x.rank(); ++k) axes.push_back(k);
  }
  return MakeReduction(w, axes);
}

struct Form {
  Op op;
  std::string_view assign, element, result;  // of the element {0}, of the reduced value {0}
};
constexpr Form kForms[] = {{Op::kReduceL1, "+=!", "abs({0})", "{0}"},
                           {Op::kReduceL2, "+=!", "{0} * {0}", "sqrt({0})"},
                           {Op::kReduceLogSum, "+=!", "{0}", "log({0})"},
                           {Op::kReduceMax, "max=!", "{0}", "{0}"},
                           {Op::kReduceMin, "min=!", "{0}", "{0}"},
                           {Op::kReduceProd, "*=!", "{0}", "{0}"},
                           {Op::kReduceSum, "+=!", "{0}", "{0}"},
                           {Op::kReduceSumSquare, "+=!", "{0} * {0}", "{0}"}};

}  // namespace

void ReducePlain(Writer& w) {
  const Reduction r = MakeReduction(w);
  for (const Form& f : kForms) {
    if (f.op != w.node.op) continue;
    const bool rooted = f.result != "{0}";
    // Roots and logarithms of integers, as numpy has them.
    const bool real = rooted && !r.none && !IsFloat(r.y.dtype);
    const std::string each = w.At(r.x, r.from);
    const std::string element =
        fmt::format(fmt::runtime(f.element), real ? Cast(Dtype::kF64, each) : each);
    if (r.none)
      return w.Set("pointwise", r.y, r.at,
                   fmt::format(fmt::runtime(f.result), "(" + element + ")"));
    if (r.y.dtype == Dtype::kBool) {  // the language reduces numbers only
      const Operand best = w.Temp("best", Dtype::kI32);
      w.Reduce("reduction", best, r.at, f.assign, Cast(best.dtype, element));
      return w.Set("pointwise", r.y, r.at, fmt::format("{} > 0", w.At(best, r.at)));
    }
    if (!rooted) return w.Reduce("reduction", r.y, r.at, f.assign, element);
    const Operand sum = w.Temp("sum", real ? Dtype::kF64 : r.y.dtype);
    w.Reduce("reduction", sum, r.at, f.assign, element);
    const std::string result = fmt::format(fmt::runtime(f.result), w.At(sum, r.at));
    return w.Set("pointwise", r.y, r.at, real ? Cast(r.y.dtype, result) : result);
  }
  w.Refuse("no such reduction");
}

void ReduceMean(Writer& w) {
  const Reduction r = MakeReduction(w);
  if (r.none) return w.Set("copy", r.y, r.at, w.At(r.x, r.from));
  const Dtype wide = r.y.dtype == Dtype::kI32 ? Dtype::kI64
                     : r.y.dtype == Dtype::kU32
                         ? Dtype::kU64
                         : r.y.dtype;  // a mean is in range where its sum is not
  const Operand sum = w.Temp("sum", wide);
  w.Reduce("reduction", sum, r.at, "+=!", Cast(wide, r.y.dtype, w.At(r.x, r.from)));
  const std::string_view form = IsFloat(r.y.dtype) ? "{} / {}" : "trunc_div({}, {})";
  const std::string mean =
      fmt::format(fmt::runtime(form), w.At(sum, r.at), Lit(wide, static_cast<double>(r.count)));
  w.Set("pointwise", r.y, r.at, Cast(r.y.dtype, wide, mean));
}

// log(sum(exp(x - m))) + m with the maximum m; a row of -inf alone gives -inf.
void ReduceLogSumExp(Writer& w) {
  const Reduction r = MakeReduction(w);
  if (r.none) return w.Set("copy", r.y, r.at, w.At(r.x, r.from));
  const bool integer = !IsFloat(r.y.dtype);
  const Dtype dtype = integer ? Dtype::kF64 : r.y.dtype;
  const std::string x = integer ? Cast(dtype, w.At(r.x, r.from)) : w.At(r.x, r.from);
  const Operand max = w.Temp("max", dtype), shift = w.Temp("shift", dtype),
                sum = w.Temp("sum", dtype);
  w.Reduce("reduction", max, r.at, "max=!", x);
  const std::string m = w.At(max, r.at), top = Lit(max.dtype, INFINITY),
                    low = Lit(max.dtype, -INFINITY);
  w.Set("pointwise", shift, r.at,
        fmt::format("{0} == {1} || {0} == {2} ? {3} : {0}", m, top, low, Lit(max.dtype, 0)));
  w.Reduce("reduction", sum, r.at, "+=!", fmt::format("exp({} - {})", x, w.At(shift, r.at)));
  const std::string result = fmt::format("log({}) + {}", w.At(sum, r.at), w.At(shift, r.at));
  w.Set("pointwise", r.y, r.at, integer ? Cast(r.y.dtype, result) : result);
}

// Ties go to the smallest k: counted from the end when the last one is wanted.
void ArgReduce(Writer& w) {
  const int64_t axis = w.Axis(w.Int("axis", 0), w.In(0).rank());
  if (!w.ok()) return;
  const Reduction r = MakeReduction(w, {axis});
  const auto place = static_cast<size_t>(axis);
  Subs from = r.from;
  if (w.Int("select_last_index", 0) != 0) from[place] = Sum({{-1, from[place]}}, r.count - 1);
  const Operand best = w.Temp("best", r.x.dtype);
  w.Pick("reduction", best, r.y, r.at, w.node.op == Op::kArgMax ? "max=!" : "min=!",
         w.At(r.x, from), fmt::format("int64({})", from[place]));
}

}  // namespace weft::tc::ops
