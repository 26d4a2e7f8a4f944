#include "codegen/cuda/emulate/words.h"

#include <fmt/format.h>

namespace weft::codegen::cuda {
namespace {

// Without any header, which would cost more time than a kernel. ThreadState (block.h) again, and
// what the emitter's texts use of CUDA C++: sections 7.1 to 7.6 of its programming guide. A
// kernel's `extern "C"` is cut off, since kernels of several texts may have one name.
constexpr std::string_view kWords = R"(
struct WeftDim { unsigned x, y, z; };
struct WeftThreadState {
  WeftDim block_index, thread_index, grid_dim, block_dim;
  void (*barrier)(void* block, int line);
  void* block;
  unsigned long (*exchange)(void* block, int line, unsigned long word, int across);
  void (*cluster_barrier)(void* block, int line);
  void* cluster;
  const void* (*of_block)(void* cluster, const void* own, unsigned block);
};
extern "C" { WeftThreadState weft_thread; }
#define blockIdx weft_thread.block_index
#define threadIdx weft_thread.thread_index
#define gridDim weft_thread.grid_dim
#define blockDim weft_thread.block_dim
#define __syncthreads() weft_thread.barrier(weft_thread.block, __LINE__)
#define __cluster_barrier_arrive()
#define __cluster_barrier_wait() weft_thread.cluster_barrier(weft_thread.block, __LINE__)
#define __cluster_map_shared_rank(own, block) weft_thread.of_block(weft_thread.cluster, own, block)

#define WEFT_EMULATED
#define WEFT_LINKAGE(line) WEFT_LINKAGE_OF(line)
#define WEFT_LINKAGE_OF(line) weft_linkage_##line
#define __device__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads)
#define __cluster_dims__(x, y, z)
#define __global__ ;

extern "C" {
void* memcpy(void*, const void*, unsigned long);
double fabs(double), floor(double), ceil(double), trunc(double), rint(double), fmod(double, double),
    sqrt(double), fma(double, double, double), copysign(double, double);
float fabsf(float), floorf(float), ceilf(float), truncf(float), rintf(float), fmodf(float, float),
    sqrtf(float), fmaf(float, float, float), copysignf(float, float);
}
inline float copysign(float a, float b) { return copysignf(a, b); }
template <class A, class B> auto min(A a, B b) -> decltype(a + b) { return b < a ? b : a; }
template <class A, class B> auto max(A a, B b) -> decltype(a + b) { return b > a ? b : a; }

template <class To, class From> To weft_same_bits(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From), "");
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int bits) { return weft_same_bits<float>(bits); }
inline float __uint_as_float(unsigned bits) { return weft_same_bits<float>(bits); }
inline unsigned __float_as_uint(float value) { return weft_same_bits<unsigned>(value); }
inline double __longlong_as_double(long long bits) { return weft_same_bits<double>(bits); }

template <class T> T weft_exchange(T value, int across, int line) {
  unsigned long word = 0;
  memcpy(&word, &value, sizeof value);
  word = weft_thread.exchange(weft_thread.block, line, word, across);
  memcpy(&value, &word, sizeof value);
  return value;
}
#define __shfl_xor_sync(threads, value, across) weft_exchange(value, across, __LINE__)

// Devices fault on an address that is not aligned to an access; so does this.
template <class T, int N> struct alignas(N * sizeof(T)) weft_vector { T lane[N]; };
inline void weft_check_aligned(const void* at, unsigned long bytes) {
  if ((unsigned long)at % bytes != 0) __builtin_trap();
}
template <int N, class T> weft_vector<T, N> weft_load(const T* from) {
  weft_vector<T, N> value;
  weft_check_aligned(from, sizeof value);
  memcpy(&value, from, sizeof value);
  return value;
}
template <int N, class T> void weft_store(T* to, const weft_vector<T, N>& value) {
  weft_check_aligned(to, sizeof value);
  memcpy(to, &value, sizeof value);
}

// Threads take turns at barriers only.
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long from,
                                    unsigned long long to) {
  const unsigned long long old = *at;
  if (old == from) *at = to;
  return old;
}

// IEEE 754 binary16, as cvt.f32.f16 and cvt.rn.f16.f32 convert (PTX ISA, section 9.7.9.21).
inline float weft_from_f16(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  const float size = __uint_as_float(rest << 13) * 0x1p112f;  // the exponent's other bias
  return __uint_as_float(sign | __float_as_uint(size));
}
inline unsigned short weft_to_f16(float value) {
  const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
  const float size = __uint_as_float(bits & 0x7fffffffu);
  if (value != value) return (unsigned short)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
  if (size >= 65520.0f) return (unsigned short)(sign | 0x7c00u);
  if (size < 0x1p-14f)  // the last bit of 0.5 is that of the smallest of all
    return (unsigned short)(sign | (__float_as_uint(size + 0.5f) - 0x3f000000u));
  const unsigned round = __float_as_uint(size) + 0xfffu + (__float_as_uint(size) >> 13 & 1u);
  return (unsigned short)(sign | ((round - (112u << 23)) >> 13));
}

template <unsigned... I> struct WeftIndices {};
template <unsigned N, unsigned... I> struct WeftCount : WeftCount<N - 1, N - 1, I...> {};
template <unsigned... I> struct WeftCount<0, I...> { typedef WeftIndices<I...> type; };
template <class... A, unsigned... I>
void weft_call(void (*kernel)(A...), void* const* arguments, WeftIndices<I...>) {
  kernel(*(A*)arguments[I]...);
}
template <class... A> constexpr unsigned weft_arguments(void (*)(A...)) { return sizeof...(A); }
template <class... A> void weft_enter(void (*kernel)(A...), void* const* arguments) {
  weft_call(kernel, arguments, typename WeftCount<sizeof...(A)>::type());
}
)";

}  // namespace

std::string EmulatedText(std::span<const CudaText> texts) {
  std::string all(kWords), table;
  for (size_t k = 0; k < texts.size(); ++k) {
    all += fmt::format(R"(
extern "C" char __start_weft_shared_{0}[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_weft_shared_{0}[] __attribute__((weak, visibility("hidden")));
namespace weft_{0} {{
#define __shared__ static __attribute__((section("weft_shared_{0}")))
#define extern const char* const WEFT_LINKAGE(__LINE__) =
{1}
#undef extern
#undef __shared__
)",
                       k, texts[k].text);
    for (const CudaText* launch : texts[k].Launches()) {
      const std::string& symbol = launch->symbol;
      all += fmt::format(R"(
void weft_run_{0}(void* const* arguments) {{ weft_enter({0}, arguments); }}
const unsigned weft_count_{0} = weft_arguments({0});
)",
                         symbol);
      table += fmt::format(
          "  {{\"{1}\", weft_{0}::weft_run_{1}, __start_weft_shared_{0}, __stop_weft_shared_{0}, "
          "weft_{0}::weft_count_{1}, {2}}},\n",
          k, symbol, launch->launch.cluster);
    }
    all += "}\n";
  }
  return fmt::format(R"({}
struct WeftKernel {{
  const char* symbol;
  void (*run)(void* const*);
  char *shared_begin, *shared_end;
  unsigned count, cluster;
}};
extern "C" const WeftKernel {}[] = {{
{}  {{nullptr, nullptr, nullptr, nullptr, 0, 0}}}};
)",
                     all, kKernelsSymbol, table);
}

}  // namespace weft::codegen::cuda
