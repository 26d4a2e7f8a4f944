#include "base/scalar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/affine.h"
#include "base/check.h"
#include "base/tensor.h"

namespace weft {
namespace {

struct OpInfo {
  std::string_view text;
  int32_t arity;
  bool math;
};

constexpr bool kPrimitive = false, kMath = true;
constexpr OpInfo kOps[] = {
#define WEFT_SCALAR(name, text, arity, kind) {text, arity, k##kind},
#include "base/scalar.def"
#undef WEFT_SCALAR
};

// f32 math goes through double: correctly rounded but for rare ties, and the same on every libm.
double Math(ScalarOp op, double a, double b) {
  switch (op) {
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kSigmoid: {
      const double e = std::exp(-std::fabs(a));  // no overflow on either side
      return a >= 0 ? 1 / (1 + e) : e / (1 + e);
    }
    case ScalarOp::kSin:
      return std::sin(a);
    case ScalarOp::kCos:
      return std::cos(a);
    case ScalarOp::kTan:
      return std::tan(a);
    case ScalarOp::kAsin:
      return std::asin(a);
    case ScalarOp::kAcos:
      return std::acos(a);
    case ScalarOp::kAtan:
      return std::atan(a);
    case ScalarOp::kSinh:
      return std::sinh(a);
    case ScalarOp::kCosh:
      return std::cosh(a);
    case ScalarOp::kAsinh:
      return std::asinh(a);
    case ScalarOp::kAcosh:
      return std::acosh(a);
    case ScalarOp::kAtanh:
      return std::atanh(a);
    case ScalarOp::kLog1p:
      return std::log1p(a);
    case ScalarOp::kExpm1:
      return std::expm1(a);
    case ScalarOp::kPow:
      return std::pow(a, b);
    default:
      break;
  }
  WEFT_UNREACHABLE();
}

// Python's remainder: the sign of the divisor.
template <typename T>
T FloatMod(T a, T b) {
  T r = std::fmod(a, b);
  if (r == 0) return std::copysign(T(0), b);
  return (r < 0) != (b < 0) ? r + b : r;
}

template <typename T>
T FloatOp(ScalarOp op, T a, T b, T c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kMod:
      return FloatMod(a, b);
    case ScalarOp::kTruncDiv:
      return std::trunc(a / b);
    case ScalarOp::kRem:
      return std::fmod(a, b);
    // Equal operands (so also zeros of both signs) give the first one, and the second one where a
    // NaN is ignored: then either is one x86 instruction if the second is a literal.
    case ScalarOp::kMin:
      return std::isnan(b) || b < a ? b : a;
    case ScalarOp::kMax:
      return std::isnan(b) || b > a ? b : a;
    case ScalarOp::kFMin:
      return std::isnan(b) || a < b ? a : b;
    case ScalarOp::kFMax:
      return std::isnan(b) || a > b ? a : b;
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kCeil:
      return std::ceil(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    case ScalarOp::kRound:
      return std::nearbyint(a);
    case ScalarOp::kFma:
      return std::fma(a, b, c);
    case ScalarOp::kLdexp:
      return std::isnan(b)
                 ? b
                 : std::ldexp(a, static_cast<int>(std::clamp<T>(std::floor(b), -8192, 8192)));
    default:
      return static_cast<T>(Math(op, static_cast<double>(a), static_cast<double>(b)));
  }
}

constexpr float kLeastNormal = std::numeric_limits<float>::min();

float FlushOperand(float value) {
  return std::fabs(value) < kLeastNormal ? std::copysign(0.0F, value) : value;
}

// A result is flushed by what it would be if the exponent had no end: one that rounds up to the
// least normal number only because subnormal ones are far apart is still a zero.
float FmaFlush(float a, float b, float c) {
  constexpr float kScale = 0x1p48F;
  a = FlushOperand(a), b = FlushOperand(b), c = FlushOperand(c);
  const float sum = std::fma(a, b, c);
  if (std::fabs(sum) != kLeastNormal) return FlushOperand(sum);
  if (std::fabs(a) < std::fabs(b)) std::swap(a, b);  // the lesser factor is far from overflow
  const float scaled = std::fma(a, b * kScale, c * kScale);
  return std::fabs(scaled) < kLeastNormal * kScale ? std::copysign(0.0F, sum) : sum;
}

template <typename T>
bool CompareOp(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kLt:
      return a < b;
    case ScalarOp::kLe:
      return a <= b;
    case ScalarOp::kGt:
      return a > b;
    case ScalarOp::kGe:
      return a >= b;
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    default:
      break;
  }
  WEFT_UNREACHABLE();
}

// Reduces to the type's width: sign-extended if signed, zero-extended otherwise.
int64_t Wrap(Dtype dtype, uint64_t value) {
  if (dtype == Dtype::kBool) return value != 0;
  const int64_t unused = 64 - Bits(dtype);
  if (KindOf(dtype) == DtypeKind::kSigned) return static_cast<int64_t>(value << unused) >> unused;
  return static_cast<int64_t>(value << unused >> unused);
}

// Truncates, saturates, NaN = 0.
int64_t FloatToInt(Dtype dtype, double value) {
  if (dtype == Dtype::kBool) return value != 0;
  if (std::isnan(value)) return 0;
  const auto bits = static_cast<int>(Bits(dtype));
  const bool is_signed = KindOf(dtype) == DtypeKind::kSigned;
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // one above the largest
  const uint64_t largest = ~uint64_t{0} >> (is_signed ? 65 - bits : 64 - bits);
  value = std::trunc(value);
  if (value >= limit) return static_cast<int64_t>(largest);
  if (!is_signed) return value <= 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(value));
  return value <= -limit ? -static_cast<int64_t>(largest) - 1 : static_cast<int64_t>(value);
}

