// The door of libweft_images.so, the only part of weft that links libraries of image formats. It is
// loaded when the first image is decoded.
#pragma once

#include <cstdint>
#include <span>

#include "fallback/image.h"

namespace weft::fallback::images {

inline constexpr int32_t kModuleVersion = 1;
inline constexpr const char* kModuleFile = "libweft_images.so";
inline constexpr const char* kModuleEntry = "weft_images_module";

struct Module {
  int32_t version = kModuleVersion;
  Result<Image> (*decode)(std::span<const uint8_t> bytes);
};

using ModuleEntry = const Module* (*)();

}  // namespace weft::fallback::images
