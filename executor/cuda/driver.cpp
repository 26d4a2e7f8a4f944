#include "executor/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace weft::executor {
namespace cuda {
namespace {

constexpr int kOutOfMemory = 2, kNoDevice = 100;  // CUresult
constexpr int kMultiprocessors = 16, kCapabilityMajor = 75,
              kCapabilityMinor = 76;  // CUdevice_attribute

std::string Said(const Driver& driver, int code) {
  const char* text = nullptr;
  if (driver.error_string(code, &text) != 0 || !text) text = "unknown error";
  return fmt::format("the driver says: {} ({})", text, code);
}

Status CheckPresent(const Driver& driver, int code) {
  if (code == 0) return {};
  return Missing(fmt::format("no CUDA device found, {}", Said(driver, code)))
      .Try("see what nvidia-smi lists, or build with --target cpu:native");
}

// The suffixes are those that cuda.h of version 12 and 13 gives the names.
Result<Driver> Open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Missing(fmt::format("no CUDA driver can be loaded: {}", dlerror()))
        .Try("install NVIDIA's driver, or build with --target cpu:native");
  Driver d;
  std::string absent;
  const auto find = [&]<typename F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function) absent = name;
  };
  find(d.error_string, "cuGetErrorString");
  find(d.init, "cuInit");
  find(d.version, "cuDriverGetVersion");
  find(d.device_count, "cuDeviceGetCount");
  find(d.device, "cuDeviceGet");
  find(d.device_name, "cuDeviceGetName");
  find(d.device_attribute, "cuDeviceGetAttribute");
  find(d.device_memory, "cuDeviceTotalMem_v2");
  find(d.retain, "cuDevicePrimaryCtxRetain");
  find(d.release, "cuDevicePrimaryCtxRelease_v2");
  find(d.push, "cuCtxPushCurrent_v2");
  find(d.pop, "cuCtxPopCurrent_v2");
  find(d.load, "cuModuleLoadData");
  find(d.unload, "cuModuleUnload");
  find(d.function, "cuModuleGetFunction");
  find(d.function_attribute, "cuFuncGetAttribute");
  find(d.allocate, "cuMemAlloc_v2");
  find(d.free, "cuMemFree_v2");
  find(d.allocate_pinned, "cuMemHostAlloc");
  find(d.free_pinned, "cuMemFreeHost");
  find(d.to_device, "cuMemcpyHtoDAsync_v2");
  find(d.to_host, "cuMemcpyDtoHAsync_v2");
  find(d.on_device, "cuMemcpyDtoDAsync_v2");
  find(d.fill, "cuMemsetD8Async");
  find(d.new_stream, "cuStreamCreate");
  find(d.end_stream, "cuStreamDestroy_v2");
  find(d.wait_for_stream, "cuStreamSynchronize");
  find(d.stream_waits, "cuStreamWaitEvent");
  find(d.begin_capture, "cuStreamBeginCapture_v2");
  find(d.end_capture, "cuStreamEndCapture");
  find(d.instantiate, "cuGraphInstantiateWithFlags");
  find(d.launch_graph, "cuGraphLaunch");
  find(d.end_graph, "cuGraphDestroy");
  find(d.end_executable, "cuGraphExecDestroy");
  find(d.new_event, "cuEventCreate");
  find(d.end_event, "cuEventDestroy_v2");
  find(d.record, "cuEventRecord");
  find(d.wait_for_event, "cuEventSynchronize");
  find(d.elapsed_ms, "cuEventElapsedTime");
  find(d.launch, "cuLaunchKernel");
  if (!absent.empty())
    return Missing(fmt::format("the CUDA driver has no {}", absent)).Try("update NVIDIA's driver");
  WEFT_TRY(CheckPresent(d, d.init(0)));
  return d;
}

Result<std::vector<CudaDevice>> Find() {
  WEFT_TRY(const Driver* driver, LoadDriver());
  int count = 0;
  WEFT_TRY(CheckPresent(*driver, driver->device_count(&count)));
  if (count < 1) return CheckPresent(*driver, kNoDevice);
  int version = 0;  // 13000: 13.0
  WEFT_TRY(CheckPresent(*driver, driver->version(&version)));
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    int handle = 0;
    char name[256] = {};
    size_t bytes = 0;
    CudaDevice device{.index = i};
    WEFT_TRY(CheckPresent(*driver, driver->device(&handle, i)));
    WEFT_TRY(CheckPresent(*driver, driver->device_name(name, sizeof name - 1, handle)));
    const auto ask = [&](int32_t& value, int attribute) {
      return CheckPresent(*driver, driver->device_attribute(&value, attribute, handle));
    };
    WEFT_TRY(ask(device.major, kCapabilityMajor));
    WEFT_TRY(ask(device.minor, kCapabilityMinor));
    WEFT_TRY(CheckPresent(*driver, driver->device_memory(&bytes, handle)));
    WEFT_TRY(ask(device.multiprocessors, kMultiprocessors));
    device.name = name;
    device.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    device.memory_bytes = static_cast<int64_t>(bytes);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

Result<const Driver*> LoadDriver() {
  static const Result<Driver> driver = Open();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

Status Check(const Driver& driver, int code, const char* what) {
  if (code == 0) return {};
  std::string text = fmt::format("{}: {}", what, Said(driver, code));
  return code == kOutOfMemory ? Limit(std::move(text)) : Internal(std::move(text));
}

}  // namespace cuda

Result<std::vector<CudaDevice>> CudaDevices() {
  static const Result<std::vector<CudaDevice>> found = cuda::Find();
  return found;
}

}  // namespace weft::executor
