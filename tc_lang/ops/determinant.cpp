// Determinants by elimination with partial pivoting (Golub and Van Loan, "Matrix computations",
// section 3.4): a recurrence over columns, whose rows stay where they are.
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {

void Det(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const int64_t n = w.Extent(x, x.rank() - 1);
  if (!w.ok()) return;
  const Subs batch = w.Indices("i", y.dims);
  if (n == 0) return w.Set("pointwise", y, batch, Lit(y.dtype, 1));
  w.Range("t", n);
  w.Range("r", n);
  w.Range("c", n);
  const Operand next = w.Temp("next", x.dtype), now = w.Temp("now", x.dtype);
  const Operand best = w.Temp("best", x.dtype), row = w.Temp("row", Dtype::kI32),
                pivot = w.Temp("pivot", x.dtype), factor = w.Temp("factor", x.dtype),
                det = w.Temp("product", x.dtype);
  Dims dims{n};
  dims.insert(dims.end(), y.dims.begin(), y.dims.end());
  w.Declare(det, dims);
  dims.insert(dims.end(), {n, n});
  w.Declare(next, dims);
  const auto at = [&](const std::string& step, const Subs& place) {
    return Concat(Concat({step}, batch), place);
  };
  const Dtype dtype = next.dtype;
  const std::string zero = Lit(dtype, 0), one = Lit(dtype, 1);
  w.Set("recurrence", now, at("t", {"r", "c"}),
        fmt::format("t > 0 ? {} : {}", w.At(next, at("t - 1", {"r", "c"})),
                    w.At(x, Concat(batch, {"r", "c"}))));
  const std::string candidate = fmt::format("abs({})", w.At(now, at("t", {"r", "t"})));
  w.Pick("reduction", best, row, at("t", {}), "max=!",
         fmt::format("(r >= t ? {} : {})", candidate, Lit(dtype, -1)), "r");
  const std::string chosen = w.At(row, at("t", {}));
  w.Set("gather", pivot, at("t", {}), w.At(now, at("t", {chosen, "t"})));
  const std::string p = w.At(pivot, at("t", {}));
  // Row t takes the place of the chosen one, which goes up.
  const std::string from = fmt::format("(r == {} ? t : r)", chosen);
  w.Set("gather", factor, at("t", {"r"}),
        fmt::format("(r > t && {} != {} ? {} / {} : {})", p, zero, w.At(now, at("t", {from, "t"})),
                    p, zero));
  w.Set("recurrence", next, at("t", {"r", "c"}),
        fmt::format("{} - {} * {}", w.At(now, at("t", {from, "c"})), w.At(factor, at("t", {"r"})),
                    w.At(now, at("t", {chosen, "c"}))));
  w.Set("recurrence", det, at("t", {}),
        fmt::format("(t > 0 ? {} : {}) * ({} == t ? {} : -{})", w.At(det, at("t - 1", {})), one,
                    chosen, p, p));
  w.Set("copy", y, batch, w.At(det, at(std::to_string(n - 1), {})));
}

}  // namespace weft::tc::ops
