// What a plan is compiled for: an instruction set, its caches and its threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft {

enum class TargetKind : uint8_t { kCpu, kCuda };
// kX86V4Vnni: AVX512_VNNI too, as in every server of the last years; kX86V4Bf16: AVX512_BF16 as
// well; kX86V4Amx: AMX-TILE, AMX-INT8 and AMX-BF16 as well.
enum class Isa : uint8_t {
  kX86V3,
  kX86V4,
  kX86V4Vnni,
  kX86V4Bf16,
  kX86V4Amx,
  kSm80,
  kSm90,
  kSm100
};
// Instructions that multiply pairs or quads of small integers and add them to a sum of 32 bits.
inline bool HasDotProducts(Isa isa) { return isa >= Isa::kX86V4Vnni && isa <= Isa::kX86V4Amx; }
// The same of pairs of bfloat16, added to a sum of f32.
inline bool HasBfloatProducts(Isa isa) { return isa == Isa::kX86V4Bf16 || isa == Isa::kX86V4Amx; }
// Instructions that multiply matrices of bytes, 16 rows of 64 with 64 by 16 of them.
inline bool HasMatrixProducts(Isa isa) { return isa == Isa::kX86V4Amx; }
// Blocks that run at the same time and read each other's shared memory.
inline bool HasClusters(Isa isa) { return isa >= Isa::kSm90; }

struct Target {
  TargetKind kind = TargetKind::kCpu;
  Isa isa = Isa::kX86V3;
  int32_t threads = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 16 << 20;  // L1, L2 a core; L3 shared
  bool operator==(const Target&) const = default;

  bool HasAvx512() const { return isa >= Isa::kX86V4 && isa <= Isa::kX86V4Amx; }
  int32_t VectorBytes() const { return HasAvx512() ? 64 : 32; }  // CPU
  int32_t VectorRegisters() const { return HasAvx512() ? 32 : 16; }
};

// "cpu", "cpu:native", "cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_90". `cpu` is cpu:native. Threads
// come from the cgroup quota and the affinity mask. An ISA that this machine lacks can be compiled
// for but not run. What Print gives reads back as the same target; without its `threads=`, threads
// and caches of a CPU are this machine's, and those of a CUDA target, which runs elsewhere, the
// defaults.
Result<Target> ParseTarget(std::string_view text);
std::string Print(const Target& target);  // "cpu:x86-64-v4 threads=2"; caches only if not default
Result<Target> HostTarget();
int32_t UsableThreads();
// The processor as it names itself, "AMD EPYC 9R14"; part of what a measurement is filed under.
std::string DeviceName();
// False for CUDA, which the driver library knows about. The first question about kX86V4Amx asks
// Linux to let this process keep matrices in registers.
bool HostRuns(Isa isa);

}  // namespace weft