uint64_t IntPow(int64_t base, int64_t exponent, bool is_signed) {
  if (is_signed && exponent < 0) {  // 1 / base^n, truncated; 0^-n is 0, like x / 0
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : ~uint64_t{0};
    return 0;
  }
  uint64_t result = 1, power = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1, power *= power) {
    if (e & 1) result *= power;
  }
  return result;
}

uint64_t Divide(ScalarOp op, bool is_signed, int64_t a, int64_t b) {
  if (b == 0) return 0;
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool quotient = op == ScalarOp::kDiv || op == ScalarOp::kTruncDiv;
  if (!is_signed) return quotient ? ua / ub : ua % ub;
  if (b == -1) return quotient ? uint64_t{0} - ua : 0;  // INT64_MIN / -1 wraps
  switch (op) {
    case ScalarOp::kDiv:
      return static_cast<uint64_t>(FloorDiv(a, b));
    case ScalarOp::kMod:
      return static_cast<uint64_t>(FloorMod(a, b));
    case ScalarOp::kTruncDiv:
      return static_cast<uint64_t>(a / b);
    default:
      return static_cast<uint64_t>(a % b);
  }
}

bool IntLess(bool is_signed, int64_t a, int64_t b) {
  return is_signed ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
}

uint64_t Shift(ScalarOp op, Dtype dtype, int64_t a, int64_t by) {
  const bool is_signed = KindOf(dtype) == DtypeKind::kSigned;
  const bool all = static_cast<uint64_t>(by) >= static_cast<uint64_t>(Bits(dtype));  // negative too
  if (op == ScalarOp::kShl) return all ? 0 : static_cast<uint64_t>(a) << by;
  if (is_signed) return static_cast<uint64_t>(a >> (all ? 63 : by));
  return all ? 0 : static_cast<uint64_t>(a) >> by;
}

uint64_t IntOp(ScalarOp op, Dtype dtype, int64_t a, int64_t b, int64_t c) {
  const bool is_signed = KindOf(dtype) == DtypeKind::kSigned;
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case ScalarOp::kAdd:
      return ua + ub;
    case ScalarOp::kSub:
      return ua - ub;
    case ScalarOp::kMul:
      return ua * ub;
    case ScalarOp::kDiv:
    case ScalarOp::kMod:
    case ScalarOp::kTruncDiv:
    case ScalarOp::kRem:
      return Divide(op, is_signed, a, b);
    case ScalarOp::kMin:
    case ScalarOp::kFMin:
      return IntLess(is_signed, a, b) ? ua : ub;
    case ScalarOp::kMax:
    case ScalarOp::kFMax:
      return IntLess(is_signed, b, a) ? ua : ub;
    case ScalarOp::kNeg:
      return uint64_t{0} - ua;
    case ScalarOp::kAbs:
      return is_signed && a < 0 ? uint64_t{0} - ua : ua;
    case ScalarOp::kFma:
      return ua * ub + static_cast<uint64_t>(c);
    case ScalarOp::kAnd:
      return a != 0 && b != 0;
    case ScalarOp::kOr:
      return a != 0 || b != 0;
    case ScalarOp::kNot:
      return a == 0;
    case ScalarOp::kBitAnd:
      return ua & ub;
    case ScalarOp::kBitOr:
      return ua | ub;
    case ScalarOp::kBitXor:
      return ua ^ ub;
    case ScalarOp::kBitNot:
      return ~ua;
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return Shift(op, dtype, a, b);
    case ScalarOp::kIntPow:
      return IntPow(a, b, is_signed);
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRound:
      return ua;
    default:
      return static_cast<uint64_t>(
          FloatToInt(dtype, Math(op, static_cast<double>(a), static_cast<double>(b))));
  }
}

