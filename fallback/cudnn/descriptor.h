// Descriptors of cuDNN's backend interface: attributes are set, then it is finalized, then used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "fallback/cuda_entries.h"
#include "fallback/cudnn/library.h"

namespace weft::fallback::cudnn {

// kUnsupported if the library says that it does not do this, else kInternal; with its own words.
Status Check(const Library& library, int code, const char* what);

class Descriptor {
 public:
  Descriptor() = default;
  static Result<Descriptor> New(const Library& library, Kind kind);
  Handle get() const { return object_.get(); }

  Status Set(Name name, Type type, int64_t count, const void* values);
  Status SetInt(Name name, int64_t value) { return Set(name, kTypeInt64, 1, &value); }
  Status SetInts(Name name, std::span<const int64_t> values);
  Status SetEnum(Name name, Type type, int value) { return Set(name, type, 1, &value); }
  Status SetFloat(Name name, float value) { return Set(name, kTypeFloat, 1, &value); }
  Status SetHandle(Name name, Handle handle) { return SetHandles(name, kTypeHandle, {&handle, 1}); }
  Status SetDescriptor(Name name, const Descriptor& other);
  Status SetDescriptors(Name name, std::span<const Descriptor> others);
  Status Finalize();

  // How many values there are at most, and how many were given.
  Result<int64_t> Count(Name name, Type type) const;
  Result<int64_t> Get(Name name, Type type, int64_t most, void* values) const;
  // Descriptors that the library fills.
  Result<int64_t> GetDescriptors(Name name, std::span<const Descriptor> others) const;

 private:
  Status SetHandles(Name name, Type type, std::span<const Handle> handles) {
    return Set(name, type, std::ssize(handles), static_cast<const void*>(handles.data()));
  }
  Descriptor(const Library& library, Handle handle)
      : library_(&library), object_(handle, library.end_descriptor) {}

  const Library* library_ = nullptr;
  CudaObject object_;
};

}  // namespace weft::fallback::cudnn
