// Conversions of 16-bit floats, with the results of base/tensor.h and base/scalar.h: without
// branches and in sight of the compiler, so that loops over them become vectors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace weft::fallback::native {

inline float WidenHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  const auto subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  const uint32_t normal = wide << 23 | mantissa << 13;
  return std::bit_cast<float>(sign | (exponent == 0 ? subnormal : normal));
}

inline uint16_t NarrowHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  const uint32_t normal = (rounded - ((127u - 15) << 23)) >> 13;
  const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x1ff);
  uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
  half = magnitude >= 0x47800000 ? 0x7c00 : half;
  half = magnitude > 0x7f800000 ? nan : half;
  return static_cast<uint16_t>(sign | half);
}

inline float WidenBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t NarrowBfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// The float beside `value` whose last bit is set, unless a float says it exactly: rounding that
// again to fewer bits is as if it had been rounded once.
inline float RoundToOdd(double value) {
  const auto near = static_cast<float>(value);
  const auto wide = static_cast<double>(near);
  const auto bits = std::bit_cast<uint32_t>(near);
  const uint32_t odd = (bits - (std::fabs(wide) > std::fabs(value) ? 1 : 0)) | 1;
  return std::bit_cast<float>(wide != value && value == value ? odd : bits);
}

}  // namespace weft::fallback::native
