// Products of a vector and a matrix, which read each weight once: how near they come to a loop that
// only reads the same bytes, from the second cache, the last one and memory, in the same run, in
// turns, on one thread.
//
// Matrices that take turns lie one behind another, as the weights of a chain of layers do in a
// plan; "back" takes them in the opposite order, where what a kernel fetches ahead at its end is
// not what comes next.
//
//   gemv_bench [NAME [CHOICE]]   with a name: that case alone, its nest printed; with a choice in
//   the
//                                text form: that instead of the first proposal
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/load_for_test.h"
#include "polyhedral/schedule.h"
#include "tc_lang/bind.h"
#include "tc_lang/coalesce.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  std::string name, text;
};

Case Plain(std::string_view type, std::string_view of_x, std::string_view sum, int k, int n) {
  return {fmt::format("{} 1x{}x{}", type, k, n),
          fmt::format("def gemv({0}({1}) x, {2}({1}, {3}) W) -> (y) {{\n"
                      "  @contraction y(j) +=! {4}(x(p)) * {4}(W(p, j))\n}}",
                      of_x, k, type, n, sum)};
}

// As tc_lang/ops/dequantize_matmul.cpp writes it.
Case InBlocks(std::string_view type, int block, int k, int n) {
  return {fmt::format("{} 1x{}x{} b{}", type, k, n, block),
          fmt::format("def gemv(float({0}) x, {1}({0}, {2}) W, float({3}, {2}) S) -> (y) {{\n"
                      "  @contraction t(b, n) +=! x({4}*b + j) * float(W({4}*b + j, n)) where b in "
                      "0:{3}, j in 0:{4}\n"
                      "  @reduction y(n) +=! t(b, n) * S(b, n)\n}}",
                      k, type, n, k / block, block)};
}

// Matrices in one piece of memory, so many that no cache holds them all if they are to be cold.
class Operands {
 public:
  Operands(const loops::LoopNest& nest, int64_t least_bytes) {
    for (const loops::BufferId id : loops::Operands(nest)) {
      std::vector<int64_t> shape;
      for (const Affine& e : nest[id].shape) shape.push_back(e.constant());
      const int64_t elems = AllocElems(nest[id].layout, shape);
      const int64_t bytes = (elems * Bits(nest[id].dtype) / 8 + 63) / 64 * 64;
      const bool weights = nest[id].name == "W" || nest[id].name == "S";
      if (weights) {
        starts_.emplace_back(pointers_.size(), bytes_);
        bytes_ += bytes;
      }
      pointers_.push_back(weights ? nullptr : Allocate(bytes));
    }
    count_ = std::max<int64_t>(1, (least_bytes + bytes_ - 1) / bytes_);
    weights_ = static_cast<char*>(Allocate(count_ * bytes_));
    pointers_.push_back(
        Allocate(loops::RankScratchBytes(nest) + loops::TeamScratchBytes(nest) + 128));
  }

  int64_t bytes() const { return bytes_; }  // of one matrix with what belongs to it
  int64_t count() const { return count_; }
  const char* Weights(int64_t turn) const { return weights_ + turn * bytes_; }
  void* const* Take(int64_t turn) {
    for (const auto& [operand, start] : starts_)
      pointers_[operand] = weights_ + turn * bytes_ + start;
    return pointers_.data();
  }
  char* scratch() const { return static_cast<char*>(pointers_.back()); }

 private:
  // As the executor does, in huge pages where there are such; written, so that there are pages.
  void* Allocate(int64_t bytes) {
    auto* data = static_cast<uint8_t*>(memory_.emplace_back(AllocateZeroed(bytes + 4096)).get());
    for (int64_t i = 0; i < bytes; ++i)
      data[i] = static_cast<uint8_t>(48 + i % 13);  // normal floats
    return data;
  }

  std::vector<std::shared_ptr<void>> memory_;
  std::vector<void*> pointers_;                     // the scratch last
  std::vector<std::pair<size_t, int64_t>> starts_;  // operands among the weights
  char* weights_ = nullptr;
  int64_t bytes_ = 0, count_ = 1;
};

// Loads of whole vectors and nothing else; chains of their own, so that none waits for another.
__attribute__((target("avx2"))) void Read(const char* from, int64_t bytes) {
  __m256i sums[8] = {};  // NOLINT: no template takes the type
  const auto* at = reinterpret_cast<const __m256i*>(from);
  for (int64_t i = 0; i + 8 <= bytes / 32; i += 8) {
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_or_si256(sums[k], at[i + k]);
  }
#pragma GCC unroll 8
  for (const __m256i& sum : sums) asm volatile("" ::"x"(sum));
}

