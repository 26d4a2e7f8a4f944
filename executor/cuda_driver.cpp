#include "executor/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace weft::executor {
namespace {

// The few entries of the driver's C interface that are used (CUDA Driver API); a device is an int.
// Declared here so that building needs no toolkit.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*memory)(size_t*, int) = nullptr;
};
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CUdevice_attribute

Result<Driver> Open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Missing(fmt::format("no CUDA driver can be loaded: {}", dlerror()))
        .Try("install NVIDIA's driver, or build with --target cpu:native");
  Driver driver;
  std::string absent;
  const auto find = [&]<typename F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function) absent = name;
  };
  find(driver.init, "cuInit");
  find(driver.error_string, "cuGetErrorString");
  find(driver.count, "cuDeviceGetCount");
  find(driver.get, "cuDeviceGet");
  find(driver.name, "cuDeviceGetName");
  find(driver.attribute, "cuDeviceGetAttribute");
  find(driver.memory, "cuDeviceTotalMem_v2");
  if (!absent.empty())
    return Missing(fmt::format("the CUDA driver has no {}", absent)).Try("update NVIDIA's driver");
  return driver;
}

Status Check(const Driver& driver, int code) {
  if (code == 0) return {};
  const char* text = nullptr;
  if (driver.error_string(code, &text) != 0 || !text) text = "unknown error";
  return Missing(fmt::format("no CUDA device found, the driver says: {} ({})", text, code))
      .Try("see what nvidia-smi lists, or build with --target cpu:native");
}

Result<std::vector<CudaDevice>> Find() {
  WEFT_TRY(const Driver driver, Open());
  WEFT_TRY(Check(driver, driver.init(0)));
  int count = 0;
  WEFT_TRY(Check(driver, driver.count(&count)));
  if (count < 1) return Check(driver, 100);  // CUDA_ERROR_NO_DEVICE
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    int handle = 0;
    char name[256] = {};
    size_t bytes = 0;
    CudaDevice device;
    WEFT_TRY(Check(driver, driver.get(&handle, i)));
    WEFT_TRY(Check(driver, driver.name(name, sizeof name - 1, handle)));
    WEFT_TRY(Check(driver, driver.attribute(&device.major, kCapabilityMajor, handle)));
    WEFT_TRY(Check(driver, driver.attribute(&device.minor, kCapabilityMinor, handle)));
    WEFT_TRY(Check(driver, driver.memory(&bytes, handle)));
    device.name = name;
    device.memory_bytes = static_cast<int64_t>(bytes);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

Result<std::vector<CudaDevice>> CudaDevices() {
  static const Result<std::vector<CudaDevice>> kFound = Find();
  return kFound;
}

}  // namespace weft::executor
