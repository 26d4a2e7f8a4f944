// The price model that needs no measurement: a roofline with cache levels.
#include <algorithm>
#include <cmath>
#include <map>

#include "partition/device_roofline.h"
#include "partition/partition.h"
#include "partition/work.h"

namespace weft::partition {
namespace {

// Per core, conservative for the server parts that the project targets; only ratios matter, since
// whatever is selected within a budget is measured. Bytes per microsecond and operations per cycle.
constexpr double kCyclesPerUs = 3000;
constexpr double kL2BytesPerUs = 80'000, kL3BytesPerUs = 40'000, kDramBytesPerUs = 15'000;
// A function, as multiply-adds that run at the peak: a polynomial, and one by pieces.
constexpr double kMathFlops = 40, kPiecewiseFlops = 24;
// What is stored between statements and read again, in passes of their own that nothing overlaps:
// Winograd's tiles in blocks, from 16 to 512 channels and 7 to 160 places (Zen 3).
constexpr double kStagedBytesPerUs = 40'000;
constexpr double kBarrierUs = 0.3, kLibraryCallUs = 2.5;
// Of a library's convolutions of plain images (4.3 to 7.2 ns for a clip, a sigmoid or a swish, 18
// for a tanh; 0.15 to 0.65 for an element of a grouped one's windows: Zen 5).
constexpr double kAloneUs = 6e-3, kUnfoldedUs = 0.35e-3;
// Of its deconvolutions without AVX-512, by way of matrices (2.6 to 28 ns for what they cost beyond
// their products: Zen 3).
constexpr double kFoldedUs = 5e-3;
// Of the peak. Own kernels of products and convolutions are 1.08 times as fast as a library's, on
// the geometric mean of `dev bench kernels` on Zen 1, 3, 4 and Sapphire Rapids.
constexpr double kOwnEfficiency = 0.85, kLibraryEfficiency = 0.8;

// Of the peak, with so many columns a group. Each product loads its own elements where there is
// one, and libraries fill vectors with channels of a group (from the grouped convolutions of `dev
// bench kernels` on Zen 1, Zen 4 and Sapphire Rapids, where libraries reach 0.15 to 0.25 and own
// kernels 0.35 to 0.55 with one column, and 0.26, 0.58 and 0.7 with 4, 8 and 16, own ones 0.75 and
// more). With one to three columns that are not of one channel each libraries multiply numbers,
// not vectors: 0.05 to 0.1 on Zen 4.
double OwnEfficiency(double columns) {
  return columns == 0 || columns >= 4 ? kOwnEfficiency : 0.45;
}
double LibraryEfficiency(double columns, double depth) {
  if (columns == 0 || columns > 16) return kLibraryEfficiency;
  const bool is_depthwise = columns == 1 && depth == 1;
  return columns < 4 && !is_depthwise ? 0.08 : columns < 8 ? 0.22 : 0.6;
}

double PeakFlopsPerUs(const Target& t) {
  return kCyclesPerUs * (static_cast<double>(t.VectorBytes()) / 4) * 2 * 2;  // two FMA units
}

// From half of the last cache on, the rest of which others fill, more and more comes from memory.
double BytesPerUs(const Target& t, double bytes) {
  if (bytes <= static_cast<double>(t.l2_bytes) / 2) return kL2BytesPerUs;
  const double half = static_cast<double>(t.l3_bytes) / 2;
  if (bytes <= half) return kL3BytesPerUs;
  return std::lerp(kL3BytesPerUs, kDramBytesPerUs, std::min(bytes / half - 1, 1.0));
}

// Time of compute and memory, mostly overlapped: what of the shorter is not.
constexpr double kExposed = 0.05;
double Roof(const Target& t, double flops_at_peak, double bytes) {
  const double threads = std::max(1, t.threads);
  const double compute = flops_at_peak / (PeakFlopsPerUs(t) * threads);
  const double memory = bytes / (BytesPerUs(t, bytes) * std::min(threads, 2.0));
  return compute + memory - (1 - kExposed) * std::min(compute, memory);
}

}  // namespace

Price RooflinePricer::Own(const tc::Program& program, bool in_blocks) {
  if (target_.kind == TargetKind::kCuda) return OwnOnDevice(target_.isa, program);
  // By what part of the peak they reach: whole numbers, whose sums don't depend on their order.
  const double piecewise = target_.HasAvx512() ? PiecewiseCalls(program) : 0;
  std::map<double, double> operations{
      {kOwnEfficiency,
       kMathFlops * (MathCalls(program) - piecewise) + kPiecewiseFlops * piecewise}};
  for (const tc::Statement& s : program.statements) {
    const double part =
        OwnEfficiency(ColumnsOfGroup(program, s)) * ProductsAtOnce(target_.isa, program, s);
    operations[part] +=
        std::round(static_cast<double>(tc::Flops(program, s)) * GuardedShare(program, s));
  }
  double flops = 0;
  for (const auto& [part, count] : operations) flops += count / part;
  const double staged = StagedBytes(program);
  const double cores = std::clamp(target_.threads, 1, 2);
  const double passed = in_blocks ? kExposed * staged / kL2BytesPerUs : staged / kStagedBytesPerUs;
  return {.us = kBarrierUs + passed / cores +
                Roof(target_, flops, static_cast<double>(tc::OperandBytes(program)))};
}

Price RooflinePricer::Call(const fallback::LibraryCall& call) {
  if (target_.kind == TargetKind::kCuda) return CallOnDevice(target_.isa, call);
  const CallWork work = WorkOf(call);
  const double flops = kMathFlops * work.math / kLibraryEfficiency +
                       work.flops * work.unpadded /
                           (LibraryEfficiency(work.columns, work.depth_of_group) *
                            ProductsAtOnce(target_.isa, work.factors[0], work.factors[1]));
  const double folded = target_.HasAvx512() ? 0 : kFoldedUs * work.folded;
  const double by_element = (kAloneUs * work.alone + kUnfoldedUs * work.unfolded + folded) /
                            std::clamp(target_.threads, 1, 2);
  return {.us = kLibraryCallUs + by_element + Roof(target_, flops, work.bytes)};
}

}  // namespace weft::partition
