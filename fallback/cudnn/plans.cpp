#include "fallback/cudnn/plans.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::fallback::cudnn {
namespace {

// Of A100, H100 and B200, as their data sheets have them; what no engine asks is the same for all.
std::string DeviceJson(Isa isa) {
  struct {
    int capability, multiprocessors, shared_bytes, l2_bytes;
  } d{900, 132, 232448, 50 << 20};
  if (isa == Isa::kSm80) d = {800, 108, 166912, 40 << 20};
  if (isa == Isa::kSm100) d = {1000, 148, 232448, 126 << 20};
  return fmt::format(
      R"({{"cudaDeviceId": 0, "deviceName": "", "deviceVer": {}, "driverVer": 13000,
        "multiProcessorCount": {}, "maxSharedMemoryPerBlockOptin": {}, "l2CacheSize": {},
        "totalGlobalMem": 68719476736, "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
        "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
        "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1500000,
        "memClockRateKHz": 1500000}})",
      d.capability, d.multiprocessors, d.shared_bytes, d.l2_bytes);
}

Result<std::vector<Descriptor>> Configurations(const Library& library, const Descriptor& graph,
                                               const Where& where, int mode) {
  WEFT_TRY(Descriptor heuristics, Descriptor::New(library, kEngineHeuristics));
  WEFT_TRY(heuristics.SetDescriptor(kHeuristicsGraph, graph));
  WEFT_TRY(heuristics.SetEnum(kHeuristicsMode, kTypeHeuristicMode, mode));
  if (where.device.get()) WEFT_TRY(heuristics.SetDescriptor(kHeuristicsDevice, where.device));
  WEFT_TRY(heuristics.Finalize());
  WEFT_TRY(const int64_t most, heuristics.Count(kHeuristicsResults, kTypeDescriptor));
  std::vector<Descriptor> found;
  for (int64_t i = 0; i < most; ++i) {
    WEFT_TRY(found.emplace_back(), Descriptor::New(library, kEngineConfig));
  }
  WEFT_TRY(const int64_t given, heuristics.GetDescriptors(kHeuristicsResults, found));
  found.resize(static_cast<size_t>(given));
  return found;
}

Result<Descriptor> EngineOf(const Library& library, const Descriptor& configuration) {
  WEFT_TRY(Descriptor engine, Descriptor::New(library, kEngine));
  WEFT_TRY(configuration.GetDescriptors(kEngineConfigEngine, {&engine, 1}));
  return engine;
}

// TF32, Winograd and FFT round more than sums of products do; atomics round otherwise in each run.
Result<bool> RoundsAsAllowed(const Descriptor& engine, bool tf32) {
  int notes[64] = {};
  WEFT_TRY(const int64_t count,
           engine.Get(kEngineNotes, kTypeNumericalNote, std::size(notes), notes));
  return std::all_of(notes, notes + count, [&](int note) {
    return note == kStrictNan || (tf32 && note == kTensorCores);
  });
}

Result<ExecutionPlan> PlanOf(const Library& library, const Descriptor& configuration,
                             const Descriptor& engine, const Where& where) {
  ExecutionPlan p;
  WEFT_TRY(p.plan, Descriptor::New(library, kExecutionPlan));
  WEFT_TRY(p.plan.SetDescriptor(kPlanEngineConfig, configuration));
  if (where.handle) WEFT_TRY(p.plan.SetHandle(kPlanHandle, where.handle));
  if (where.device.get()) WEFT_TRY(p.plan.SetDescriptor(kPlanDevice, where.device));
  WEFT_TRY(p.plan.Finalize());
  WEFT_TRY(p.plan.Get(kPlanWorkspace, kTypeInt64, 1, &p.workspace));
  WEFT_TRY(engine.Get(kEngineIndex, kTypeInt64, 1, &p.engine));
  return p;
}

}  // namespace

Result<Where> Elsewhere(const Library& library, Isa isa) {
  Where where;
  const std::string json = DeviceJson(isa);
  WEFT_TRY(where.device, Descriptor::New(library, kDeviceProperties));
  WEFT_TRY(
      where.device.Set(kDeviceJson, kTypeChar, static_cast<int64_t>(json.size()), json.data()));
  WEFT_TRY(where.device.Finalize());
  return where;
}

Result<std::vector<ExecutionPlan>> PlansFor(const Library& library, const Descriptor& graph,
                                            const Where& where, bool tf32, size_t most) {
  std::vector<ExecutionPlan> plans;
  Status why_not = Unsupported("cuDNN has no engine of plain f32 arithmetic for this");
  for (const int mode : {kHeuristicsA, kHeuristicsFallback}) {
    WEFT_TRY(const auto configurations, Configurations(library, graph, where, mode));
    for (const Descriptor& configuration : configurations) {
      if (plans.size() == most) break;
      WEFT_TRY(const Descriptor engine, EngineOf(library, configuration));
      WEFT_TRY(const bool is_allowed, RoundsAsAllowed(engine, tf32));
      if (!is_allowed) continue;
      auto plan = PlanOf(library, configuration, engine, where);
      if (plan.ok())
        plans.push_back(*std::move(plan));
      else
        why_not = std::move(plan.status());  // the next may do
    }
    if (!plans.empty()) return plans;
  }
  return why_not;
}

}  // namespace weft::fallback::cudnn
