// Contractions through the whole path, comprehension to machine code as budget 0 would choose it,
// against the peak of the machine's multipliers measured in the same run, in turns, on one thread.
//
//   contraction_bench [name [choice]]   with a name: that case alone, its nest printed; with a
//   choice
//                                       in the text form: that instead of the first proposal
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "bench/kernels/peaks.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/load_for_test.h"
#include "polyhedral/schedule.h"
#include "tc_lang/bind.h"
#include "tc_lang/coalesce.h"

namespace weft {
namespace {

using bench::Clock;
using bench::Seconds;

// Time of this thread on a core: on a shared machine a kernel of many milliseconds would else be
// charged for its neighbours. Too coarse for short ones, whose best run is undisturbed.
double CoreSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Case {
  std::string name, text;
  bool bf16 = false;
};

std::string Matmul(int m, int n, int k, std::string_view type = "float") {
  return fmt::format(
      "def gemm({3}({0}, {2}) a, {3}({2}, {1}) W, {3}({1}) b) -> (y) {{\n"
      "  @contraction t(i, j) +=! float(a(i, p)) * float(W(p, j))\n"
      "  @pointwise y(i, j) = {3}(max(t(i, j) + float(b(j)), 0.0))\n}}",
      m, n, k, type);
}

std::string Conv(bool channels_last, int size, int in, int out, int kernel, int stride,
                 bool residual = false, std::string_view type = "float") {
  const int pad = kernel / 2, result = (size - 1) / stride + 1;
  const auto place = [&](auto n, auto c, auto h, auto w) {
    return channels_last ? fmt::format("{}, {}, {}, {}", n, h, w, c)
                         : fmt::format("{}, {}, {}, {}", n, c, h, w);
  };
  const auto at = [&](const char* i, const char* tap) {
    if (kernel > 1) return fmt::format("{}*{}+{}-{}", stride, i, tap, pad);
    return stride > 1 ? fmt::format("{}*{}", stride, i) : std::string(i);
  };
  const std::string h = at("h", "r"), w = at("w", "s"), y = place("n", "k", "h", "w");
  const std::string guard =
      kernel == 1 ? ""
                  : fmt::format("{0} >= 0 && {0} < {2} && {1} >= 0 && {1} < {2} ? ", h, w, size);
  const std::string z = fmt::format(", {}({}) z", type, place(1, out, result, result));
  return fmt::format(
      "def conv({11}({0}) x, {11}({1}, {2}, {3}, {3}) W, {11}({1}) b{4}) -> (y) {{\n"
      "  @convolution t({5}) +=! {6}float(x({7})) * float(W(k, c, r, s)){8} where n in 0:1, k in "
      "0:{1}, h in 0:{9}, w in 0:{9}, c in 0:{2}, r in 0:{3}, s in 0:{3}\n"
      "  @pointwise y({5}) = {11}(max(t({5}) + float(b(k)){10}, 0.0))\n}}",
      place(1, in, size, size), out, in, kernel, residual ? z : "", y, guard, place("n", "c", h, w),
      guard.empty() ? "" : " : 0.0", result, residual ? fmt::format(" + float(z({}))", y) : "",
      type);
}

std::string Depthwise(bool channels_last, int size, int channels) {
  const std::string at = channels_last ? "n, h, w, k" : "n, k, h, w";
  return fmt::format(
      "def conv(float({}) x, float({}, 3, 3) W, float({}) b) -> (y) {{\n"
      "  @convolution t({}) +=! h+r-1 >= 0 && h+r-1 < {} && w+s-1 >= 0 && w+s-1 < {} ? x({}) * "
      "W(k, r, s) : 0.0 "
      "where n in 0:1, k in 0:{}, h in 0:{}, w in 0:{}, r in 0:3, s in 0:3\n"
      "  @pointwise y({}) = max(t({}) + b(k), 0.0)\n}}",
      channels_last ? fmt::format("1, {0}, {0}, {1}", size, channels)
                    : fmt::format("1, {1}, {0}, {0}", size, channels),
      channels, channels, at, size, size,
      channels_last ? "n, h+r-1, w+s-1, k" : "n, k, h+r-1, w+s-1", channels, size, size, at, at);
}

struct Buffers {
  explicit Buffers(const loops::LoopNest& nest) {
    for (const loops::BufferId id : loops::Operands(nest)) {
      if (nest[id].name == "W") weights = pointers.size();
      std::vector<int64_t> shape;
      for (const Affine& e : nest[id].shape) shape.push_back(e.constant());
      const Dtype dtype = nest[id].dtype;
      const int64_t elems = AllocElems(nest[id].layout, shape);
      pointers.push_back(Fill(dtype, elems));
      if (nest[id].name != "W") continue;
      copies.push_back(pointers.back());
      while (static_cast<int64_t>(copies.size()) * elems * SizeBytes(dtype) < kColdBytes)
        copies.push_back(Fill(dtype, elems));
    }
    pointers.push_back(
        Allocate(loops::RankScratchBytes(nest) + loops::TeamScratchBytes(nest) + 128));
  }
  // As the executor does: in huge pages where there are such.
  void* Allocate(int64_t bytes) { return memory.emplace_back(AllocateZeroed(bytes)).get(); }
  void* Fill(Dtype dtype, int64_t elems) {
    void* data = Allocate(elems * SizeBytes(dtype) + 64);
    for (int64_t i = 0; i < elems; ++i)
      StoreScalar(dtype, data, i, ScalarOf(dtype, static_cast<double>(i % 7) - 3));
    return data;
  }
  // In a network the other layers' weights have passed through the caches since the last run.
  void NextWeights() {
    if (!copies.empty()) pointers[weights] = copies[++turn % copies.size()];
  }
  static constexpr int64_t kColdBytes = 96 << 20;
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> pointers;  // the scratch last
  std::vector<void*> copies;    // of the weights
  size_t weights = 0, turn = 0;
};

// What a kernel needs beside its operands, for a team of one.
KernelArgs Args(const loops::LoopNest& nest, const Buffers& buffers, KernelFault& fault,
                const int32_t& cancel) {
  char* scratch = static_cast<char*>(buffers.pointers.back());
  return {.buffers = buffers.pointers.data(),
          .team_scratch = scratch + (loops::RankScratchBytes(nest) + 63) / 64 * 64,
          .rank_scratch = scratch,
          .barrier = [](void*) {},
          .fault = &fault,
          .cancel = &cancel};
}

Status Run(const Case& c, const Target& target, bool verbose, const char* choice) {
  WEFT_TRY(const std::vector<tc::Def> defs, tc::ParseDefs(c.text, c.name));
  WEFT_TRY(tc::Program program, tc::Bind(defs.at(0), {}));
  polyhedral::ScheduleRequest request{
      .program = &program, .constants = {"W"}, .target = target, .flushes = true};
  tc::Coalesce(program, request.layouts, request.constants);
  auto start = Clock::now();
  std::vector<polyhedral::Choice> forced;
  if (choice) {
    WEFT_TRY(forced, polyhedral::ParseChoices(choice, "argument"));
  }
  WEFT_TRY(const polyhedral::Scheduled scheduled,
           polyhedral::Schedule(request, forced.empty() ? nullptr : &forced[0]));
  const double schedule_ms = Seconds(start) * 1e3;
  if (verbose)
    fmt::print("{}{}\n{}\n", c.text, Print(scheduled.choice), loops::Print(scheduled.nest));
  for (const Refusal& r : scheduled.refusals)
    fmt::print("  refused: {}: {}\n", ReasonName(r.reason), r.detail);
  start = Clock::now();
  WEFT_TRY(const codegen::MachineCode code, codegen::EmitMachineCode(scheduled.nest, target));
  const double code_ms = Seconds(start) * 1e3;
  WEFT_TRY(const codegen::LoadedKernel kernel, codegen::LoadKernel(code, scheduled.nest.name));
  Buffers buffers(scheduled.nest);
  KernelFault fault{};
  const int32_t cancel = 0;
  const KernelArgs args = Args(scheduled.nest, buffers, fault, cancel);
  const auto flops = static_cast<double>(tc::Flops(program));
  const int calls = std::max(1, static_cast<int>(2e7 / flops));
  double best = 0, peak = 0;
  std::vector<double> warms, colds;
  for (const auto begin = Clock::now(); Seconds(begin) < 1.0;) {
    peak = std::max(peak, bench::Peak(c.bf16 ? Dtype::kBF16 : Dtype::kF32, target.isa));
    start = Clock::now();
    const double core = CoreSeconds();
    for (int i = 0; i < calls; ++i) kernel.function(&args, 0, 1);
    const double seconds = flops > 2e8 ? CoreSeconds() - core : Seconds(start);
    warms.push_back(flops * calls / seconds);
    best = std::max(best, warms.back());
    start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      buffers.NextWeights();
      kernel.function(&args, 0, 1);
    }
    colds.push_back(flops * calls / Seconds(start));
  }
  const double warm = bench::Median(warms), cold = bench::Median(colds);
  fmt::print(
      "{:28} {:7.1f} GF/s {:6.1f} % of {:.1f}, median {:5.1f} %, cold {:5.1f} %   schedule {:5.1f} "
      "ms (isl {:4.1f}), "
      "code {:5.1f} ms   {}\n",
      c.name, best / 1e9, 100 * best / peak, peak / 1e9, 100 * warm / peak, 100 * cold / peak,
      schedule_ms, scheduled.isl_ms, code_ms, Print(scheduled.choice));
  std::fflush(stdout);
  return {};
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;  // NOLINT
  auto target = HostTarget();
  if (!target.ok()) return fmt::print("{}\n", target.status().ToString()), 1;
  target->threads = 1;
  const std::vector<Case> cases = {
      {"matmul 128x768x768", Matmul(128, 768, 768)},
      {"matmul 512x768x3072", Matmul(512, 768, 3072)},
      {"matmul 196x1024x256", Matmul(196, 1024, 256)},
      {"matmul 1x1024x1024", Matmul(1, 1024, 1024)},
      {"q k^t 12x128x128x64",
       "def qk(float(12, 128, 64) q, float(12, 128, 64) k) -> (y) {\n"
       "  @contraction y(b, i, j) +=! q(b, i, d) * k(b, j, d)\n}"},
      {"nhwc 3x3 64 @56", Conv(true, 56, 64, 64, 3, 1)},
      {"nhwc 3x3 128 @28", Conv(true, 28, 128, 128, 3, 1)},
      {"nhwc 3x3 256 @14", Conv(true, 14, 256, 256, 3, 1)},
      {"nhwc 3x3 512 @7", Conv(true, 7, 512, 512, 3, 1)},
      {"nhwc 3x3/2 128 @56", Conv(true, 56, 128, 128, 3, 2)},
      {"nhwc 1x1 64-256 @56", Conv(true, 56, 64, 256, 1, 1)},
      {"nhwc 1x1 256-64 @56", Conv(true, 56, 256, 64, 1, 1)},
      {"nhwc 1x1 256-1024 @14 +z", Conv(true, 14, 256, 1024, 1, 1, true)},
      {"nhwc 1x1 1024-256 @14", Conv(true, 14, 1024, 256, 1, 1)},
      {"nhwc 1x1 512-2048 @7 +z", Conv(true, 7, 512, 2048, 1, 1, true)},
      {"nhwc 1x1 2048-512 @7", Conv(true, 7, 2048, 512, 1, 1)},
      {"nhwc 1x1/2 1024-2048 @14", Conv(true, 14, 1024, 2048, 1, 2)},
      {"nhwc 7x7/2 3-64 @224", Conv(true, 224, 3, 64, 7, 2)},
      {"nhwc depthwise 144 @56", Depthwise(true, 56, 144)},
      {"nchw 3x3 64 @56", Conv(false, 56, 64, 64, 3, 1)},
      {"nchw 3x3 256 @14", Conv(false, 14, 256, 256, 3, 1)},
      {"nchw 1x1 64-256 @56", Conv(false, 56, 64, 256, 1, 1)},
      {"nchw 3x3/2 128 @56", Conv(false, 56, 128, 128, 3, 2)},
      {"nchw depthwise 144 @56", Depthwise(false, 56, 144)},
      {"bf16 matmul 128x768x768", Matmul(128, 768, 768, "bfloat16"), true},
      {"bf16 matmul 512x768x3072", Matmul(512, 768, 3072, "bfloat16"), true},
      {"bf16 matmul 196x1024x256", Matmul(196, 1024, 256, "bfloat16"), true},
      {"bf16 matmul 1x1024x1024", Matmul(1, 1024, 1024, "bfloat16"), true},
      {"bf16 nhwc 3x3 64 @56", Conv(true, 56, 64, 64, 3, 1, false, "bfloat16"), true},
      {"bf16 nhwc 3x3 256 @14", Conv(true, 14, 256, 256, 3, 1, false, "bfloat16"), true},
      {"bf16 nhwc 3x3 512 @7", Conv(true, 7, 512, 512, 3, 1, false, "bfloat16"), true},
      {"bf16 nhwc 1x1 64-256 @56", Conv(true, 56, 64, 256, 1, 1, false, "bfloat16"), true},
      {"bf16 nhwc 1x1 256-64 @56", Conv(true, 56, 256, 64, 1, 1, false, "bfloat16"), true},
      {"bf16 nhwc 1x1 1024-256 @14", Conv(true, 14, 1024, 256, 1, 1, false, "bfloat16"), true},
  };
  for (const Case& c : cases) {
    if (argc > 1 && c.name != argv[1]) continue;
    if (const Status status = Run(c, *target, argc > 1, argc > 2 ? argv[2] : nullptr);
        !status.ok()) {
      return fmt::print("{}: {}\n", c.name, status.ToString()), 1;
    }
  }
}
