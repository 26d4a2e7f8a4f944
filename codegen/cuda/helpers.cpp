#include "codegen/cuda/helpers.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace weft::codegen::cuda {
namespace {

struct Helper {
  std::string_view name, needs, text;  // {} stands for "__device__ __forceinline__ "
};

// A helper stands after what it needs. is_signed is T(-1) < T(0). What is written in PTX, or trusts
// an address, has a namesake among emulate/words.cpp, which takes its place on a CPU.
constexpr auto kHelpers = std::to_array<Helper>({
    {"weft_floor_div", "", R"(template <class T> {}T weft_floor_div(T a, T b) {{  // b > 0
  return a / b - T(a % b < 0);
}})"},
    {"weft_min", "", R"(template <class T> {}T weft_min(T a, T b) {{  // propagates NaN
  return b != b || b < a ? b : a;
}})"},
    {"weft_max", "", R"(template <class T> {}T weft_max(T a, T b) {{
  return b != b || b > a ? b : a;
}})"},
    {"weft_fmin", "", R"(template <class T> {}T weft_fmin(T a, T b) {{  // ignores NaN
  return b != b || a < b ? a : b;
}})"},
    {"weft_fmax", "", R"(template <class T> {}T weft_fmax(T a, T b) {{
  return b != b || a > b ? a : b;
}})"},
    {"weft_float_mod", "",
     R"(template <class T> {}T weft_float_mod(T r, T b) {{  // of r = fmod(a, b)
  if (r == T(0)) return copysign(T(0), b);
  return (r < T(0)) != (b < T(0)) ? r + b : r;
}})"},
    {"weft_ldexp", "",
     R"({}double weft_ldexp(double a, double b) {{  // in two factors: the first product is exact
  const long long n = (long long)floor(b), half = n >> 1;
  return a * __longlong_as_double((half + 1023) << 52) * __longlong_as_double((n - half + 1023) << 52);
}})"},
    {"weft_ldexpf", "",
     R"({}float weft_ldexpf(float a, float b) {{  // in two factors: the first product is exact
  const int n = (int)floorf(b), half = n >> 1;
  return a * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}})"},
    {"weft_pick", "",
     R"({}float weft_pick(int i, float a, float b, float c, float d, float e, float f, float g, float h,
    float p, float q, float r, float s, float t, float u, float v, float w) {{
  const float values[16] = {{a, b, c, d, e, f, g, h, p, q, r, s, t, u, v, w}};
  return values[i & 15];
}})"},
    {"weft_neg", "", R"(template <class T> {}T weft_neg(T a) {{
  return T(0ull - (unsigned long long)a);
}})"},
    {"weft_trunc_div", "weft_neg",
     R"(template <class T> {}T weft_trunc_div(T a, T b) {{  // x / 0 = 0
  if (b == T(0)) return T(0);
  return T(-1) < T(0) && b == T(-1) ? weft_neg(a) : T(a / b);
}})"},
    {"weft_rem", "", R"(template <class T> {}T weft_rem(T a, T b) {{
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}})"},
    {"weft_mod", "weft_rem",
     R"(template <class T> {}T weft_mod(T a, T b) {{  // sign of the divisor
  const T r = weft_rem(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}})"},
    {"weft_div", "weft_trunc_div weft_rem",
     R"(template <class T> {}T weft_div(T a, T b) {{  // towards minus infinity
  const T r = weft_rem(a, b);
  return T(weft_trunc_div(a, b) - T(r != T(0) && (r < T(0)) != (b < T(0))));
}})"},
    {"weft_shl", "", R"(template <class T> {}T weft_shl(T a, T by) {{
  return (unsigned long long)by >= 8 * sizeof(T) ? T(0) : T((unsigned long long)a << by);
}})"},
    {"weft_shr", "", R"(template <class T> {}T weft_shr(T a, T by) {{
  const bool all = (unsigned long long)by >= 8 * sizeof(T);
  if (T(-1) < T(0)) return T(a >> (all ? T(8 * sizeof(T) - 1) : by));
  return all ? T(0) : T(a >> by);
}})"},
    {"weft_to_int", "",
     R"(template <class T, class F> {}T weft_to_int(F v) {{  // truncates, saturates, NaN = 0
  constexpr bool is_signed = T(-1) < T(0);
  constexpr T largest = T(~0ull >> (64 - 8 * sizeof(T) + is_signed));
  const F end = F(1ull << (8 * sizeof(T) - 1)) * (is_signed ? F(1) : F(2));
  if (v != v) return T(0);
  if (v >= end) return largest;
  if (v <= (is_signed ? -end : F(0))) return is_signed ? T(~largest) : T(0);
  return T(v);
}})"},
    {"weft_set_half", "",
     R"(template <class T> {}void weft_set_half(T* bytes, long long half, T value) {{
  const int by = half % 2 * 4;
  bytes[half / 2] = T((bytes[half / 2] & ~(15 << by)) | (value & 15) << by);
}})"},
    {"weft_vector", "", R"(#ifndef WEFT_EMULATED
template <class T, int N> struct alignas(N * sizeof(T)) weft_vector {{
  T lane[N];
}};
#endif)"},
    {"weft_load", "weft_vector", R"(#ifndef WEFT_EMULATED
template <int N, class T> {}weft_vector<T, N> weft_load(const T* from) {{
  return *(const weft_vector<T, N>*)from;
}}
#endif)"},
    {"weft_store", "weft_vector", R"(#ifndef WEFT_EMULATED
template <int N, class T> {}void weft_store(T* to, const weft_vector<T, N>& value) {{
  *(weft_vector<T, N>*)to = value;
}}
#endif)"},
    {"weft_of_block", "",
     R"(template <class T> {}T* weft_of_block(T* own, unsigned block) {{  // of the cluster
  return (T*)__cluster_map_shared_rank(own, block);
}})"},
    {"weft_bits", "", R"(template <class To, class From> {}To weft_bits(From value) {{
  To to;
  memcpy(&to, &value, sizeof(To));
  return to;
}})"},
    {"weft_from_f16", "", R"(#ifndef WEFT_EMULATED
{}float weft_from_f16(unsigned short bits) {{
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}}
#endif)"},
    {"weft_to_f16", "", R"(#ifndef WEFT_EMULATED
{}unsigned short weft_to_f16(float value) {{
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}}
#endif)"},
    {"weft_from_bf16", "", R"({}float weft_from_bf16(unsigned short bits) {{
  return __uint_as_float((unsigned)bits << 16);
}})"},
    {"weft_to_bf16", "", R"({}unsigned short weft_to_bf16(float value) {{  // to nearest even
  const unsigned bits = __float_as_uint(value);
  if (value != value) return (unsigned short)((bits | 0x400000u) >> 16);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}})"},
    {"weft_round_f16", "weft_from_f16 weft_to_f16", R"({}float weft_round_f16(float value) {{
  return weft_from_f16(weft_to_f16(value));
}})"},
    {"weft_round_bf16", "weft_from_bf16 weft_to_bf16", R"({}float weft_round_bf16(float value) {{
  return weft_from_bf16(weft_to_bf16(value));
}})"},
    {"weft_round_to_odd", "",
     R"({}float weft_round_to_odd(double value) {{  // so that a second rounding is the only one
  const float near = (float)value;
  if (value != value || (double)near == value) return near;
  const unsigned bits = __float_as_uint(near) - (fabs((double)near) > fabs(value) ? 1u : 0u);
  return __uint_as_float(bits | 1u);
}})"},
    {"weft_fault", "",
     R"({}void weft_fault(WeftFault* fault, unsigned long long code, unsigned long long operand,
                         long long found, long long lo, long long hi) {{
  if (fault == nullptr || atomicCAS(&fault->code, 0ull, code) != 0ull) return;  // the first wins
  fault->operand = operand;
  fault->found = found;
  fault->lo = lo;
  fault->hi = hi;
}})"},
});

size_t Find(std::string_view name) {
  for (size_t i = 0; i < kHelpers.size(); ++i) {
    if (kHelpers[i].name == name) return i;
  }
  WEFT_UNREACHABLE();
}

}  // namespace

std::string_view Helpers::Use(std::string_view name) {
  const size_t place = Find(name);
  if (!used_.insert(place).second) return name;
  std::string_view needs = kHelpers[place].needs;
  while (!needs.empty()) {
    const size_t end = std::min(needs.find(' '), needs.size());
    Use(needs.substr(0, end));
    needs.remove_prefix(std::min(end + 1, needs.size()));
  }
  return name;
}

std::string Helpers::Text() const {
  std::string text;
  for (const size_t place : used_) {
    text += fmt::format(fmt::runtime(kHelpers[place].text), "__device__ __forceinline__ ") + "\n";
  }
  return text;
}

}  // namespace weft::codegen::cuda
