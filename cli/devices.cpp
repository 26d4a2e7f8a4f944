#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "base/target.h"
#include "cli/verbs.h"
#include "codegen/cuda/nvrtc.h"
#include "executor/cuda/device.h"
#include "fallback/execute.h"
#include "tuner/device_peaks.h"
#include "tuner/peaks.h"

namespace weft::cli {
namespace {

// What can be compiled for is not what can be run on: a device is of no use to NVRTC, and the other
// way.
struct Cuda {
  std::vector<std::string> targets;  // empty without NVRTC
  std::string compiler, why_no_compiler;
  std::vector<executor::CudaDevice> devices;
  std::vector<tuner::Peaks> peaks;  // by device: zeros where nothing could be measured
  std::string why_no_device;
};

// Of a device by the target that it is taken for.
tuner::Peaks PeaksOf(const executor::CudaDevice& device) {
  for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100}) {
    const auto found = executor::cuda::FindDevice(isa);
    if (!found.ok() || found->index != device.index) continue;
    const auto peaks = tuner::MeasureDevicePeaks({.kind = TargetKind::kCuda, .isa = isa});
    if (peaks.ok()) return *peaks;
    WEFT_LOG(kWarning, "cuda", "{}: {}", device.name, peaks.status().ToString());
  }
  return {};
}

Cuda FindCuda() {
  Cuda cuda;
  if (auto version = codegen::NvrtcVersion(); version.ok()) {
    cuda.compiler = *version;
    for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100})
      cuda.targets.push_back(fmt::format("cuda:{}", codegen::CudaArchitecture(isa)));
  } else {
    cuda.why_no_compiler = version.status().what();
  }
  if (auto found = executor::CudaDevices(); found.ok())
    cuda.devices = *found;
  else
    cuda.why_no_device = found.status().what();
  for (const executor::CudaDevice& d : cuda.devices) cuda.peaks.push_back(PeaksOf(d));
  return cuda;
}

Json CudaJson(const Cuda& cuda) {
  Json devices = Json::array();
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const executor::CudaDevice& d = cuda.devices[i];
    devices.push_back({{"name", d.name},
                       {"compute_capability", fmt::format("{}.{}", d.major, d.minor)},
                       {"memory_bytes", d.memory_bytes},
                       {"multiprocessors", d.multiprocessors},
                       {"driver", d.driver},
                       {"peak_flops_per_s", cuda.peaks[i].flops_per_s},
                       {"peak_bytes_per_s", cuda.peaks[i].bytes_per_s}});
  }
  return {{"targets", cuda.targets},
          {"compiler", cuda.compiler},
          {"why_no_compiler", cuda.why_no_compiler},
          {"devices", devices},
          {"why_no_device", cuda.why_no_device}};
}

void PrintCuda(const Cuda& cuda) {
  if (cuda.targets.empty())
    fmt::print("cuda: {}\n", cuda.why_no_compiler);
  else
    fmt::print("{}  compiled by {}\n", fmt::join(cuda.targets, " "), cuda.compiler);
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const executor::CudaDevice& d = cuda.devices[i];
    fmt::print("  {}, compute capability {}.{}, {} MiB, driver {}\n", d.name, d.major, d.minor,
               d.memory_bytes >> 20, d.driver);
    fmt::print("  measured peaks: {:.1f} Gflop/s, {:.1f} GB/s\n", cuda.peaks[i].flops_per_s / 1e9,
               cuda.peaks[i].bytes_per_s / 1e9);
  }
  if (cuda.devices.empty()) fmt::print("  {}\n", cuda.why_no_device);
}

Status RunDevices(const Flags& flags) {
  WEFT_TRY(Target host, HostTarget());
  const std::string onednn = fallback::LibraryVersion(fallback::Library::kOnednn);
  const Cuda cuda = FindCuda();
  const tuner::Peaks peaks = tuner::MeasurePeaks(host.threads);
  if (flags.json) {
    PrintJson({{"schema", 1},
               {"devices",
                {{{"target", weft::Print(host)},
                  {"name", DeviceName()},
                  {"threads", host.threads},
                  {"l1_bytes", host.l1_bytes},
                  {"l2_bytes", host.l2_bytes},
                  {"l3_bytes", host.l3_bytes},
                  {"peak_flops_per_s", peaks.flops_per_s},
                  {"peak_bytes_per_s", peaks.bytes_per_s}}}},
               {"cuda", CudaJson(cuda)},
               {"libraries",
                {{"onednn", onednn},
                 {"cudnn", fallback::LibraryVersion(fallback::Library::kCudnn)},
                 {"cublas", fallback::LibraryVersion(fallback::Library::kCublas)}}}});
    return {};
  }
  fmt::print("{}  {}\n", weft::Print(host), DeviceName());
  fmt::print("  L1 {} KiB, L2 {} KiB a core, L3 {} KiB\n", host.l1_bytes >> 10, host.l2_bytes >> 10,
             host.l3_bytes >> 10);
  fmt::print("  measured peaks: {:.1f} Gflop/s, {:.1f} GB/s\n", peaks.flops_per_s / 1e9,
             peaks.bytes_per_s / 1e9);
  fmt::print("  {}\n", onednn.empty() ? "oneDNN: not found" : onednn);
  PrintCuda(cuda);
  const std::string of_device = fallback::LibraryVersions(TargetKind::kCuda);
  fmt::print("  {}\n", of_device.empty() ? "cuDNN, cuBLASLt: not found" : of_device);
  return {};
}

}  // namespace

void AddDevices(CLI::App&, Flags& flags, std::function<Status()>& run) {
  run = [&flags] { return RunDevices(flags); };
}

}  // namespace weft::cli