// f64 -> f32 with the last bit set if anything was lost, so that a second rounding can't double
// round.
float RoundToOdd(double value) {
  const auto f = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(f) == value) return f;
  // The neighbour towards zero, its last bit set: a sticky bit.
  float down = f;
  if (std::fabs(static_cast<double>(f)) > std::fabs(value)) down = std::nextafter(f, 0.0F);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(down) | 1U);
}

float RoundTo16(Dtype dtype, float value) {
  return dtype == Dtype::kF16 ? HalfToFloat(FloatToHalf(value))
                              : BfloatToFloat(FloatToBfloat(value));
}

Scalar CastScalar(Dtype from, Dtype to, Scalar value) {
  if (!IsFloat(from)) {
    if (from == Dtype::kU64 && IsFloat(to)) {
      Scalar s;
      const auto u = static_cast<uint64_t>(value.i);
      if (to == Dtype::kF64)
        s.f64 = static_cast<double>(u);
      else
        s.f32 = static_cast<float>(u);
      if (IsHalf(to)) s.f32 = RoundTo16(to, RoundToOdd(static_cast<double>(u)));
      return s;
    }
    return ScalarOfInt(to, value.i);
  }
  const double wide = AsDouble(from, value);
  Scalar s;
  if (IsFloat(to)) return from == to ? value : ScalarOf(to, wide);
  s.i = FloatToInt(to, wide);
  return s;
}

Scalar BitcastScalar(Dtype from, Dtype to, Scalar value) {
  WEFT_CHECK(Bits(from) == Bits(to), "bitcast {} to {}", DtypeName(from), DtypeName(to));
  std::array<std::byte, 8> bytes{};
  StoreScalar(from, bytes.data(), 0, value);
  return LoadScalar(to, bytes.data(), 0);
}

}  // namespace

std::string_view ScalarName(ScalarOp op) { return kOps[static_cast<size_t>(op)].text; }
int32_t ScalarArity(ScalarOp op) { return kOps[static_cast<size_t>(op)].arity; }
bool IsMath(ScalarOp op) { return kOps[static_cast<size_t>(op)].math; }
bool IsCompare(ScalarOp op) { return op >= ScalarOp::kLt && op <= ScalarOp::kNe; }

std::optional<ScalarOp> ParseScalarFunction(std::string_view name) {
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) return std::nullopt;
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].text == name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}

Scalar EvalScalar(ScalarOp op, Dtype operand, Dtype result, std::span<const Scalar> args) {
  WEFT_CHECK(args.size() == static_cast<size_t>(ScalarArity(op)), "{} of {} operands",
             ScalarName(op), args.size());
  if (op == ScalarOp::kSelect) return args[0].i != 0 ? args[1] : args[2];
  if (op == ScalarOp::kPick) return args[static_cast<size_t>(1 + (args[0].i & 15))];
  if (op == ScalarOp::kCast) return CastScalar(operand, result, args[0]);
  if (op == ScalarOp::kBitcast) return BitcastScalar(operand, result, args[0]);
  const Scalar a = args[0], b = args.size() > 1 ? args[1] : a, c = args.size() > 2 ? args[2] : a;
  Scalar s;
  if (op == ScalarOp::kFmaFlush) {
    s.f32 = FmaFlush(a.f32, b.f32, c.f32);
    return s;
  }
  if (op == ScalarOp::kAddFlush) {  // what is subnormal is exact: there is no border to look at
    s.f32 = FlushOperand(FlushOperand(a.f32) + FlushOperand(b.f32));
    return s;
  }
  if (IsFloat(operand)) {
    const bool wide = operand == Dtype::kF64;
    if (op == ScalarOp::kIsNan) {
      s.i = wide ? std::isnan(a.f64) : std::isnan(a.f32);
    } else if (IsCompare(op)) {
      s.i = wide ? CompareOp(op, a.f64, b.f64) : CompareOp(op, a.f32, b.f32);
    } else if (wide) {
      s.f64 = FloatOp(op, a.f64, b.f64, c.f64);
    } else {
      s.f32 = FloatOp(op, a.f32, b.f32, c.f32);
      if (IsHalf(result)) s.f32 = RoundTo16(result, s.f32);
    }
    return s;
  }
  if (op == ScalarOp::kIsNan) return s;
  if (IsCompare(op)) {
    const bool is_signed = KindOf(operand) == DtypeKind::kSigned;
    s.i = is_signed ? CompareOp(op, a.i, b.i)
                    : CompareOp(op, static_cast<uint64_t>(a.i), static_cast<uint64_t>(b.i));
    return s;
  }
  s.i = Wrap(result, IntOp(op, operand, a.i, b.i, c.i));
  return s;
}

