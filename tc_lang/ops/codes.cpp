// Floats of few bits as the bytes that hold them (graph/codes.h), and bits read as another type.
#include <algorithm>
#include <cmath>

#include "tc_lang/ops/families.h"
#include "tc_lang/syntax.h"

namespace weft::tc::ops {
namespace {

// Sign, exponent and mantissa from the highest bit on. OCP 8-bit Floating Point Specification 1.0;
// the forms with one zero and its code for NaN: Noune et al., "8-bit Numerical Formats for Deep
// Neural Networks", 2022; float4 and e8m0: OCP Microscaling Formats 1.0.
struct Format {
  Dtype dtype;
  int64_t mantissa_bits, bias, sign;
  int64_t largest;   // the code of the largest number
  int64_t infinity;  // or -1: NaN stands for it
  int64_t nan;
  bool one_zero = false;  // the other's code is NaN, which has no sign
};
constexpr Format kFormats[] = {{Dtype::kF8E4M3FN, 3, 7, 0x80, 0x7e, -1, 0x7f},
                               {Dtype::kF8E4M3FNUZ, 3, 8, 0x80, 0x7f, -1, 0x80, true},
                               {Dtype::kF8E5M2, 2, 15, 0x80, 0x7b, 0x7c, 0x7e},
                               {Dtype::kF8E5M2FNUZ, 2, 16, 0x80, 0x7f, -1, 0x80, true},
                               {Dtype::kF4E2M1, 1, 1, 8, 7, -1, 8, true}};

// None for e8m0, whose codes are exponents alone.
const Format* FormatOf(const Writer& w) {
  const auto dtype = DtypeFromOnnx(static_cast<int32_t>(w.Int("format", 0)));
  const auto* found =
      std::ranges::find_if(kFormats, [&](const Format& f) { return f.dtype == dtype; });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string DecodedPower(const std::string& code) {
  return fmt::format(
      "{0} == 255 ? nan() : ({0} == 0 ? bitcast_float(4194304) : bitcast_float(shl({0}, 23)))",
      code);
}

std::string LargestPower(const Writer& w) { return w.Int("saturate", 1) != 0 ? "254" : "255"; }

// The exponent, rounded; 2^-127, a subnormal float, has the code 0.
void EncodePower(Writer& w, const Operand& y, const Subs& i, const std::string& bits) {
  const std::string mode = StringAttr(w.node, "round_mode", "up");
  const std::string add = mode == "down" ? "0" : mode == "nearest" ? "4194304" : "8388607";
  const std::string zero = mode == "down" ? "8388607" : mode == "nearest" ? "6291455" : "4194304";
  const Operand code = w.Temp("code", Dtype::kI32);
  w.Set("pointwise", code, i, fmt::format("{0} <= {1} ? 0 : shr({0} + {2}, 23)", bits, zero, add));
  w.Set("pointwise", y, i,
        fmt::format("uint8({} > 2139095040 ? 255 : min({}, {}))", bits, w.At(code, i),
                    LargestPower(w)));
}

}  // namespace

void BitCast(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const std::string at = w.At(x, i);
  if (x.dtype == y.dtype) return w.Set("copy", y, i, at);
  if (SharesBytes(x.dtype) || SharesBytes(y.dtype) || x.dtype == Dtype::kBool ||
      y.dtype == Dtype::kBool)
    return w.Set("pointwise", y, i, Cast(y.dtype, at));
  w.Set("pointwise", y, i, fmt::format("bitcast_{}({})", TypeWord(y.dtype), at));
}

void DecodeFloat(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const Operand code = w.Temp("code", Dtype::kI32);
  w.Set("pointwise", code, i, Cast(Dtype::kI32, w.At(x, i)));
  const std::string c = w.At(code, i);
  const Format* f = FormatOf(w);
  if (f == nullptr) return w.Set("pointwise", y, i, DecodedPower(c));
  const Operand size = w.Temp("size", Dtype::kI32);
  w.Set("pointwise", size, i, fmt::format("bit_and({}, {})", c, f->sign - 1));
  const std::string s = w.At(size, i);
  const int64_t smallest = int64_t{1} << f->mantissa_bits;  // code of the smallest normal number
  const Operand number = w.Temp("number", Dtype::kF32);
  w.Set("pointwise", number, i,
        fmt::format(
            "{0} < {1} ? float({0}) * {2} : bitcast_float(shl({0}, {3}) + {4})", s, smallest,
            Lit(Dtype::kF32, std::ldexp(1.0, static_cast<int>(1 - f->bias - f->mantissa_bits))),
            23 - f->mantissa_bits, (127 - f->bias) << 23));
  const std::string n = w.At(number, i);
  std::string value = fmt::format("{} >= {} ? -{} : {}", c, f->sign, n, n);
  if (f->infinity >= 0)
    value = fmt::format("{} == {} ? ({} >= {} ? -infinity() : infinity()) : ({})", s, f->infinity,
                        c, f->sign, value);
  if (f->dtype == Dtype::kF8E5M2)
    value = fmt::format("{} > {} ? nan() : ({})", s, f->infinity, value);
  else if (f->dtype != Dtype::kF4E2M1)
    value = fmt::format("{} == {} ? nan() : ({})", f->one_zero ? c : s, f->nan, value);
  w.Set("pointwise", y, i, value);
}

// With the exponent e of x, no less than that of the smallest normal number, x is n units of
// 2^(e - mantissa_bits), n rounded; and the code of that is (e - least exponent) * 2^mantissa_bits
// + n, whether or not n reached the next power of two.
void EncodeFloat(Writer& w) {
  const Operand x = w.In(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const Operand bits = w.Temp("bits", Dtype::kI32);
  w.Set("pointwise", bits, i, fmt::format("bit_and(bitcast_int32({}), 2147483647)", w.At(x, i)));
  const std::string b = w.At(bits, i);
  const Format* f = FormatOf(w);
  if (f == nullptr) return EncodePower(w, y, i, b);
  const int64_t least = 128 - f->bias;
  const Operand exponent = w.Temp("exponent", Dtype::kI32);
  w.Set("pointwise", exponent, i, fmt::format("max(shr({}, 23), {})", b, least));
  const std::string e = w.At(exponent, i);
  const Operand size = w.Temp("size", Dtype::kI32);
  w.Set("pointwise", size, i,
        fmt::format("({0} - {1}) * {2} + int32(round(bitcast_float({3}) * bitcast_float(shl({4} - "
                    "{0}, 23))))",
                    e, least, int64_t{1} << f->mantissa_bits, b, 254 + f->mantissa_bits));
  const std::string s = w.At(size, i);
  const bool saturates = w.Int("saturate", 1) != 0 || f->dtype == Dtype::kF4E2M1;
  const int64_t beyond = saturates ? f->largest : f->infinity >= 0 ? f->infinity : f->nan;
  const Operand code = w.Temp("code", Dtype::kI32);
  w.Set("pointwise", code, i,
        fmt::format("{0} > 2139095040 ? {1} : ({0} == 2139095040 || {2} > {3} ? {4} : {2})", b,
                    f->nan, s, f->largest, beyond));
  const std::string c = w.At(code, i);
  // What has no sign: NaN, and zero where there is but one. Float4 has both zeros.
  std::string negative = fmt::format("bitcast_int32({}) < 0", w.At(x, i));
  if (f->one_zero) negative += fmt::format(" && {} < {}", c, f->sign);
  if (f->one_zero && f->dtype != Dtype::kF4E2M1) negative += fmt::format(" && {} > 0", c);
  w.Set("pointwise", y, i, fmt::format("uint8({} ? {} + {} : {})", negative, c, f->sign, c));
}

}  // namespace weft::tc::ops
