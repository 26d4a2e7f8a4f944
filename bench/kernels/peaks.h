// The peak of the machine's multipliers, measured: independent chains of multiply-adds, enough for
// the latency of two units. On a shared machine only a ratio to the peak of the same run, in turns,
// means something.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/target.h"

namespace weft::bench {

using Clock = std::chrono::steady_clock;
inline double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

inline double Median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

// `add` is one instruction, of as many multiply-adds as `products` says; operations per second.
#define WEFT_PEAK(name, isa, vector, full, add, products)                                \
  __attribute__((target(isa))) inline double name() {                                    \
    constexpr int64_t kRounds = 20000;                                                   \
    vector sum[12], x;                                                                   \
    asm volatile("" : "=v"(x) : "0"(full));                                              \
    _Pragma("GCC unroll 12") for (auto& s : sum) asm volatile("" : "=v"(s) : "0"(full)); \
    const auto start = Clock::now();                                                     \
    for (int64_t i = 0; i < kRounds; ++i) {                                              \
      asm volatile("" : "+v"(x));                                                        \
      _Pragma("GCC unroll 12") for (auto& s : sum) s = add;                              \
    }                                                                                    \
    const double seconds = Seconds(start);                                               \
    _Pragma("GCC unroll 12") for (auto& s : sum) asm volatile("" ::"v"(s));              \
    return static_cast<double>(kRounds) * 12 * 2 * (products) / seconds;                 \
  }
WEFT_PEAK(PeakV3, "avx2,fma", __m256, _mm256_set1_ps(0.75F), _mm256_fmadd_ps(x, s, x), 8)
WEFT_PEAK(PeakV4, "avx512f", __m512, _mm512_set1_ps(0.75F), _mm512_fmadd_ps(x, s, x), 16)
WEFT_PEAK(PeakBf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps(0.75F),
          _mm512_dpbf16_ps(s, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(x)), 32)
WEFT_PEAK(PeakVnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(63),
          _mm512_dpbusd_epi32(s, x, x), 64)
#undef WEFT_PEAK

// Four sums of 16 by 16, and factors of 16 by 64 bytes, or halves of bfloat16, that stay where they
// are.
template <bool kHalves>
__attribute__((target("amx-tile,amx-int8,amx-bf16"))) double PeakAmx() {
  constexpr int64_t kRounds = 5000;
  std::array<uint8_t, 64> palette = {1};
  for (size_t tile = 0; tile < 6; ++tile) {
    palette[16 + 2 * tile] = 64;
    palette[48 + tile] = 16;
  }
  std::array<uint8_t, 1024> factor;
  factor.fill(0x3f);
  // What the intrinsics of tiles read is hidden from gcc 12.
  asm volatile("" ::"r"(palette.data()), "r"(factor.data()) : "memory");
  _tile_loadconfig(palette.data());
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, factor.data(), 64);
  _tile_loadd(5, factor.data(), 64);
  const auto start = Clock::now();
  for (int64_t i = 0; i < kRounds; ++i) {
    if constexpr (kHalves) {
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(1, 4, 5);
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 5);
    } else {
      _tile_dpbusd(0, 4, 5);
      _tile_dpbusd(1, 4, 5);
      _tile_dpbusd(2, 4, 5);
      _tile_dpbusd(3, 4, 5);
    }
  }
  const double seconds = Seconds(start);
  _tile_release();
  return static_cast<double>(kRounds) * 4 * 2 * (16 * 16 * (kHalves ? 32 : 64)) / seconds;
}

// Of what a contraction of such numbers is made of on such a target.
inline double Peak(Dtype dtype, Isa isa) {
  if (dtype == Dtype::kU8 && HasMatrixProducts(isa)) return PeakAmx<false>();
  if (dtype == Dtype::kU8 && HasDotProducts(isa)) return PeakVnni();
  if (dtype == Dtype::kBF16 && HasMatrixProducts(isa)) return PeakAmx<true>();
  if (dtype == Dtype::kBF16 && HasBfloatProducts(isa)) return PeakBf16();
  return isa == Isa::kX86V3 ? PeakV3() : PeakV4();
}

}  // namespace weft::bench