Scalar LoadScalar(Dtype dtype, const void* data, int64_t index) {
  Scalar s;
  const auto load = [&]<typename T>(T) { return static_cast<const T*>(data)[index]; };
  switch (dtype) {
    case Dtype::kBool:
      s.i = load(uint8_t{}) != 0;
      break;
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF4E2M1:
    case Dtype::kF8E8M0:
    case Dtype::kU2:
    case Dtype::kU8:
      s.i = load(uint8_t{});
      break;
    case Dtype::kI2:
    case Dtype::kI8:
      s.i = load(int8_t{});
      break;
    case Dtype::kU4:
    case Dtype::kI4:
      s.i = Wrap(dtype, NibbleAt(data, index));
      break;
    case Dtype::kU16:
      s.i = load(uint16_t{});
      break;
    case Dtype::kI16:
      s.i = load(int16_t{});
      break;
    case Dtype::kU32:
      s.i = load(uint32_t{});
      break;
    case Dtype::kI32:
      s.i = load(int32_t{});
      break;
    case Dtype::kU64:
    case Dtype::kI64:
      s.i = load(int64_t{});
      break;
    case Dtype::kF16:
      s.f32 = HalfToFloat(load(uint16_t{}));
      break;
    case Dtype::kBF16:
      s.f32 = BfloatToFloat(load(uint16_t{}));
      break;
    case Dtype::kF32:
      s.f32 = load(float{});
      break;
    case Dtype::kF64:
      s.f64 = load(double{});
      break;
    case Dtype::kString:
      WEFT_UNREACHABLE();
  }
  return s;
}

void StoreScalar(Dtype dtype, void* data, int64_t index, Scalar value) {
  const auto store = [&]<typename T>(T element) { static_cast<T*>(data)[index] = element; };
  switch (dtype) {
    case Dtype::kBool:
      store(static_cast<uint8_t>(value.i != 0));
      break;
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF4E2M1:
    case Dtype::kF8E8M0:
    case Dtype::kU2:
    case Dtype::kI2:
    case Dtype::kU8:
    case Dtype::kI8:
      store(static_cast<uint8_t>(value.i));
      break;
    case Dtype::kU4:
    case Dtype::kI4:
      SetNibble(data, index, static_cast<uint8_t>(value.i));
      break;
    case Dtype::kU16:
    case Dtype::kI16:
      store(static_cast<uint16_t>(value.i));
      break;
    case Dtype::kU32:
    case Dtype::kI32:
      store(static_cast<uint32_t>(value.i));
      break;
    case Dtype::kU64:
    case Dtype::kI64:
      store(value.i);
      break;
    case Dtype::kF16:
      store(FloatToHalf(value.f32));
      break;
    case Dtype::kBF16:
      store(FloatToBfloat(value.f32));
      break;
    case Dtype::kF32:
      store(value.f32);
      break;
    case Dtype::kF64:
      store(value.f64);
      break;
    case Dtype::kString:
      WEFT_UNREACHABLE();
  }
}

double AsDouble(Dtype dtype, Scalar value) {
  if (dtype == Dtype::kF64) return value.f64;
  if (IsFloat(dtype)) return value.f32;
  if (dtype == Dtype::kU64) return static_cast<double>(static_cast<uint64_t>(value.i));
  return static_cast<double>(value.i);
}

Scalar ScalarOf(Dtype dtype, double value) {
  Scalar s;
  if (dtype == Dtype::kF64)
    s.f64 = value;
  else if (dtype == Dtype::kF32)
    s.f32 = static_cast<float>(value);
  else if (IsHalf(dtype))
    s.f32 = RoundTo16(dtype, RoundToOdd(value));
  else
    s.i = FloatToInt(dtype, value);
  return s;
}

Scalar ScalarOfInt(Dtype dtype, int64_t value) {
  Scalar s;
  if (dtype == Dtype::kF64)
    s.f64 = static_cast<double>(value);
  else if (dtype == Dtype::kF32)
    s.f32 = static_cast<float>(value);
  else if (IsHalf(dtype))
    s.f32 = RoundTo16(dtype, RoundToOdd(static_cast<double>(value)));
  else
    s.i = Wrap(dtype, static_cast<uint64_t>(value));
  return s;
}

}  // namespace weft
