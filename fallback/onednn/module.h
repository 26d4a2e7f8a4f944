// The door of libweft_onednn.so, the only part of weft that links oneDNN. It is loaded at run time,
// so that weft starts, and says what is missing, where the library isn't there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fallback/execute.h"

namespace weft::fallback::onednn {

// Counts changes of what passes through the door: a module of another build is refused.
inline constexpr int32_t kModuleVersion = 2;
inline constexpr const char* kModuleFile = "libweft_onednn.so";
inline constexpr const char* kModuleEntry = "weft_onednn_module";

struct Module {
  int32_t version = kModuleVersion;
  std::string (*library_version)();
  Result<std::unique_ptr<PreparedCall>> (*prepare)(const LibraryCall&,
                                                   std::span<const Tensor> constants);
  Result<std::vector<Layout>> (*preferred_layouts)(const LibraryCall&);
};

using ModuleEntry = const Module* (*)();

}  // namespace weft::fallback::onednn
