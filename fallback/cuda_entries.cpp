#include "fallback/cuda_entries.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/cuda_library.h"

namespace weft::fallback {

Status CheckShown(std::string_view library, const char* variable) {
  const char* setting = std::getenv(variable);
  if (setting == nullptr || std::string_view(setting) != "none") return {};
  return Missing(fmt::format("{} is hidden by {}=none", library, variable));
}

Result<CudaEntries> CudaEntries::Open(std::string_view library,
                                      std::span<const std::string_view> files) {
  auto handle = OpenCudaLibrary(files);
  if (handle.ok()) return CudaEntries(library, *handle);
  return Missing(fmt::format("{} can't be loaded: {}", library, handle.status().what()))
      .Try("install it, set CUDA_HOME to a toolkit that has it, or build with --force own");
}

Status CudaEntries::status() const {
  if (absent_.empty()) return {};
  return Missing(fmt::format("{} has no {}", library_, absent_)).Try("install a newer version");
}

}  // namespace weft::fallback
