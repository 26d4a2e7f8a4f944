// Between real numbers and integers of few bits: x = (q - zero point) * scale.
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

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

}  // namespace

void QuantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  if (!IsInteger(y.dtype)) return w.Refuse(fmt::format("quantized values of type {}", DtypeName(y.dtype)));
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  const auto as_float = [](Dtype dtype, const std::string& e) { return dtype == Dtype::kF32 ? e : Cast(Dtype::kF32, e); };
  std::string value = fmt::format("round({} / {})", as_float(x.dtype, w.At(x, i)), as_float(scale.dtype, w.At(scale, at)));
  if (w.Has(2)) value += " + " + Cast(Dtype::kF32, w.At(w.In(2), at));
  w.Set("pointwise", y, i, Cast(y.dtype, value));      // a cast saturates
}

void DequantizeLinear(Writer& w) {
  const Operand x = w.In(0), scale = w.In(1), y = w.Out();
  const Subs i = w.Indices("i", y.dims), at = ScaleSubs(w, scale, x, i);
  std::string value = Cast(Dtype::kI32, w.At(x, i));
  if (w.Has(2)) value = fmt::format("({} - {})", value, Cast(Dtype::kI32, w.At(w.In(2), at)));
  w.Set("pointwise", y, i, fmt::format("{} * {}", Cast(scale.dtype, value), w.At(scale, at)));
}

}  // namespace weft::tc::ops
