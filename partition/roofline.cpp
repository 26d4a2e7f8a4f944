// The price model that needs no measurement: a roofline with cache levels.
#include <algorithm>
#include <cmath>

#include "partition/device_roofline.h"
#include "partition/partition.h"
#include "partition/work.h"

namespace weft::partition {
namespace {

// Per core, conservative for the server parts that the project targets; only ratios matter, since
// whatever is selected within a budget is measured. Bytes per microsecond and operations per cycle.
constexpr double kCyclesPerUs = 3000;
constexpr double kL2BytesPerUs = 80'000, kL3BytesPerUs = 40'000, kDramBytesPerUs = 15'000;
constexpr double kMathFlops = 12;  // a polynomial, against one multiply-add
// What passes through memory between statements: stored and read in passes of their own, that
// nothing overlaps (fitted to Winograd's transforms from 16 to 512 channels).
constexpr double kStagedBytesPerUs = 15'000;
constexpr double kBarrierUs = 0.3, kLibraryCallUs = 2.5;
constexpr double kOwnEfficiency = 0.85, kLibraryEfficiency = 0.85;

double PeakFlopsPerUs(const Target& t) {
  return kCyclesPerUs * (static_cast<double>(t.VectorBytes()) / 4) * 2 * 2;  // two FMA units
}

double BytesPerUs(const Target& t, double bytes) {
  if (bytes <= static_cast<double>(t.l2_bytes) / 2) return kL2BytesPerUs;
  if (bytes <= static_cast<double>(t.l3_bytes) / 2) return kL3BytesPerUs;
  return kDramBytesPerUs;
}

// Time of compute and memory, mostly overlapped: what of the shorter is not.
constexpr double kExposed = 0.05;
double Roof(const Target& t, double flops, double bytes, double efficiency) {
  const double threads = std::max(1, t.threads);
  const double compute = flops / (PeakFlopsPerUs(t) * efficiency * threads);
  const double memory = bytes / (BytesPerUs(t, bytes) * std::min(threads, 2.0));
  return compute + memory - (1 - kExposed) * std::min(compute, memory);
}

}  // namespace

Price RooflinePricer::Own(const tc::Program& program, bool in_blocks) {
  if (target_.kind == TargetKind::kCuda) return OwnOnDevice(target_.isa, program);
  const double flops = static_cast<double>(tc::Flops(program)) + kMathFlops * MathCalls(program);
  const double staged = StagedBytes(program);
  const double cores = std::clamp(target_.threads, 1, 2);
  const double passed = in_blocks ? kExposed * staged / kL2BytesPerUs : staged / kStagedBytesPerUs;
  return {.us =
              kBarrierUs + passed / cores +
              Roof(target_, flops, static_cast<double>(tc::OperandBytes(program)), kOwnEfficiency)};
}

Price RooflinePricer::Call(const fallback::LibraryCall& call) {
  if (target_.kind == TargetKind::kCuda) return CallOnDevice(target_.isa, call);
  const CallWork work = WorkOf(call);
  return {.us = kLibraryCallUs + Roof(target_, work.flops, work.bytes, kLibraryEfficiency)};
}

}  // namespace weft::partition
