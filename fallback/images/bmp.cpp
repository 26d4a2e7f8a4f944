// Windows bitmaps, which no library reads: headers of all versions, palettes, run lengths, masks.
// ("Bitmap Storage", Win32 documentation.)
#include <algorithm>
#include <array>
#include <bit>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

enum Compression : uint32_t { kNone = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kAlphaMasks = 6 };

uint32_t Number(Bytes b, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint32_t{b[at + i]} << (8 * i);
  return value;
}

struct Header {
  int64_t height = 0, width = 0;
  bool top_down = false;
  uint32_t bits = 0, compression = kNone;
  size_t pixels = 0;                                  // offset of the rows
  std::array<uint32_t, 3> masks{};                    // red, green, blue
  std::array<std::array<uint8_t, 3>, 256> palette{};  // black where the file lists fewer
};

Result<Header> ReadHeader(Bytes b) {
  if (b.size() < 26) return Invalid("the header ends too early");
  Header h;
  const uint32_t size = Number(b, 14, 4);
  const bool old = size == 12;  // OS/2
  if (!old && (size < 40 || size > 256))
    return Invalid(fmt::format("the header has {} bytes", size));
  if (b.size() < 14 + size) return Invalid("the header ends too early");
  uint32_t colours = 0;
  if (old) {
    h.width = Number(b, 18, 2);
    h.height = Number(b, 20, 2);
    h.bits = Number(b, 24, 2);
  } else {
    h.width = static_cast<int32_t>(Number(b, 18, 4));
    h.height = static_cast<int32_t>(Number(b, 22, 4));
    h.bits = Number(b, 28, 2);
    h.compression = Number(b, 30, 4);
    colours = Number(b, 46, 4);
  }
  h.top_down = h.height < 0;
  h.height = std::abs(h.height);
  WEFT_TRY(CheckSize(h.height, h.width));
  h.pixels = Number(b, 10, 4);
  if (h.pixels > b.size()) return Invalid("the pixels begin behind the end");
  const bool masked = h.compression == kMasks || h.compression == kAlphaMasks;
  const bool fits = h.compression == kNone ? h.bits == 1 || h.bits == 4 || h.bits == 8 ||
                                                 h.bits == 16 || h.bits == 24 || h.bits == 32
                    : h.compression == kRuns8 ? h.bits == 8
                    : h.compression == kRuns4 ? h.bits == 4
                                              : masked && (h.bits == 16 || h.bits == 32);
  if (!fits) return Invalid(fmt::format("found {} bits in compression {}", h.bits, h.compression));
  if (h.bits == 16) h.masks = {0x7c00, 0x3e0, 0x1f};
  if (h.bits == 32) h.masks = {0xff0000, 0xff00, 0xff};
  size_t table = 14 + size;
  if (masked) {
    if (b.size() < 66) return Invalid("the masks end too early");
    for (size_t k = 0; k < 3; ++k) h.masks[k] = Number(b, 54 + 4 * k, 4);
    if (size == 40) table += h.compression == kAlphaMasks ? 16 : 12;
  }
  if (h.bits > 8) return h;
  const size_t each = old ? 3 : 4, most = size_t{1} << h.bits;
  const size_t count = colours == 0 ? most : std::min<size_t>(colours, most);
  for (size_t i = 0; i < count && table + each * (i + 1) <= b.size(); ++i)
    for (size_t c = 0; c < 3; ++c) h.palette[i][c] = b[table + each * i + 2 - c];
  return h;
}

class Decoder {
 public:
  Decoder(Bytes bytes, const Header& header) : b_(bytes), h_(header) {
    image_ = {.height = h_.height, .width = h_.width, .channels = 3, .pixels = {}};
  }

