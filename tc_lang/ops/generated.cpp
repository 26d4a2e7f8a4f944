// Tensors that are made from their shape alone, and the triangle of a matrix.
#include <algorithm>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {

// The triangle on and above (below) the diagonal j - i = k.
void Trilu(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  if (x.rank() < 2) return w.Refuse("a tensor that is no matrix");
  const Subs i = w.Indices("i", y.dims);
  const bool upper = w.Int("upper", 1) != 0;
  std::string place = Sum({{1, i[i.size() - 1]}, {-1, i[i.size() - 2]}}), k = "0";
  if (w.Constant(1) != nullptr) {
    k = std::to_string(static_cast<int64_t>(w.ConstFloat(1, 0)));
  } else if (w.Has(1)) {  // known when it runs
    k = w.At(w.In(1), Subs(w.In(1).dims.size(), "0"));
    place = Cast(Dtype::kI64, place);
  }
  w.Set("pointwise", y, i,
        fmt::format("{} {} {} ? {} : {}", place, upper ? ">=" : "<=", k, w.At(x, i),
                    LitInt(y.dtype, 0)));
}

void RangeOf(Writer& w) {
  const Operand start = w.Arg(0), delta = w.Arg(2), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  if (i.size() != 1) return w.Refuse("a range that is no vector");
  w.Set("pointwise", y, i,
        fmt::format("{} + {} * {}", w.At(start, {}), Cast(y.dtype, i[0]), w.At(delta, {})));
}

void ConstantOfShape(Writer& w) {
  const Operand y = w.Out();
  const graph::Attribute* value = graph::FindAttribute(w.node, "value");
  const Tensor* tensor = value != nullptr ? std::get_if<Tensor>(&value->value) : nullptr;
  const bool given = tensor != nullptr && tensor->elems() == 1;
  const std::string literal = !given             ? Lit(y.dtype, 0)
                              : IsFloat(y.dtype) ? Lit(y.dtype, ElemAsDouble(*tensor, 0))
                                                 : LitInt(y.dtype, ElemAsInt(*tensor, 0));
  w.Set("copy", y, w.Indices("i", y.dims), literal);
}

void EyeLike(Writer& w) {
  const Operand y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  if (i.size() != 2) return w.Refuse("a tensor that is no matrix");
  w.Set("pointwise", y, i,
        fmt::format("{} - {} == {} ? {} : {}", i[1], i[0], w.Int("k", 0), Lit(y.dtype, 1),
                    Lit(y.dtype, 0)));
}

// Extents from `start` to `end`, each a statement of its own.
void ShapeOf(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const auto clamp = [&](int64_t k) {
    return std::max<int64_t>(0, std::min(k < 0 ? k + x.rank() : k, x.rank()));
  };
  const int64_t begin = clamp(w.Int("start", 0)), end = clamp(w.Int("end", x.rank()));
  if (begin >= end) return w.Set("copy", y, {w.Range("i", 0)}, LitInt(y.dtype, 0));
  for (int64_t k = begin; k < end; ++k) {
    w.Range("i", k - begin + 1, k - begin);
    w.Set("copy", y, {"i"}, LitInt(y.dtype, w.Extent(x, k)));
  }
}

void SizeOf(Writer& w) {
  w.Set("copy", w.Out(), {}, LitInt(Dtype::kI64, Product(w.Extents(w.In(0)))));
}

}  // namespace weft::tc::ops
