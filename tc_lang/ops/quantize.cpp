// Between real numbers and integers of few bits: x = (q - zero point) * scale.
#include <cmath>

#include "tc_lang/ops/families.h"
#include "tc_lang/ops/indexing.h"

namespace weft::tc::ops {
namespace {

std::string AsFloat(Dtype dtype, const std::string& e) {
  return dtype == Dtype::kF32 ? e : Cast(Dtype::kF32, e);
}

// The subscripts of scale and zero point: none, one along `axis`, or one a block of it.
Subs ScaleSubs(Writer& w, const Operand& scale, const Operand& x, const Subs& i) {
  const int64_t block = w.Int("block_size", 0);
  if (scale.dims.empty()) return {};
  const auto axis = static_cast<size_t>(w.Axis(w.Int("axis", 1), x.rank()));
  if (!w.ok()) return {};
  if (block == 0) return {scale.dims[0].IsOne() ? "0" : i[axis]};
  Subs at = i;
  at[axis] = fmt::format("{} / {}", i[axis], block);
  return at;
}

// Input k, a scalar or one element a line of a matrix or a channel.
std::string Each(Writer& w, size_t k, const std::string& line) {
  if (!w.Has(k)) return "";
  const Operand x = w.In(k);
  if (x.rank() > 1) w.Refuse(fmt::format("'{}' has rank {}", x.name, x.rank()));
  return w.At(x, x.dims.empty() ? Subs{} : Subs{x.dims[0].IsOne() ? "0" : line});
}

// round(sum * scale_a * scale_b / scale_y) + zero, saturated.
std::string Requantized(Writer& w, const Operand& y, const std::string& sum, const std::string& a,
                        const std::string& b, const std::string& to, const std::string& zero) {
  const Dtype scale = w.In(1).dtype;
  const std::string factor =
      fmt::format("({} * {} / {})", AsFloat(scale, a), AsFloat(scale, b), AsFloat(scale, to));
  return Cast(y.dtype, fmt::format("round({} * {}) + {}", Cast(Dtype::kF32, sum), factor,
                                   Cast(Dtype::kF32, zero)));
}

std::string Centred(const std::string& x, const std::string& zero) {
  if (zero.empty()) return Cast(Dtype::kI32, x);
  return fmt::format("({} - {})", Cast(Dtype::kI32, x), Cast(Dtype::kI32, zero));
}

}  // namespace

void QuantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  if (!IsInteger(y.dtype))
    return w.Refuse(fmt::format("quantized values of type {}", DtypeName(y.dtype)));
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  std::string value = fmt::format("round({} / {})", AsFloat(x.dtype, w.At(x, i)),
                                  AsFloat(scale.dtype, w.At(scale, at)));
  if (w.Has(2)) value += " + " + Cast(Dtype::kF32, w.At(w.In(2), at));
  w.Set("pointwise", y, i, Cast(y.dtype, value));  // a cast saturates
}

void DequantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  std::string value = Cast(Dtype::kI32, w.At(x, i));
  if (w.Has(2)) value = fmt::format("({} - {})", value, Cast(Dtype::kI32, w.At(w.In(2), at)));
  w.Set("pointwise", y, i, fmt::format("{} * {}", Cast(scale.dtype, value), w.At(scale, at)));
}

// To u8, over the range of x widened to hold 0.
void DynamicQuantizeLinear(Writer& w) {
  const Operand x = w.In(0), y = w.Out(), scale = w.Out(1), zero = w.Out(2);
  if (!w.HasOut(1) || !w.HasOut(2)) return w.Refuse("a scale that nobody takes");
  const Operand low = w.Temp("low", x.dtype), high = w.Temp("high", x.dtype);
  const Subs i = w.Indices("i", x.dims);
  w.Reduce("reduction", low, {}, "min=!", fmt::format("min({}, 0.0)", w.At(x, i)));
  w.Reduce("reduction", high, {}, "max=!", fmt::format("max({}, 0.0)", w.At(x, i)));
  w.Set("pointwise", scale, {}, fmt::format("({} - {}) / 255.0", w.At(high, {}), w.At(low, {})));
  w.Set("pointwise", zero, {},
        Cast(zero.dtype, fmt::format("round(-{} / {})", w.At(low, {}), w.At(scale, {}))));
  w.Set("pointwise", y, i,
        Cast(y.dtype, fmt::format("round({} / {}) + {}", w.At(x, i), w.At(scale, {}),
                                  Cast(Dtype::kF32, w.At(zero, {})))));
}

