// Elements of tensors as numbers, and the 16-bit floats.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/tensor.h"

namespace weft {
namespace {

// Storage types of the two floats that C++20 has no type for.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

// Elements of four bits have no address: they are numbers of a byte on the way in and out.
int64_t FromNibble(Dtype dtype, uint8_t bits) {
  return dtype == Dtype::kI4 ? static_cast<int8_t>(bits << 4) >> 4 : bits;
}

// Calls body(pointer to element i of the right type).
template <typename T, typename Body>
auto At(T* data, Dtype dtype, int64_t i, Body body) {
  const auto as = [&]<typename E>(E*) {
    using Elem = std::conditional_t<std::is_const_v<T>, const E, E>;
    return body(static_cast<Elem*>(data) + i);
  };
  switch (dtype) {
    case Dtype::kBool:
      return as(static_cast<Bool*>(nullptr));
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF4E2M1:
    case Dtype::kF8E8M0:
    case Dtype::kU2:
    case Dtype::kU8:
      return as(static_cast<uint8_t*>(nullptr));
    case Dtype::kI2:
    case Dtype::kI8:
      return as(static_cast<int8_t*>(nullptr));
    case Dtype::kU16:
      return as(static_cast<uint16_t*>(nullptr));
    case Dtype::kI16:
      return as(static_cast<int16_t*>(nullptr));
    case Dtype::kU32:
      return as(static_cast<uint32_t*>(nullptr));
    case Dtype::kI32:
      return as(static_cast<int32_t*>(nullptr));
    case Dtype::kU64:
      return as(static_cast<uint64_t*>(nullptr));
    case Dtype::kI64:
      return as(static_cast<int64_t*>(nullptr));
    case Dtype::kF16:
      return as(static_cast<Half*>(nullptr));
    case Dtype::kBF16:
      return as(static_cast<Bfloat*>(nullptr));
    case Dtype::kF32:
      return as(static_cast<float*>(nullptr));
    case Dtype::kF64:
      return as(static_cast<double*>(nullptr));
    case Dtype::kU4:
    case Dtype::kI4:
    case Dtype::kString:
      break;
  }
  WEFT_CHECK(false, "{} elements are no numbers", DtypeName(dtype));
}

template <typename I>
I Saturate(long double value) {
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  if (value < static_cast<long double>(std::numeric_limits<I>::min()))
    return std::numeric_limits<I>::min();
  if (value > static_cast<long double>(std::numeric_limits<I>::max()))
    return std::numeric_limits<I>::max();
  return static_cast<I>(value);
}

// To float, rounding inexact values to the neighbour with an odd last bit. Rounding the result to a
// format of at most 22 bits is then as good as rounding the value once. Boldo and Melquiond, "When
// double rounding is odd", 2005.
float ToOdd(long double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || nearest == value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<long double>(nearest)) > std::fabs(value)) --bits;  // toward zero
  return std::bit_cast<float>(bits | 1);
}

void Put(Tensor& t, int64_t i, long double value) {
  if (SharesBytes(t.dtype())) {
    const auto whole = Saturate<int64_t>(value);
    const int64_t least = t.dtype() == Dtype::kI4 ? -8 : 0;
    return SetNibble(t.mutable_data(), i,
                     static_cast<uint8_t>(std::clamp<int64_t>(whole, least, least + 15)));
  }
  At(t.mutable_data(), t.dtype(), i, [value]<typename E>(E* elem) {
    if constexpr (std::is_same_v<E, Half>) {
      elem->bits = FloatToHalf(ToOdd(value));
    } else if constexpr (std::is_same_v<E, Bfloat>) {
      elem->bits = FloatToBfloat(ToOdd(value));
    } else if constexpr (std::is_same_v<E, Bool>) {
      elem->byte = value != 0;
    } else if constexpr (std::is_floating_point_v<E>) {
      *elem = static_cast<E>(value);
    } else {
      *elem = Saturate<E>(value);
    }
  });
}

void CheckIndex(const Tensor& t, int64_t i) {
  WEFT_CHECK(i >= 0 && i < t.elems(), "element {} of {}", i, t.elems());
}

}  // namespace

double ElemAsDouble(const Tensor& t, int64_t i) {
  CheckIndex(t, i);
  if (SharesBytes(t.dtype()))
    return static_cast<double>(FromNibble(t.dtype(), NibbleAt(t.data(), i)));
  return At(t.data(), t.dtype(), i, []<typename E>(const E* elem) -> double {
    if constexpr (std::is_same_v<E, Half>) {
      return HalfToFloat(elem->bits);
    } else if constexpr (std::is_same_v<E, Bfloat>) {
      return BfloatToFloat(elem->bits);
    } else if constexpr (std::is_same_v<E, Bool>) {
      return elem->byte != 0;
    } else {
      return static_cast<double>(*elem);
    }
  });
}

int64_t ElemAsInt(const Tensor& t, int64_t i) {
  CheckIndex(t, i);
  if (IsFloat(t.dtype())) return Saturate<int64_t>(ElemAsDouble(t, i));
  if (SharesBytes(t.dtype())) return FromNibble(t.dtype(), NibbleAt(t.data(), i));
  return At(t.data(), t.dtype(), i, []<typename E>(const E* elem) -> int64_t {
    if constexpr (std::is_integral_v<E>) return static_cast<int64_t>(*elem);
    if constexpr (std::is_same_v<E, Bool>) return elem->byte != 0;
    return 0;
  });
}

void SetElem(Tensor& t, int64_t i, double value) {
  CheckIndex(t, i);
  Put(t, i, value);
}

void SetElemInt(Tensor& t, int64_t i, int64_t value) {
  CheckIndex(t, i);
  if (!IsInteger(CodeStorage(t.dtype())))
    return Put(t, i, value);  // a long double holds every int64
  if (SharesBytes(t.dtype())) return SetNibble(t.mutable_data(), i, static_cast<uint8_t>(value));
  At(t.mutable_data(), t.dtype(), i, [value]<typename E>(E* elem) {
    if constexpr (std::is_integral_v<E>) *elem = static_cast<E>(value);
  });
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | (magnitude >> 13 & 0x1ff);
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 2^16 and more
  if (magnitude < 0x38800000) {
    // Below 2^-14: the unit of the result is 2^-24, which is the unit of floats in [0.5, 1).
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f));
  }
  // Adding just under half of the last kept bit, and that bit, rounds to even; a carry out of the
  // mantissa goes into the exponent, up to infinity.
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | ((rounded - ((127u - 15) << 23)) >> 13);
}

float BfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace weft