  Result<Image> Run() {
    const bool runs = h_.compression == kRuns8 || h_.compression == kRuns4;
    const int64_t row = (h_.width * h_.bits + 31) / 32 * 4;
    if (!runs && static_cast<int64_t>(b_.size() - h_.pixels) <
                     row * (h_.height - 1) + (h_.width * h_.bits + 7) / 8)
      return Invalid("the pixels end too early");
    image_.pixels.resize(static_cast<size_t>(h_.height * h_.width * 3));
    if (runs) {
      if (!Runs()) return Invalid("the pixels end too early, or leave the image");
    } else {
      for (int64_t y = 0; y < h_.height; ++y) Row(y, h_.pixels + static_cast<size_t>(y * row));
    }
    return std::move(image_);
  }

 private:
  uint8_t* Pixel(int64_t y, int64_t x) {
    const int64_t row = h_.top_down ? y : h_.height - 1 - y;
    return image_.pixels.data() + 3 * (row * h_.width + x);
  }

  void Set(int64_t y, int64_t x, uint32_t index) {
    std::ranges::copy(h_.palette[index & 255], Pixel(y, x));
  }

  // The bits of a mask, stretched to eight.
  static uint8_t Masked(uint32_t value, uint32_t mask) {
    if (mask == 0) return 0;
    const uint64_t most = mask >> std::countr_zero(mask);
    const uint64_t found = (value & mask) >> std::countr_zero(mask);
    return static_cast<uint8_t>(found * 255 / most);
  }

  void Row(int64_t y, size_t at) {
    for (int64_t x = 0; x < h_.width; ++x) {
      const auto i = static_cast<size_t>(x);
      if (h_.bits == 24) {
        for (size_t c = 0; c < 3; ++c) Pixel(y, x)[c] = b_[at + 3 * i + 2 - c];
      } else if (h_.bits > 8) {
        const uint32_t value = Number(b_, at + i * h_.bits / 8, h_.bits / 8);
        for (size_t c = 0; c < 3; ++c) Pixel(y, x)[c] = Masked(value, h_.masks[c]);
      } else {
        const size_t bit = i * h_.bits;
        const uint32_t shift = 8 - h_.bits - static_cast<uint32_t>(bit % 8);
        Set(y, x, (b_[at + bit / 8] >> shift) & ((1u << h_.bits) - 1));
      }
    }
  }

  // Pairs of bytes: a count and what to repeat, or an escape (end of line, of the image, a step, a
  // run of pixels as they are). Pixels beside the end of a line are dropped.
  bool Runs() {
    const bool half = h_.compression == kRuns4;
    size_t at = h_.pixels;
    int64_t y = 0, x = 0;
    const auto put = [&](uint32_t index) {
      if (x < h_.width) Set(y, x++, index);
    };
    while (at + 2 <= b_.size() && y < h_.height) {
      const uint32_t count = b_[at], value = b_[at + 1];
      at += 2;
      if (count > 0) {
        for (uint32_t i = 0; i < count; ++i)
          put(!half ? value : i % 2 == 0 ? value >> 4 : value & 15);
      } else if (value == 0) {
        ++y;
        x = 0;
      } else if (value == 1) {
        return true;
      } else if (value == 2) {
        if (at + 2 > b_.size()) return false;
        x = std::min<int64_t>(x + b_[at], h_.width);
        y += b_[at + 1];
        at += 2;
      } else {
        const size_t bytes = half ? (value + 1) / 2 : value;
        if (at + bytes > b_.size()) return false;
        for (uint32_t i = 0; i < value; ++i) {
          const uint32_t byte = b_[at + (half ? i / 2 : i)];
          put(!half ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
        }
        at += bytes + bytes % 2;
      }
    }
    return y >= h_.height;
  }

  Bytes b_;
  const Header& h_;
  Image image_;
};

}  // namespace

Result<Image> DecodeBmp(Bytes bytes) {
  WEFT_TRY(const Header header, ReadHeader(bytes));
  return Decoder(bytes, header).Run();
}

}  // namespace weft::fallback::images
