// What the parts of the extension module share: errors with their parts, and the interpreter's
// lock.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "base/cache/file_cache.h"
#include "base/status.h"

namespace weft::python {

namespace nb = nanobind;

// Raises weft.Error, which has a Status's parts as attributes.
[[noreturn]] void Raise(const Status& status);

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

// Runs body without the lock and raises its failure with it.
template <typename F>
auto Unlocked(const F& body) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return body();
  }();
  return ValueOrRaise(std::move(result));
}

// The user's, if none is named; none, if that does not open.
std::optional<FileCache> OpenCache(const std::optional<std::string>& directory);

void BindComprehension(nb::module_& m);

}  // namespace weft::python
