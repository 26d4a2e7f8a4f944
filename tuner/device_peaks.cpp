#include "tuner/device_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "codegen/cuda/nvrtc.h"
#include "executor/cuda/device.h"

namespace weft::tuner {
namespace {

using executor::cuda::Device;
using executor::cuda::Memory;
using executor::cuda::Owned;

constexpr unsigned kThreads = 256, kBlocksOfMultiprocessor = 8;  // all that fit on one
constexpr int kChains = 8, kSteps = 8;                           // of a round
constexpr int kTimes = 5;

// Chains of multiply-adds. The result is stored where it is a number that it never is, so that
// nothing is left out.
std::string Text() {
  std::string text =
      "extern \"C\" __global__ void __launch_bounds__(256) weft_chains(float* out, long long "
      "rounds) {\n  const float by = 0.5f, plus = (float)(int)threadIdx.x;\n";
  for (int c = 0; c < kChains; ++c) text += fmt::format("  float x{0} = {0}.0f;\n", c);
  text += "  for (long long r = 0; r < rounds; ++r) {\n";
  for (int s = 0; s < kSteps; ++s)
    for (int c = 0; c < kChains; ++c) text += fmt::format("    x{0} = fmaf(x{0}, by, plus);\n", c);
  text += "  }\n  if (x0";
  for (int c = 1; c < kChains; ++c) text += fmt::format(" + x{}", c);
  return text + " == -1.0f) out[0] = x0;\n}\n";
}

class Stopwatch {
 public:
  static Result<Stopwatch> On(const std::shared_ptr<const Device>& device) {
    Stopwatch watch;
    watch.device_ = device;
    WEFT_TRY(watch.stream_, device->NewStream());
    WEFT_TRY(watch.begin_, device->NewEvent(/*timed=*/true));
    WEFT_TRY(watch.end_, device->NewEvent(/*timed=*/true));
    return watch;
  }

  // Of what `enqueue` puts on the stream, which gives the driver's code.
  Result<double> Seconds(const std::function<int(executor::cuda::Handle)>& enqueue) const {
    const auto check = [&](int code) { return device_->Check(code, "measuring a device"); };
    const auto& driver = device_->driver();
    WEFT_TRY(check(driver.record(begin_.get(), stream_.get())));
    WEFT_TRY(check(enqueue(stream_.get())));
    WEFT_TRY(check(driver.record(end_.get(), stream_.get())));
    WEFT_TRY(check(driver.wait_for_stream(stream_.get())));
    float ms = 0;
    WEFT_TRY(check(driver.elapsed_ms(&ms, begin_.get(), end_.get())));
    return std::max(static_cast<double>(ms), 1e-6) * 1e-3;
  }

  Result<double> BestSeconds(const std::function<int(executor::cuda::Handle)>& enqueue) const {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes; ++i) {
      WEFT_TRY(const double seconds, Seconds(enqueue));
      best = std::min(best, seconds);
    }
    return best;
  }

 private:
  std::shared_ptr<const Device> device_;
  Owned stream_, begin_, end_;
};

Result<double> FlopsPerSecond(const std::shared_ptr<const Device>& device, const Target& target,
                              int32_t multiprocessors, const Stopwatch& watch) {
  constexpr double kLeastSeconds = 2e-3;
  constexpr int64_t kMostRounds = 1 << 20;
  WEFT_TRY(const codegen::Cubin cubin, codegen::CompileCuda(Text(), "weft_chains", target));
  plan::Kernel kernel{.name = "weft_chains"};
  kernel.launch.emplace();
  kernel.launch->block = {kThreads, 1, 1};
  WEFT_TRY(const executor::cuda::Function function, device->Load(cubin.image, kernel));
  WEFT_TRY(const Memory out, device->Allocate(sizeof(float), "measuring a device"));
  uint64_t at = out.at();
  int64_t rounds = 16;
  void* arguments[] = {&at, &rounds};
  const auto blocks = static_cast<unsigned>(multiprocessors) * kBlocksOfMultiprocessor;
  const auto run = [&](executor::cuda::Handle stream) {
    return device->driver().launch(function.handles[0], blocks, 1, 1, kThreads, 1, 1, 0, stream,
                                   arguments, nullptr);
  };
  for (double seconds = 0; seconds < kLeastSeconds && rounds < kMostRounds; rounds *= 2) {
    WEFT_TRY(seconds, watch.Seconds(run));
  }
  WEFT_TRY(const double seconds, watch.BestSeconds(run));
  return 2.0 * kChains * kSteps * kThreads * blocks * static_cast<double>(rounds) / seconds;
}

Result<double> BytesPerSecond(const Device& device, int64_t memory_bytes, const Stopwatch& watch) {
  constexpr int64_t kMostBytes = 256 << 20;
  const int64_t bytes = std::min(kMostBytes, memory_bytes / 16);
  WEFT_TRY(const Memory from, device.Allocate(bytes, "measuring a device"));
  WEFT_TRY(const Memory to, device.Allocate(bytes, "measuring a device"));
  const auto copy = [&](executor::cuda::Handle stream) {
    return device.driver().on_device(to.at(), from.at(), static_cast<size_t>(bytes), stream);
  };
  WEFT_TRY(const double seconds, watch.BestSeconds(copy));
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace

Result<Peaks> MeasureDevicePeaks(const Target& target) {
  WEFT_TRY(const executor::CudaDevice found, executor::cuda::FindDevice(target.isa));
  WEFT_TRY(const auto device, Device::Open(target.isa));
  const executor::cuda::Scope scope(*device);
  WEFT_TRY(const Stopwatch watch, Stopwatch::On(device));
  Peaks peaks;
  WEFT_TRY(peaks.flops_per_s, FlopsPerSecond(device, target, found.multiprocessors, watch));
  WEFT_TRY(peaks.bytes_per_s, BytesPerSecond(*device, found.memory_bytes, watch));
  return peaks;
}

}  // namespace weft::tuner
