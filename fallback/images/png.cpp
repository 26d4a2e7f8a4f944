#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

struct Source {
  Bytes bytes;
  size_t at = 0;
  char message[128];
};

void Failed(png_structp png, const char* message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof source->message, "%s", message);
  png_longjmp(png, 1);
}

void Read(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->at) png_error(png, "the file ends too early");
  std::memcpy(to, source->bytes.data() + source->at, count);
  source->at += count;
}

// As in jpeg.cpp, whatever has a destructor belongs to the caller. Gray or colour of 8 bits comes
// out, of any kind of file.
bool Decode(png_structp png, png_infop info, Source& source, Image& image,
            std::vector<uint8_t*>& rows, Status& status) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, &source, Read);
  png_read_info(png, info);
  status = CheckSize(png_get_image_height(png, info), png_get_image_width(png, info));
  if (!status.ok()) return true;
  const int type = png_get_color_type(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  image = {.height = png_get_image_height(png, info),
           .width = png_get_image_width(png, info),
           .channels = png_get_channels(png, info),
           .pixels = {}};
  const size_t length = png_get_rowbytes(png, info), height = static_cast<size_t>(image.height);
  if (passes == 1) {
    for (size_t y = 0; y < height; ++y) {
      image.pixels.resize((y + 1) * length);  // grows with what was read
      png_read_row(png, image.pixels.data() + y * length, nullptr);
    }
  } else {
    image.pixels.resize(height * length);
    rows.resize(height);
    for (size_t y = 0; y < height; ++y) rows[y] = image.pixels.data() + y * length;
    png_read_image(png, rows.data());
  }
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

Result<Image> DecodePng(Bytes bytes) {
  Source source{.bytes = bytes, .message = {}};
  Image image;
  std::vector<uint8_t*> rows;
  Status status;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, Failed,
                                           [](png_structp, const char*) {});
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool done = info && Decode(png, info, source, image, rows, status);
  png_destroy_read_struct(&png, &info, nullptr);
  if (!done) return Damaged(source.message);
  WEFT_TRY(std::move(status));
  if (image.channels != 1 && image.channels != 3)
    return Invalid(fmt::format("found {} channels, expected 1 or 3", image.channels));
  return image;
}

}  // namespace weft::fallback::images