// Zero points are inputs 2 and 3: scalars, or one a row of a, one a column of b.
void MatMulInteger(Writer& w) {
  const MatrixProduct p = MakeProduct(w, w.In(0), w.In(1), w.Out());
  if (!w.ok()) return;
  const std::string a = Centred(w.At(p.a, p.at_a), Each(w, 2, "m")),
                    b = Centred(w.At(p.b, p.at_b), Each(w, 3, "n"));
  w.Reduce("contraction", p.y, p.at, "+=!", fmt::format("{} * {}", a, b));
}

// Zero points: of x a scalar, of the filter a scalar or one a channel.
void ConvInteger(Writer& w) {
  const Operand x = w.In(0), filter = w.In(1), y = w.Out();
  const Windows win = MakeWindows(w, x, y, w.Extents(filter, 2));
  const Channels c = MakeChannels(w, w.Extent(x, 1), w.Extent(y, 1), false);
  if (!w.ok()) return;
  w.Range("n", x.dims[0]);
  const std::string product =
      fmt::format("{} * {}", Centred(w.At(x, Concat({"n", c.in}, win.at)), Each(w, 2, "0")),
                  Centred(w.At(filter, Concat(c.filter, win.tap)), Each(w, 3, c.out)));
  w.Reduce("convolution", y, Concat({"n", c.out}, win.out), "+=!",
           Guarded(win.guards, product, "0"));
}

// Inputs: a, scale, zero, b, scale, zero, scale and zero of the result.
void QLinearMatMul(Writer& w) {
  const Operand a = w.In(0), b = w.In(3), y = w.Out(), sum = w.Temp("product", Dtype::kI32);
  const MatrixProduct p = MakeProduct(w, a, b, y);
  if (!w.ok()) return;
  const std::string row = a.rank() > 1 ? "m" : "0", column = b.rank() > 1 ? "n" : "0";
  w.Reduce("contraction", sum, p.at, "+=!",
           fmt::format("{} * {}", Centred(w.At(a, p.at_a), Each(w, 2, row)),
                       Centred(w.At(b, p.at_b), Each(w, 5, column))));
  w.Set("pointwise", y, p.at,
        Requantized(w, y, w.At(sum, p.at), Each(w, 1, row), Each(w, 4, column), Each(w, 6, "0"),
                    Each(w, 7, "0")));
}

// The same, with a bias of int32 in the scale of the sums.
void QLinearConv(Writer& w) {
  const Operand x = w.In(0), filter = w.In(3), y = w.Out(), sum = w.Temp("conv", Dtype::kI32);
  const Windows win = MakeWindows(w, x, y, w.Extents(filter, 2));
  const Channels c = MakeChannels(w, w.Extent(x, 1), w.Extent(y, 1), false);
  if (!w.ok()) return;
  w.Range("n", x.dims[0]);
  const Subs at = Concat({"n", c.out}, win.out);
  const std::string product =
      fmt::format("{} * {}", Centred(w.At(x, Concat({"n", c.in}, win.at)), Each(w, 2, "0")),
                  Centred(w.At(filter, Concat(c.filter, win.tap)), Each(w, 5, c.out)));
  w.Reduce("convolution", sum, at, "+=!", Guarded(win.guards, product, "0"));
  std::string total = w.At(sum, at);
  if (w.Has(8)) total = fmt::format("({} + {})", total, w.At(w.In(8), {c.out}));
  w.Set("pointwise", y, at,
        Requantized(w, y, total, Each(w, 1, "0"), Each(w, 4, c.out), Each(w, 6, "0"),
                    Each(w, 7, "0")));
}

}  // namespace weft::tc::ops
