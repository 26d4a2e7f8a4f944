// Library calls on a CUDA device: prepare once, enqueue often. The caller makes the device's
// context current for all of it, and owns all memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "base/target.h"
#include "fallback/call.h"

namespace weft::fallback {

class DeviceCall {
 public:
  virtual ~DeviceCall() = default;
  // The ways in which the library does it, at least one, what it expects to be fastest first. All
  // compute in plain f32: none rounds operands to fewer bits, but to TF32 where the call's
  // attribute `tf32` is 1, or transforms them, as Winograd does.
  virtual size_t Ways() const = 0;
  virtual int64_t ScratchBytes(size_t way) const = 0;
  virtual std::string Name(size_t way) const = 0;
  // Device addresses of the operands, aligned to 16 bytes, in the order of the call's inputs and
  // outputs; of scratch to 256. `stream` is a CUstream, which may be being captured.
  virtual Status Enqueue(size_t way, std::span<const uint64_t> inputs,
                         std::span<const uint64_t> outputs, uint64_t scratch, void* stream) = 0;
};

// For the device of `context`, a CUcontext, which is the current one. kMissing if the library is
// not there, kUnsupported if it does not do the call.
Result<std::unique_ptr<DeviceCall>> PrepareOnDevice(const LibraryCall& call, const void* context);

// Whether the library has a way to do the call on devices of this ISA, where it says so without
// one: cuDNN from 9.8 on. kMissing if it is not there; otherwise everything is well. Answers are
// kept.
Status CheckWithoutDevice(const LibraryCall& call, Isa isa);

}  // namespace weft::fallback
