// How near a register-tile contraction comes to the peak of the machine's multipliers, both
// measured in the same run, in turns: on a shared machine only their ratio means something.
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "codegen/llvm/emit.h"
#include "codegen/llvm/load_for_test.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

constexpr int64_t kPeakRounds = 20000;

// 12 independent chains of multiply-add fill the latency of two units. Gives operations per second.
__attribute__((target("avx2,fma"))) double MeasurePeak() {
  __m256 sum[12];
#pragma GCC unroll 12
  for (auto& s : sum) s = _mm256_set1_ps(1.0F);
#pragma GCC unroll 12
  for (auto& s : sum) asm volatile("" : "+x"(s));  // unknown to the compiler, so chains stay apart
  __m256 x = _mm256_set1_ps(0.999F);
  const auto start = Clock::now();
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm256_fmadd_ps(x, s, x);
    asm volatile("" : "+x"(x));
  }
  const double seconds = Seconds(start);
#pragma GCC unroll 12
  for (auto& s : sum) asm volatile("" ::"x"(s));
  return static_cast<double>(kPeakRounds) * 12 * 16 / seconds;
}

// The same of VDPBF16PS, which takes two multiply-adds for each of 16 lanes.
__attribute__((target("avx512f,avx512bf16"))) double MeasureBf16Peak() {
  __m512 sum[12];
  __m512i pairs = _mm512_set1_epi16(0x3f7f);  // 0.996
#pragma GCC unroll 12
  for (auto& s : sum) s = _mm512_set1_ps(1.0F);
#pragma GCC unroll 12
  for (auto& s : sum) asm volatile("" : "+v"(s));
  const auto start = Clock::now();
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm512_dpbf16_ps(s, (__m512bh)pairs, (__m512bh)pairs);
    asm volatile("" : "+v"(pairs));
  }
  const double seconds = Seconds(start);
#pragma GCC unroll 12
  for (auto& s : sum) asm volatile("" ::"v"(s));
  return static_cast<double>(kPeakRounds) * 12 * 64 / seconds;
}

struct Leaf {
  int rows, columns, depth, tiles, unroll;
  bool bf16 = false;  // pairs, and unrolled by as many
};

std::string Bf16LeafText(const Leaf& leaf) {
  return fmt::format(
      R"(loops leaf (a: in bf16[{m}, {k}], b: in bf16[{k}, {n}] layout "Ab2a" align 64, c: out f32[{m}, {n}]) {{
  reg acc: f32[{mr}, {n}]
  parallel i = 0:{m}:{mr} {{
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ acc[r, v] = 0.0 }} }}
    for k0 = 0:{pairs} {{
      unroll r = 0:{mr} {{ vector v = 0:{n} {{ unroll k = 0:2 {{
        acc[r, v] = fma_flush(a[i + r, 2*k0 + 1 - k], b[2*k0 + 1 - k, v], acc[r, v]) }} }} }} }}
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ c[i + r, v] = acc[r, v] }} }} }} }})",
      fmt::arg("m", leaf.rows * leaf.tiles), fmt::arg("k", leaf.depth), fmt::arg("n", leaf.columns),
      fmt::arg("mr", leaf.rows), fmt::arg("pairs", leaf.depth / 2));
}

std::string LeafText(const Leaf& leaf) {
  return fmt::format(
      R"(loops leaf (a: in f32[{m}, {k}], b: in f32[{k}, {n}] align 64, c: out f32[{m}, {n}]) {{
  reg acc: f32[{mr}, {n}]
  parallel i = 0:{m}:{mr} {{
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ acc[r, v] = 0.0 }} }}
    for k0 = 0:{k}:{u} {{ unroll k = k0:k0 + {u} {{
      unroll r = 0:{mr} {{ vector v = 0:{n} {{ acc[r, v] = fma(a[i + r, k], b[k, v], acc[r, v]) }} }} }} }}
    unroll r = 0:{mr} {{ vector v = 0:{n} {{ c[i + r, v] = acc[r, v] }} }} }} }})",
      fmt::arg("m", leaf.rows * leaf.tiles), fmt::arg("k", leaf.depth), fmt::arg("n", leaf.columns),
      fmt::arg("mr", leaf.rows), fmt::arg("u", leaf.unroll));
}