template <typename F>
double SecondsOf(F run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status Run(const Case& c, const Target& target, int64_t least_bytes, bool verbose,
           const char* choice) {
  WEFT_TRY(const std::vector<tc::Def> defs, tc::ParseDefs(c.text, c.name));
  WEFT_TRY(tc::Program program, tc::Bind(defs.at(0), {}));
  polyhedral::ScheduleRequest request{
      .program = &program, .constants = {"W", "S"}, .target = target, .flushes = true};
  tc::Coalesce(program, request.layouts, request.constants);
  std::vector<polyhedral::Choice> forced;
  if (choice) {
    WEFT_TRY(forced, polyhedral::ParseChoices(choice, "argument"));
  }
  WEFT_TRY(const polyhedral::Scheduled scheduled,
           polyhedral::Schedule(request, forced.empty() ? nullptr : &forced[0]));
  for (const Refusal& r : scheduled.refusals)
    fmt::print("  refused: {}: {}\n", ReasonName(r.reason), r.detail);
  if (verbose) fmt::print("{}\n{}\n", c.text, loops::Print(scheduled.nest));
  WEFT_TRY(const codegen::MachineCode code, codegen::EmitMachineCode(scheduled.nest, target));
  WEFT_TRY(const codegen::LoadedKernel kernel, codegen::LoadKernel(code, scheduled.nest.name));
  Operands operands(scheduled.nest, least_bytes);
  KernelFault fault{};
  const int32_t cancel = 0;
  const auto call = [&](int64_t turn) {
    const KernelArgs args{.buffers = operands.Take(turn),
                          .team_scratch = operands.scratch() +
                                          (loops::RankScratchBytes(scheduled.nest) + 63) / 64 * 64,
                          .rank_scratch = operands.scratch(),
                          .barrier = [](void*) {},
                          .fault = &fault,
                          .cancel = &cancel};
    kernel.function(&args, 0, 1);
  };
  const auto read = [&](int64_t turn) { Read(operands.Weights(turn), operands.bytes()); };
  // Short bursts, which a scheduler leaves alone: some matrices, or one again and again.
  constexpr int64_t kBurst = 4, kWarmBytes = 16 << 20;
  const int64_t count = operands.count();
  const int64_t burst =
      count > 1 ? std::min(kBurst, count) : std::max<int64_t>(1, kWarmBytes / operands.bytes());
  int64_t begun = 0;
  const auto rate = [&](bool forth, auto one) {  // each burst takes those after the last one's
    const double seconds = SecondsOf([&] {
      for (int64_t i = 0; i < burst; ++i) one((begun + (forth ? i : burst - 1 - i)) % count);
    });
    begun += burst;
    return static_cast<double>(burst * operands.bytes()) / seconds;
  };
  double best = 0, back = 0, reads = 0;
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::seconds(2);) {
    reads = std::max(reads, rate(true, read));
    best = std::max(best, rate(true, call));
    back = std::max(back, rate(false, call));
  }
  fmt::print("{:24} {:8.2f} MB {:7.1f} GB/s {:6.1f} % of {:.1f}, back {:5.1f} %   {}\n", c.name,
             static_cast<double>(operands.bytes()) / 1e6, best / 1e9, 100 * best / reads,
             reads / 1e9, 100 * back / reads, Print(scheduled.choice));
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
  constexpr int64_t kCold = 128 << 20;
  struct Level {
    std::string_view name;
    int k, n;  // of float32: n times as many columns where there are fewer bits
    int64_t least_bytes;
  };
  for (const Level& level :
       {Level{"second cache", 512, 256, 0}, Level{"last cache", 1024, 1024, 0},
        Level{"memory", 4096, 1024, kCold}, Level{"memory, small matrices", 1024, 512, kCold}}) {
    fmt::print("# {}\n", level.name);
    const auto [name, k, n, least_bytes] = level;
    for (const Case& c :
         {Plain("float", "float", "float", k, n), Plain("bfloat16", "bfloat16", "float", k, 2 * n),
          Plain("int8", "uint8", "int32", k, 4 * n), InBlocks("int8", 128, k, 4 * n),
          InBlocks("int4", 32, k, 4 * n), InBlocks("int4", 128, k, 4 * n)}) {
      if (argc > 1 && c.name != argv[1]) continue;
      if (const Status status =
              Run(c, *target, least_bytes, argc > 1, argc > 2 ? argv[2] : nullptr);
          !status.ok())
        return fmt::print("{}: {}\n", c.name, status.ToString()), 1;
    }
  }
}
