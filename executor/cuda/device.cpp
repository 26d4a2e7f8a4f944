#include "executor/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace weft::executor::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr unsigned kNoTiming = 2;     // CU_EVENT_DISABLE_TIMING
constexpr int kMostThreadsOf = 0;     // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

int32_t MajorOf(Isa isa) {
  switch (isa) {
    case Isa::kSm80:
      return 8;
    case Isa::kSm90:
      return 9;
    case Isa::kSm100:
      return 10;
    case Isa::kX86V3:
    case Isa::kX86V4:
    case Isa::kX86V4Vnni:
    case Isa::kX86V4Bf16:
    case Isa::kX86V4Amx:
      break;
  }
  return 0;
}

}  // namespace

Scope::Scope(const Device& device)
    : driver_(device.driver_), is_pushed_(driver_.push(device.context_) == 0) {}

Scope::~Scope() {
  Handle none = nullptr;
  if (is_pushed_) driver_.pop(&none);
}

Owned::Owned(std::shared_ptr<const Device> device, Handle handle, int (*end)(Handle))
    : held_(handle, [device = std::move(device), end](Handle h) {
        const Scope scope(*device);
        end(h);
      }) {}

Memory::Memory(std::shared_ptr<const Device> device, Address at, int64_t bytes)
    : at_(at), bytes_(bytes) {
  const Device* const raw = device.get();
  held_ = std::shared_ptr<const void>(raw, [device = std::move(device), at](const void*) {
    const Scope scope(*device);
    device->driver().free(at);
  });
}

Result<CudaDevice> FindDevice(Isa isa) {
  WEFT_TRY(const auto devices, CudaDevices());
  const auto found = std::ranges::find(devices, MajorOf(isa), &CudaDevice::major);
  if (found != devices.end()) return *found;
  return Missing(fmt::format("found {} of compute capability {}.{}, expected {}.x", devices[0].name,
                             devices[0].major, devices[0].minor, MajorOf(isa)))
      .Try("build for the device that is here, see `weft devices`");
}

Result<Isa> IsaHere() {
  WEFT_TRY(const auto devices, CudaDevices());
  for (const CudaDevice& device : devices)
    for (const Isa isa : {Isa::kSm80, Isa::kSm90, Isa::kSm100})
      if (device.major == MajorOf(isa)) return isa;
  return Missing(fmt::format("found {} of compute capability {}.{}, expected 8.x, 9.x or 10.x",
                             devices[0].name, devices[0].major, devices[0].minor));
}

Result<std::shared_ptr<const Device>> Device::Open(Isa isa) {
  WEFT_TRY(const CudaDevice found, FindDevice(isa));
  WEFT_TRY(const Driver* driver, LoadDriver());
  int ordinal = 0;
  WEFT_TRY(cuda::Check(*driver, driver->device(&ordinal, found.index), "opening a device"));
  std::shared_ptr<Device> device(new Device(
      *driver, ordinal,
      fmt::format("{}, {}.{}, driver {}", found.name, found.major, found.minor, found.driver)));
  WEFT_TRY(device->Check(driver->retain(&device->context_, ordinal), "opening a device"));
  return std::shared_ptr<const Device>(std::move(device));
}

Device::~Device() {
  if (context_) driver_.release(ordinal_);
}

Result<Memory> Device::Allocate(int64_t bytes, const char* what) const {
  Address at = 0;
  if (const int code = driver_.allocate(&at, static_cast<size_t>(std::max<int64_t>(bytes, 1))))
    return Check(code, what).Because(fmt::format("{} bytes on the device", bytes));
  return Memory(shared_from_this(), at, bytes);
}

Result<Bytes> Device::AllocatePinned(int64_t bytes, const char* what) const {
  void* at = nullptr;
  const auto count = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (const int code = driver_.allocate_pinned(&at, count, 0))
    return Check(code, what).Because(fmt::format("{} bytes of pinned memory", bytes));
  std::memset(at, 0, count);
  return Bytes(at, [device = shared_from_this()](void* p) {
    const Scope scope(*device);
    device->driver_.free_pinned(p);
  });
}

Result<Memory> Device::Upload(const void* from, int64_t bytes, const char* what) const {
  WEFT_TRY(Memory memory, Allocate(bytes, what));
  if (bytes == 0) return memory;
  WEFT_TRY(const Owned stream, NewStream());
  WEFT_TRY(
      Check(driver_.to_device(memory.at(), from, static_cast<size_t>(bytes), stream.get()), what));
  WEFT_TRY(Check(driver_.wait_for_stream(stream.get()), what));
  return memory;
}

Status Device::Download(void* to, const Memory& from) const {
  if (from.bytes() == 0) return {};
  WEFT_TRY(const Owned stream, NewStream());
  const auto bytes = static_cast<size_t>(from.bytes());
  WEFT_TRY(Check(driver_.to_host(to, from.at(), bytes, stream.get()), "a copy from the device"));
  return Check(driver_.wait_for_stream(stream.get()), "a copy from the device");
}

Result<Function> Device::Load(std::span<const uint8_t> image, const plan::Kernel& kernel) const {
  const auto invalid = [&](int code, const char* what) {
    return Invalid(Check(code, what).what()).At("kernel " + PrintString(kernel.name));
  };
  Function f;
  Handle module = nullptr;
  if (const int code = driver_.load(&module, image.data())) return invalid(code, "machine code");
  f.module = Owned(shared_from_this(), module, driver_.unload);
  for (const plan::CudaLaunch* launch : kernel.launch->All()) {
    const std::string symbol = plan::LaunchSymbol(kernel.name, f.handles.size());
    Handle& handle = f.handles.emplace_back();
    if (const int code = driver_.function(&handle, module, symbol.c_str()))
      return invalid(code, "the symbol in machine code");
    int threads = 0;
    WEFT_TRY(Check(driver_.function_attribute(&threads, kMostThreadsOf, handle), "machine code"));
    int64_t wanted = 1;
    for (const int64_t extent : launch->block) wanted *= extent;
    if (wanted > threads)
      return Invalid(fmt::format("found blocks of {} threads, its machine code takes {}", wanted,
                                 threads))
          .At("kernel " + PrintString(kernel.name));
  }
  return f;
}

Result<Owned> Device::NewStream() const {
  Handle stream = nullptr;
  WEFT_TRY(Check(driver_.new_stream(&stream, kNonBlocking), "a stream"));
  return Owned(shared_from_this(), stream, driver_.end_stream);
}

Result<Owned> Device::NewEvent(bool timed) const {
  Handle event = nullptr;
  WEFT_TRY(Check(driver_.new_event(&event, timed ? 0 : kNoTiming), "an event"));
  return Owned(shared_from_this(), event, driver_.end_event);
}

}  // namespace weft::executor::cuda
