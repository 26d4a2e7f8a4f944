// From a run-time element type to a C++ one.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "base/dtype.h"
#include "base/tensor.h"
#include "fallback/native/args.h"
#include "fallback/native/narrow.h"

namespace weft::fallback::native {

// The 16-bit floats and bool as they lie in memory. They compute as float and bool.
struct Half {
  uint16_t bits;
  operator float() const { return WidenHalf(bits); }  // NOLINT: reads like the number that it is
};
struct Bfloat {
  uint16_t bits;
  operator float() const { return WidenBfloat(bits); }  // NOLINT
};
struct Bool {
  uint8_t byte;
  operator bool() const { return byte != 0; }  // NOLINT
};

template <typename T>
inline constexpr bool kIs16 = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
// What elements of T compute in.
template <typename T>
using Compute =
    std::conditional_t<kIs16<T>, float, std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;

// Stores with one rounding; between integers the low bits are kept, a float truncates and
// saturates.
template <typename T, typename V>
T To(V value) {
  if constexpr (kIs16<T>) {
    float once = 0;
    if constexpr (sizeof(V) >= 4 && !std::is_same_v<V, float>)
      once = RoundToOdd(static_cast<double>(value));
    else
      once = static_cast<float>(value);
    return {std::is_same_v<T, Half> ? NarrowHalf(once) : NarrowBfloat(once)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(value != 0)};
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
    // The limits as floats: the upper one is rounded up to a power of two, hence >=.
    if (std::isnan(value)) return 0;
    if (value >= static_cast<V>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    if (value <= static_cast<V>(std::numeric_limits<T>::min()))
      return std::numeric_limits<T>::min();
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// body.operator()<T>() for the storage type of a number; bool only if asked for. False if there is
// none.
template <bool kWithBool = false, typename Body>
bool ByType(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::kBool:
      if constexpr (kWithBool) return body.template operator()<Bool>(), true;
      return false;
    case Dtype::kU8:
      return body.template operator()<uint8_t>(), true;
    case Dtype::kI8:
      return body.template operator()<int8_t>(), true;
    case Dtype::kU16:
      return body.template operator()<uint16_t>(), true;
    case Dtype::kI16:
      return body.template operator()<int16_t>(), true;
    case Dtype::kU32:
      return body.template operator()<uint32_t>(), true;
    case Dtype::kI32:
      return body.template operator()<int32_t>(), true;
    case Dtype::kU64:
      return body.template operator()<uint64_t>(), true;
    case Dtype::kI64:
      return body.template operator()<int64_t>(), true;
    case Dtype::kF16:
      return body.template operator()<Half>(), true;
    case Dtype::kBF16:
      return body.template operator()<Bfloat>(), true;
    case Dtype::kF32:
      return body.template operator()<float>(), true;
    case Dtype::kF64:
      return body.template operator()<double>(), true;
    case Dtype::kF8E4M3FN:
    case Dtype::kF8E4M3FNUZ:
    case Dtype::kF8E5M2:
    case Dtype::kF8E5M2FNUZ:
    case Dtype::kF4E2M1:
    case Dtype::kF8E8M0:
    case Dtype::kU2:
    case Dtype::kI2:
    case Dtype::kU4:
    case Dtype::kI4:
    case Dtype::kString:
      return false;
  }
  WEFT_UNREACHABLE();
}

// The same for floats only.
template <typename Body>
bool ByFloat(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::kF16:
      return body.template operator()<Half>(), true;
    case Dtype::kBF16:
      return body.template operator()<Bfloat>(), true;
    case Dtype::kF32:
      return body.template operator()<float>(), true;
    case Dtype::kF64:
      return body.template operator()<double>(), true;
    default:
      return false;
  }
}

// body.operator()<T>() for a type that moves such an element as it is.
template <typename Body>
void ByWidth(Dtype dtype, Body body) {
  switch (SizeBytes(dtype)) {
    case 0:
      return body.template operator()<std::string>();
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      return body.template operator()<uint64_t>();
  }
}

inline Status NoSuchType(const Args& args, Dtype dtype) {
  return Unsupported(fmt::format("{}: no kernel for {} elements", args.call.op, DtypeName(dtype)));
}

}  // namespace weft::fallback::native
