// One decoder a format, each in a file of its own with the library that it needs. All but those of
// module.cpp are there only where the build has the library.
//
// Decoders report no more than they must: what a library says of a damaged file goes into the
// error; nothing is printed, and nobody exits. A library that reports errors by longjmp never jumps
// over a frame in which something with a destructor has begun to live.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>

#include "fallback/image.h"

namespace weft::fallback::images {

using Bytes = std::span<const uint8_t>;

Result<Image> DecodeBmp(Bytes bytes);
Result<Image> DecodeJpeg(Bytes bytes);
Result<Image> DecodeJpeg2000(Bytes bytes);
Result<Image> DecodePng(Bytes bytes);
Result<Image> DecodePortable(Bytes bytes);
Result<Image> DecodeTiff(Bytes bytes);
Result<Image> DecodeWebp(Bytes bytes);

// Before anything is sized by them.
inline Status CheckSize(int64_t height, int64_t width) {
  if (height < 1 || width < 1)
    return Invalid(fmt::format("found an image of {} x {} pixels", width, height));
  if (height > kMaxPixels / width)
    return Limit(
        fmt::format("found {} x {} pixels, at most {} are read", width, height, kMaxPixels));
  return {};
}

// For libraries that say why they failed in a buffer of their caller.
inline Status Damaged(const char* message) {
  return Invalid(*message ? message : "the image is damaged");
}

inline uint8_t Clamp8(int64_t v) { return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v); }

}  // namespace weft::fallback::images
