// What the libraries of CUDA have in common: entries that are looked up, objects that are ended.
#pragma once

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft::fallback {

// kMissing if the environment variable says none; it is read each time, so that a test can hide a
// library and show it again.
Status CheckShown(std::string_view library, const char* variable);

class CudaEntries {
 public:
  static Result<CudaEntries> Open(std::string_view library,
                                  std::span<const std::string_view> files);
  template <typename F>
  void Find(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (function == nullptr) absent_ = name;
  }
  Status status() const;  // kMissing if one of them is not there

 private:
  CudaEntries(std::string_view library, void* handle) : library_(library), handle_(handle) {}

  std::string library_, absent_;
  void* handle_;
};

// What a library gave, ended when nobody holds it.
class CudaObject {
 public:
  CudaObject() = default;
  CudaObject(void* object, int (*end)(void*)) : held_(object, [end](void* o) { end(o); }) {}
  void* get() const { return held_.get(); }

 private:
  friend class CudaHandles;
  std::shared_ptr<void> held_;
};

// A library's handle is a device's, and costs memory there: calls for one context share it.
class CudaHandles {
 public:
  // What `open` makes, unless somebody holds what it made for this context before.
  template <typename Open>
  Result<CudaObject> Get(const void* context, const Open& open) {
    const std::lock_guard lock(mutex_);
    CudaObject object;
    object.held_ = handles_[context].lock();
    if (object.held_) return object;
    WEFT_TRY(object, open());
    handles_[context] = object.held_;
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::weak_ptr<void>> handles_;
};

}  // namespace weft::fallback
