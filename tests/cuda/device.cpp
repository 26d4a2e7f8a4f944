#include "tests/cuda/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "executor/cuda_driver.h"

namespace weft::cuda_test {

// Entries of the CUDA Driver API; devices are ints, memory is an integer, the rest are pointers.
struct Device::Driver {
  using Pointer = unsigned long long;
  int (*error_string)(int, const char**) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*unload)(void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*allocate)(Pointer*, size_t) = nullptr;
  int (*free)(Pointer) = nullptr;
  int (*to_device)(Pointer, const void*, size_t) = nullptr;
  int (*to_host)(void*, Pointer, size_t) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**) = nullptr;
  int (*synchronize)() = nullptr;
};

// What is allocated goes when this does.
class Device::Memory {
 public:
  explicit Memory(const Device& device) : device_(device) {}
  ~Memory() {
    for (const Driver::Pointer p : held_) device_.driver_->free(p);
    if (module_ != nullptr) device_.driver_->unload(module_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result<Driver::Pointer> Copy(const void* from, int64_t bytes) {
    Driver::Pointer at = 0;
    WEFT_TRY(device_.Check(
        device_.driver_->allocate(&at, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
        "memory"));
    held_.push_back(at);
    if (bytes > 0)
      WEFT_TRY(device_.Check(device_.driver_->to_device(at, from, static_cast<size_t>(bytes)),
                             "a copy to the device"));
    return at;
  }
  Status Back(Driver::Pointer at, void* to, int64_t bytes) const {
    if (bytes == 0) return {};
    return device_.Check(device_.driver_->to_host(to, at, static_cast<size_t>(bytes)),
                         "a copy from the device");
  }
  Result<void*> Function(const codegen::CudaKernel& kernel) {
    void* function = nullptr;
    WEFT_TRY(device_.Check(device_.driver_->load(&module_, kernel.cubin.image.data()), "loading"));
    WEFT_TRY(device_.Check(
        device_.driver_->function(&function, module_, kernel.source.symbol.c_str()), "the symbol"));
    return function;
  }

 private:
  const Device& device_;
  std::vector<Driver::Pointer> held_;
  void* module_ = nullptr;
};

Device::Device() : driver_(std::make_unique<Driver>()) {}
Device::~Device() = default;

Result<std::unique_ptr<Device>> Device::Open() {
  WEFT_TRY(const auto devices, executor::CudaDevices());
  const int32_t major = devices[0].major;
  if (major < 8 || major > 10)
    return Unsupported(fmt::format("{} has compute capability {}.{}, expected 8 to 10",
                                   devices[0].name, major, devices[0].minor));
  WEFT_TRY(codegen::NvrtcVersion());
  std::unique_ptr<Device> device(new Device);
  device->target_ = {.kind = TargetKind::kCuda,
                     .isa = std::array{Isa::kSm80, Isa::kSm90, Isa::kSm100}[major - 8]};
  WEFT_TRY(device->Load());
  return device;
}

Status Device::Load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // CudaDevices has loaded it
  std::string absent;
  const auto find = [&]<typename F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (function == nullptr) absent = name;
  };
  Driver& d = *driver_;
  find(d.error_string, "cuGetErrorString");
  find(d.retain, "cuDevicePrimaryCtxRetain");
  find(d.set_current, "cuCtxSetCurrent");
  find(d.load, "cuModuleLoadData");
  find(d.unload, "cuModuleUnload");
  find(d.function, "cuModuleGetFunction");
  find(d.allocate, "cuMemAlloc_v2");
  find(d.free, "cuMemFree_v2");
  find(d.to_device, "cuMemcpyHtoD_v2");
  find(d.to_host, "cuMemcpyDtoH_v2");
  find(d.launch, "cuLaunchKernel");
  find(d.synchronize, "cuCtxSynchronize");
  if (!absent.empty()) return Missing(fmt::format("the CUDA driver has no {}", absent));
  void* context = nullptr;
  WEFT_TRY(Check(d.retain(&context, 0), "a context"));
  return Check(d.set_current(context), "the context");
}

Status Device::Check(int code, const char* what) const {
  if (code == 0) return {};
  const char* text = nullptr;
  if (driver_->error_string(code, &text) != 0 || text == nullptr) text = "unknown error";
  return Internal(fmt::format("{}: the driver says: {} ({})", what, text, code));
}

Status Device::Run(const codegen::CudaKernel& kernel, const loops::LoopNest& nest,
                   std::span<void* const> operands, std::span<const int64_t> params,
                   KernelFault* fault) {
  Memory memory(*this);
  WEFT_TRY(void* function, memory.Function(kernel));
  std::vector<Driver::Pointer> pointers;
  std::vector<int64_t> bytes;
  for (const loops::BufferId id : loops::Operands(nest)) {
    bytes.push_back(loops::BufferBytes(nest[id], {params.begin(), params.end()}));
    WEFT_TRY(const auto at, memory.Copy(operands[pointers.size()], bytes.back()));
    pointers.push_back(at);
  }
  std::array<unsigned, 3> grid{}, block{};
  int64_t blocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    grid[i] = static_cast<unsigned>(kernel.source.launch.grid[i].Eval(params));
    block[i] = static_cast<unsigned>(kernel.source.launch.block[i].Eval(params));
    blocks *= grid[i];
  }
  const std::vector<std::byte> ones(static_cast<size_t>(kernel.source.scratch_bytes * blocks),
                                    std::byte{0xff});
  WEFT_TRY(Driver::Pointer scratch, memory.Copy(ones.data(), static_cast<int64_t>(ones.size())));
  WEFT_TRY(Driver::Pointer fault_slot, memory.Copy(fault, sizeof *fault));
  std::vector<void*> arguments;
  for (Driver::Pointer& p : pointers) arguments.push_back(&p);
  for (const int64_t& p : params) arguments.push_back(const_cast<int64_t*>(&p));
  arguments.push_back(&scratch);
  arguments.push_back(&fault_slot);
  WEFT_TRY(Check(driver_->launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                 0, nullptr, arguments.data(), nullptr),
                 "a launch"));
  WEFT_TRY(Check(driver_->synchronize(), "the kernel"));
  size_t k = 0;
  for (const loops::BufferId id : loops::Operands(nest)) {
    if (nest[id].access != loops::Access::kIn)
      WEFT_TRY(memory.Back(pointers[k], operands[k], bytes[k]));
    ++k;
  }
  return memory.Back(fault_slot, fault, sizeof *fault);
}

}  // namespace weft::cuda_test
