// Matrix products.
#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc::ops {

// Operands of rank 1 lack m or n; the axes before the last two are broadcast.
MatrixProduct MakeProduct(Writer& w, const Operand& a, const Operand& b, const Operand& y) {
  MatrixProduct p{a, b, y, {}, {}, {}};
  if (a.dims.empty() || b.dims.empty()) {
    w.Refuse("a scalar operand");
    return p;
  }
  const bool has_m = a.rank() > 1, has_n = b.rank() > 1;
  const int64_t batch = y.rank() - (has_m ? 1 : 0) - (has_n ? 1 : 0);
  const Dims batch_dims(y.dims.begin(), y.dims.begin() + batch);
  const Subs outer = w.Indices("i", batch_dims);
  const auto outer_of = [&](Operand x) {
    x.dims.resize(x.dims.size() < 2 ? 0 : x.dims.size() - 2);
    return w.Align(x, outer, batch_dims);
  };
  p.at = outer;
  p.at_a = outer_of(a);
  p.at_b = outer_of(b);
  if (has_m) p.at.push_back(w.Range("m", a.dims[a.dims.size() - 2])), p.at_a.push_back("m");
  p.at_a.push_back(w.Range("k", w.Extent(a, a.rank() - 1)));
  p.at_b.push_back("k");
  if (has_n) p.at.push_back(w.Range("n", w.Extent(b, b.rank() - 1))), p.at_b.push_back("n");
  return p;
}

void MatMul(Writer& w) {
  const MatrixProduct p = MakeProduct(w, w.In(0), w.In(1), w.Out());
  if (!w.ok()) return;
  w.Reduce("contraction", p.y, p.at, "+=!",
           fmt::format("{} * {}", w.At(p.a, p.at_a), w.At(p.b, p.at_b)));
}

// alpha * a' * b' + beta * c
void Gemm(Writer& w) {
  const Operand a = w.In(0), b = w.In(1), y = w.Out();
  if (y.rank() != 2) return w.Refuse("operands that are no matrices");
  const bool trans_a = w.Int("transA", 0) != 0, trans_b = w.Int("transB", 0) != 0;
  const double alpha = w.Float("alpha", 1), beta = w.Float("beta", 1);
  const Subs at{w.Range("m", y.dims[0]), w.Range("n", w.Extent(y, 1))};
  w.Range("k", w.Extent(b, trans_b ? 1 : 0));
  const std::string product =
      fmt::format("{} * {}", w.At(a, trans_a ? Subs{"k", "m"} : Subs{"m", "k"}),
                  w.At(b, trans_b ? Subs{"n", "k"} : Subs{"k", "n"}));
  const bool has_c = w.Has(2) && beta != 0;
  if (!has_c && alpha == 1) return w.Reduce("contraction", y, at, "+=!", product);
  const bool whole = !IsFloat(y.dtype);
  if (whole && (alpha != 1 || (has_c && beta != 1)))
    return w.Refuse("integers scaled by real numbers");
  const Operand sum = w.Temp("product", y.dtype);
  w.Reduce("contraction", sum, at, "+=!", product);
  const auto scaled = [&](double factor, const std::string& x) {
    return factor == 1 ? x : fmt::format("{} * {}", Lit(y.dtype, factor), x);
  };
  std::string value = scaled(alpha, w.At(sum, at));
  if (has_c) value += " + " + scaled(beta, w.AtAligned(w.Arg(2), at, y.dims));
  w.Set("pointwise", y, at, value);
}

}  // namespace weft::tc::ops
