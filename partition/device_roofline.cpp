#include "partition/device_roofline.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "partition/work.h"
#include "polyhedral/cuda/rows.h"
#include "polyhedral/cuda/sums.h"

namespace weft::partition {
namespace {

constexpr double kMathFlops = 20;  // exp in f32, without approximations, against one multiply-add
// Between two kernels of a CUDA graph on an H100: Hazy Research, "Look Ma, No Bubbles!".
constexpr double kLaunchUs = 1.3;
// Of the data sheet's figures, what a copy reaches, and a large product of cuBLASLt's.
constexpr double kMemoryShare = 0.9, kLibraryShare = 0.8;
// A tile of our own waits for each part of its factors (polyhedral/cuda/tiles.h).
constexpr double kOwnShare = 0.5;
constexpr double kPartSteps = 16, kPartUs = 0.8;  // memory's latency, and two barriers
// Results that a thread has of a sum of products, which are as many chains of multiply-adds.
constexpr double kResultsOfThread = 16;
// Libraries sum long sums up in several places where results are few; summands of a place.
constexpr double kSummandsOfPlace = 256;
constexpr double kMostThreadsOfRow = 1024;  // of a block, which sums a row up
// Threads that keep a multiprocessor's 128 lanes busy: with many chains each, and with one.
constexpr double kBusyWithChains = 128, kBusyThreads = 512;
// Little's law: bytes under way are bandwidth times latency. Of a thread, four words.
constexpr double kThreadBytes = 16, kMemoryLatencyUs = 0.6, kL2LatencyUs = 0.2;
constexpr double kExposed = 0.05;  // of the shorter of compute and memory

struct Work {
  double flops = 0, bytes = 0;
  double threads = 1;
  bool contracts = false;
};

double Roof(const DeviceFigures& d, const Work& work, double share) {
  const double busy = (work.contracts ? kBusyWithChains : kBusyThreads) * d.multiprocessors;
  const double compute = work.flops / (d.flops_per_us * share * std::min(1.0, work.threads / busy));
  const bool in_l2 = work.bytes <= d.l2_bytes / 2;
  const double rate = (in_l2 ? d.l2_per_us : d.memory_per_us) * kMemoryShare;
  const double under_way = work.threads * kThreadBytes / (in_l2 ? kL2LatencyUs : kMemoryLatencyUs);
  const double memory = work.bytes / std::min(rate, under_way);
  return compute + memory - (1 - kExposed) * std::min(compute, memory);
}

struct Extents {
  double points = 1, depth = 1;  // of results, and of what is reduced to each
};

// A few long sums are made in parts, which another launch adds up (polyhedral/cuda/sums.h).
struct Split {
  double parts = 1, threads = 1;
};

// How many reads move side by side with an index.
int64_t ReadsAlong(const tc::Program& p, const tc::Statement& s, size_t index) {
  return std::ranges::count_if(tc::Reads(p, s), [&](tc::ExprId read) {
    if (p[read].args.empty()) return false;
    const auto last = tc::AsAffine(p, p[read].args.back());
    return last && std::abs(last->CoefficientOf(static_cast<Var>(index))) == 1;
  });
}

Split SplitOf(const tc::Program& p, const tc::Statement& s, const Extents& e) {
  const auto is_reduced = [&](size_t i) { return s.indices[i].reduction; };
  size_t kept = 0;
  while (kept < s.indices.size() && !is_reduced(kept)) ++kept;
  if (kept == s.indices.size() || !IsFloat(s.accumulate) || s.companion.valid()) return {};
  const bool across =
      kept > 0 && ReadsAlong(p, s, kept - 1) > ReadsAlong(p, s, s.indices.size() - 1);
  constexpr double kMost = int64_t{1} << 40;  // of either: their product is to fit
  Split split;
  const int64_t parts = polyhedral::cuda::PartsToFill(
      std::max<int64_t>(1, std::min(e.points, kMost)), std::min(e.depth, kMost), across);
  if (parts < 2) return {};
  split.parts = static_cast<double>(parts);
  split.threads =
      e.points * split.parts * (across ? 1 : std::min(e.depth / split.parts, kMostThreadsOfRow));
  return split;
}

Extents ExtentsOf(const tc::Statement& s) {
  Extents e;
  for (const tc::Index& i : s.indices)
    if (i.lo.IsConstant() && i.hi.IsConstant())
      (i.reduction ? e.depth : e.points) *=
          static_cast<double>(std::max<int64_t>(1, i.hi.constant() - i.lo.constant()));
  return e;
}

}  // namespace

DeviceFigures FiguresOf(Isa isa) {
  // f32 and memory: the data sheets. L2 and multiprocessors: the architecture's white paper, or its
  // tuning guide. What L2 gives in a cycle, 5120 bytes, is said of the A100 only ("NVIDIA A100
  // Tensor Core GPU Architecture"), and taken for all at their boost clocks.
  constexpr double kL2BytesPerCycle = 5120;
  switch (isa) {
    case Isa::kSm80:  // "NVIDIA A100 Tensor Core GPU", 80GB SXM; 1410 MHz
      return {19.5e6, 2.039e6, kL2BytesPerCycle * 1410, 40 << 20, 108};
    case Isa::kSm90:  // "NVIDIA H100 Tensor Core GPU", SXM; 1980 MHz; "Hopper Tuning Guide"
      return {67e6, 3.35e6, kL2BytesPerCycle * 1980, 50 << 20, 132};
    case Isa::kSm100:  // "NVIDIA Blackwell Architecture Technical Brief", HGX B200; 1965 MHz;
                       // "Blackwell Tuning Guide"
      return {80e6, 8e6, kL2BytesPerCycle * 1965, 126 << 20, 148};
    case Isa::kX86V3:
    case Isa::kX86V4:
    case Isa::kX86V4Vnni:
    case Isa::kX86V4Bf16:
    case Isa::kX86V4Amx:
      break;
  }
  WEFT_CHECK(false, "isa {} is no device's", static_cast<int>(isa));
  return {};
}

Price OwnOnDevice(Isa isa, const tc::Program& program) {
  const DeviceFigures device = FiguresOf(isa);
  Work work{.flops = static_cast<double>(tc::Flops(program)) + kMathFlops * MathCalls(program),
            .bytes = static_cast<double>(tc::OperandBytes(program))};
  // What has most to do decides how many threads there are. Several sums of one row that the blocks
  // of a cluster hold are not split (polyhedral/cuda/rows.h).
  const auto sums = std::ranges::count_if(program.statements, tc::Reduces);
  double most = 0, waits = 0, launches = 1;
  for (const tc::Statement& s : program.statements) {
    const Extents e = ExtentsOf(s);
    const bool in_cluster =
        HasClusters(isa) && sums > 1 && e.depth <= polyhedral::cuda::kMostOfCluster;
    const Split split = in_cluster ? Split{} : SplitOf(program, s, e);
    const bool contracts = tc::Contracts(s) && split.parts == 1;
    if (split.parts > 1) launches += 1;
    if (contracts) waits = std::max(waits, e.depth / kPartSteps * kPartUs);
    if (e.points * e.depth < most) continue;
    most = e.points * e.depth;
    work.contracts = contracts;
    work.threads = split.parts > 1 ? split.threads
                   : contracts     ? e.points / kResultsOfThread
                                   : e.points * std::min(e.depth, kMostThreadsOfRow);
  }
  work.threads = std::max(work.threads, 1.0);
  const double staged = StagedBytes(program) /
                        (std::min(1.0, work.threads / (kBusyThreads * device.multiprocessors)) *
                         device.l2_per_us * kMemoryShare);
  return {.us = launches * kLaunchUs + staged + std::max(waits, Roof(device, work, kOwnShare))};
}

Price CallOnDevice(Isa isa, const fallback::LibraryCall& call) {
  const CallWork counted = WorkOf(call);
  Work work{.flops = counted.flops,
            .bytes = counted.bytes,
            .threads = counted.results,
            .contracts = counted.depth > 1};
  if (work.contracts)
    work.threads *= std::max(1.0, counted.depth / kSummandsOfPlace) / kResultsOfThread;
  work.threads = std::max(work.threads, 1.0);
  return {.us = kLaunchUs + Roof(FiguresOf(isa), work, kLibraryShare)};
}

}  // namespace weft::partition
