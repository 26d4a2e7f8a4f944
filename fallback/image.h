// Images of all formats that ONNX's ImageDecoder knows, as pixels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace weft::fallback {

inline constexpr int64_t kMaxPixels = int64_t{1} << 26;  // of one image

struct Image {
  int64_t height = 0, width = 0;
  int64_t channels = 0;         // 1: gray; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// Of BMP, JPEG, JPEG 2000, PNG, the portable formats (PBM, PGM, PPM, PAM), TIFF and WebP. Numbers
// of more than 8 bits keep their high ones, transparency is dropped, palettes are looked up.
// kInvalid if the bytes are none of these or are damaged, kLimit if there are more than kMaxPixels,
// kMissing if this build lacks the format's library.
Result<Image> DecodeImage(std::span<const uint8_t> bytes);

}  // namespace weft::fallback
