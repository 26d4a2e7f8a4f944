// C++ -> a library of this process, by the compiler that the machine has.
//
// WEFT_CXX names it; "none" hides it. Otherwise the first on PATH of c++, g++ and clang++. Options
// want g++ 12 or clang++ 16, or newer.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace weft::codegen::cuda {

// A library that stays loaded as long as it is held; nothing is left on the disk.
class HostLibrary {
 public:
  static Result<std::shared_ptr<HostLibrary>> Load(const std::string& path);
  ~HostLibrary();
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  void* Find(const char* symbol) const;  // null if it has none

 private:
  explicit HostLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// No contraction, no reassociation, and variables that nothing has set hold a pattern. kMissing
// without a compiler, kInternal with its messages if it does not take the text.
Result<std::shared_ptr<HostLibrary>> CompileForHost(const std::string& text);
// The same as the bytes of a shared object.
Result<std::string> CompileToBytes(const std::string& text);

}  // namespace weft::codegen::cuda
