#include "tuner/peaks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/target.h"

namespace weft::tuner {
namespace {

constexpr int64_t kFmaRounds = 1'000'000;
constexpr int kChains = 12;
constexpr int64_t kLeastStreamBytes = 32 << 20, kMostStreamBytes = 256 << 20, kLineBytes = 64;

// The time in which all threads have done their part, at best.
double BestSeconds(int32_t threads, const std::function<void(int32_t rank)>& part) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 7;
  std::barrier gate(threads);
  double best = std::numeric_limits<double>::infinity();
  const auto work = [&](int32_t rank) {
    for (int i = 0; i < kTimes; ++i) {
      gate.arrive_and_wait();
      const auto begin = Clock::now();
      part(rank);
      gate.arrive_and_wait();
      if (rank == 0)
        best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
  };
  std::vector<std::jthread> others;
  for (int32_t rank = 1; rank < threads; ++rank) others.emplace_back(work, rank);
  work(0);
  return best;
}

#if defined(__x86_64__)
// Rounds of twelve chains of multiply-adds, which is more than two units have in flight. In
// assembly, since compilers keep chains in memory, or see through them.
#define WEFT_MULTIPLY_ADD(registers, rounds)                                                  \
  asm volatile(                                                                               \
      "vzeroall\n"                                                                            \
      "1:\n"                                                                                  \
      ".irp chain, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"                                    \
      "vfmadd231ps %%" registers "15, %%" registers "15, %%" registers                        \
      "\\chain\n"                                                                             \
      ".endr\n"                                                                               \
      "dec %0\n"                                                                              \
      "jnz 1b\n"                                                                              \
      "vzeroupper\n"                                                                          \
      : "+r"(rounds)                                                                          \
      :                                                                                       \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

void MultiplyAdd(bool is_wide) {
  int64_t rounds = kFmaRounds;
  if (is_wide)
    WEFT_MULTIPLY_ADD("zmm", rounds);
  else
    WEFT_MULTIPLY_ADD("ymm", rounds);
}

double FlopsPerSecond(int32_t threads) {
  const bool is_wide = HostRuns(Isa::kX86V4);
  if (!is_wide && !HostRuns(Isa::kX86V3)) return 0;
  const double seconds = BestSeconds(threads, [&](int32_t) { MultiplyAdd(is_wide); });
  const double flops = 2.0 * (is_wide ? 16 : 8) * kChains * kFmaRounds;
  return flops * threads / seconds;
}
#else
double FlopsPerSecond(int32_t) { return 0; }
#endif

using Copy = void (*)(char* to, const char* from, size_t bytes);

void PlainCopy(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }

#if defined(__x86_64__)
// Past the caches, which a plain copy asks for the lines that it overwrites: C libraries do so from
// sizes on that differ, or never. Of whole lines.
__attribute__((target("avx"))) void StreamingCopy(char* to, const char* from, size_t bytes) {
  constexpr size_t kVector = sizeof(__m256);
  for (size_t at = 0; at < bytes; at += kVector)
    _mm256_stream_ps(reinterpret_cast<float*>(to + at),
                     _mm256_load_ps(reinterpret_cast<const float*>(from + at)));
  _mm_sfence();
}
#endif

// A copy, by all threads at once, in the faster of two ways.
double BytesPerSecond(int32_t threads) {
  const auto host = HostTarget();
  const int64_t cache_bytes = host.ok() ? host->l3_bytes : 0;
  const int64_t bytes = std::clamp(4 * cache_bytes, kLeastStreamBytes, kMostStreamBytes);
  const int64_t part = bytes / 2 / threads / kLineBytes * kLineBytes;
  std::vector<std::shared_ptr<void>> from(static_cast<size_t>(threads)), to(from.size());
  const auto measure = [&](Copy copy) {
    return BestSeconds(threads, [&](int32_t rank) {
      auto& source = from[static_cast<size_t>(rank)];
      auto& result = to[static_cast<size_t>(rank)];
      if (!source) {  // in the first round, by the thread that uses it
        source = AllocateZeroed(part);
        result = AllocateZeroed(part);
        if (source) std::memset(source.get(), 1, static_cast<size_t>(part));
      }
      if (source && result)
        copy(static_cast<char*>(result.get()), static_cast<const char*>(source.get()),
             static_cast<size_t>(part));
    });
  };
  double seconds = measure(PlainCopy);
#if defined(__x86_64__)
  if (HostRuns(Isa::kX86V3)) seconds = std::min(seconds, measure(StreamingCopy));
#endif
  const bool ran = std::ranges::all_of(to, [](const auto& result) { return result != nullptr; });
  return ran ? 2.0 * static_cast<double>(part) * threads / seconds : 0;
}

}  // namespace

Peaks MeasurePeaks(int32_t threads) {
  threads = std::clamp(threads, 1, UsableThreads());
  return {.flops_per_s = FlopsPerSecond(threads), .bytes_per_s = BytesPerSecond(threads)};
}

double Efficiency(const Peaks& peaks, int64_t flops, int64_t bytes, double us) {
  if (!(us > 0)) return 0;
  const auto seconds = [](int64_t amount, double per_s) {
    return per_s > 0 ? static_cast<double>(amount) / per_s : 0;
  };
  return std::max(seconds(flops, peaks.flops_per_s), seconds(bytes, peaks.bytes_per_s)) /
         (us * 1e-6);
}

}  // namespace weft::tuner
