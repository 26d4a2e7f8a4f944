// A device that a plan runs on, and what a run holds of it. Everything given by a device keeps it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "base/target.h"
#include "executor/cuda/driver.h"
#include "executor/memory.h"
#include "plan/plan.h"

namespace weft::executor::cuda {

class Device;

// The first device that machine code for `isa` runs on: of the same major compute capability (CUDA
// C++ Programming Guide, "binary compatibility"). kMissing, with what there is, if there is none.
Result<CudaDevice> FindDevice(Isa isa);
// That of the first device for which there is one. kMissing likewise.
Result<Isa> IsaHere();

// Gives back what the driver gave, in the device's context.
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<const Device> device, Handle handle, int (*end)(Handle));
  Handle get() const { return held_.get(); }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  std::shared_ptr<void> held_;
};

// Bytes on a device, 256-aligned.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<const Device> device, Address at, int64_t bytes);
  Address at() const { return at_; }
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  std::shared_ptr<const void> held_;
  Address at_ = 0;
  int64_t bytes_ = 0;
};

struct Function {
  Owned module;
  std::vector<Handle> handles;  // of its launches
};

// A stretch of time in which calls of this thread are about a device; the caller's own context is
// current again afterwards.
class Scope {
 public:
  explicit Scope(const Device& device);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool is_pushed_;
};

// The primary context of a device, which the caller's own code shares. Calls want a Scope, but for
// Open. Thread-safe: it changes nothing of itself.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // That of FindDevice.
  static Result<std::shared_ptr<const Device>> Open(Isa isa);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  Handle context() const { return context_; }
  // What tells it, and the driver, from others: "NVIDIA H200, 9.0, driver 13.0".
  const std::string& identity() const { return identity_; }
  Status Check(int code, const char* what) const { return cuda::Check(driver_, code, what); }

  Result<Memory> Allocate(int64_t bytes, const char* what) const;  // of any contents
  // On the host, where copies to and from the device need no detour; zeros.
  Result<Bytes> AllocatePinned(int64_t bytes, const char* what) const;
  Result<Memory> Upload(const void* from, int64_t bytes, const char* what) const;  // waits
  Status Download(void* to, const Memory& from) const;                             // waits
  // kInvalid if it is no machine code for the device, or if a launch asks for more than it takes.
  Result<Function> Load(std::span<const uint8_t> image, const plan::Kernel& kernel) const;
  Result<Owned> NewStream() const;  // does not wait for the default stream
  Result<Owned> NewEvent(bool timed) const;

 private:
  friend class Scope;
  Device(const Driver& driver, int ordinal, std::string identity)
      : driver_(driver), ordinal_(ordinal), identity_(std::move(identity)) {}

  const Driver& driver_;
  int ordinal_;
  std::string identity_;
  Handle context_ = nullptr;
};

}  // namespace weft::executor::cuda