void* Filled(Dtype dtype, size_t elems) {
  void* data = std::aligned_alloc(64, (elems * SizeBytes(dtype) + 63) / 64 * 64);
  for (size_t i = 0; i < elems; ++i) {
    StoreScalar(dtype, data, static_cast<int64_t>(i),
                ScalarOf(dtype, static_cast<double>(i % 7) - 3));
  }
  return data;
}

int Run(const Leaf& leaf, const Target& target) {
  const Result<loops::LoopNest> nest =
      loops::Parse(leaf.bf16 ? Bf16LeafText(leaf) : LeafText(leaf), "leaf");
  if (!nest.ok() || !loops::Verify(*nest).ok())
    return fmt::print("{}\n", nest.status().ToString()), 1;
  double compile = 1e9;
  Result<codegen::MachineCode> code = Internal("not compiled");
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    code = codegen::EmitMachineCode(*nest, target);
    compile = std::min(compile, Seconds(start));
  }
  if (!code.ok()) return fmt::print("{}\n", code.status().ToString()), 1;
  const Result<codegen::LoadedKernel> kernel = codegen::LoadKernel(*code, "leaf");
  const int64_t m = leaf.rows * leaf.tiles;
  const Dtype dtype = leaf.bf16 ? Dtype::kBF16 : Dtype::kF32;
  void* buffers[] = {Filled(dtype, m * leaf.depth), Filled(dtype, leaf.depth * leaf.columns),
                     Filled(Dtype::kF32, m * leaf.columns)};
  const KernelArgs args = {.buffers = buffers};
  double best = 0, peak = 0;
  const double flops = 2.0 * static_cast<double>(m) * leaf.depth * leaf.columns;
  const int calls = std::max(1, static_cast<int>(2e6 / flops));
  for (int round = 0; round < 400; ++round) {
    peak = std::max(peak, leaf.bf16 ? MeasureBf16Peak() : MeasurePeak());
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) kernel->function(&args, 0, 1);
    best = std::max(best, flops * calls / Seconds(start));
  }
  fmt::print(
      "{} {}x{} depth {} unroll {}: {:6.1f} GF/s, {:5.1f} % of {:.1f}; compiled in {:.1f} ms\n",
      DtypeName(dtype), leaf.rows, leaf.columns, leaf.depth, leaf.unroll, best / 1e9,
      100 * best / peak, peak / 1e9, compile * 1e3);
  for (void* buffer : buffers) std::free(buffer);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const weft::Target target{};
  if (argc > 1) {  // the object, for objdump
    const auto nest = weft::loops::Parse(weft::LeafText({6, 16, 256, 8, 1}), "leaf");
    const auto code = weft::codegen::EmitMachineCode(*nest, target);
    std::FILE* file = std::fopen(argv[1], "wb");
    std::fwrite(code->shared_object.data(), 1, code->shared_object.size(), file);
    std::fclose(file);
    return 0;
  }
  for (const weft::Leaf& leaf :
       {weft::Leaf{6, 16, 256, 8, 1}, weft::Leaf{6, 16, 256, 8, 2}, weft::Leaf{6, 16, 256, 8, 4},
        weft::Leaf{6, 16, 64, 8, 1}, weft::Leaf{4, 24, 256, 8, 1}, weft::Leaf{5, 16, 256, 8, 1},
        weft::Leaf{6, 14, 256, 8, 1}}) {
    if (weft::Run(leaf, target) != 0) return 1;
  }
  const weft::Target bf16{.isa = weft::Isa::kX86V4Bf16};
  for (const weft::Leaf& leaf :
       {weft::Leaf{6, 64, 256, 8, 2, true}, weft::Leaf{8, 48, 256, 8, 2, true},
        weft::Leaf{12, 32, 256, 8, 2, true}, weft::Leaf{6, 64, 768, 8, 2, true}}) {
    if (weft::HostRuns(bf16.isa) && weft::Run(leaf, bf16) != 0) return 1;
  }
}
