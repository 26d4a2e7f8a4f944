#include <openjpeg-2.5/openjpeg.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

struct Source {
  Bytes bytes;
  size_t at = 0;
};

OPJ_SIZE_T Read(void* to, OPJ_SIZE_T count, void* data) {
  auto* source = static_cast<Source*>(data);
  const size_t taken = std::min<size_t>(count, source->bytes.size() - source->at);
  if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, source->bytes.data() + source->at, taken);
  source->at += taken;
  return taken;
}

OPJ_OFF_T Skip(OPJ_OFF_T count, void* data) {
  auto* source = static_cast<Source*>(data);
  const auto left = static_cast<OPJ_OFF_T>(source->bytes.size() - source->at);
  if (count < 0 || left == 0) return -1;
  count = std::min(count, left);
  source->at += static_cast<size_t>(count);
  return count;
}

OPJ_BOOL Seek(OPJ_OFF_T to, void* data) {
  auto* source = static_cast<Source*>(data);
  if (to < 0 || static_cast<size_t>(to) > source->bytes.size()) return OPJ_FALSE;
  source->at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

void Say(const char* message, void* data) {
  auto* text = static_cast<std::string*>(data);
  if (!text->empty()) return;  // the first is the cause
  *text = message;
  while (!text->empty() && text->back() == '\n') text->pop_back();
}

// A component's number at a place of the image, in 8 bits: components may be coarser than the
// image, signed, and of other widths.
uint8_t At(const opj_image_comp_t& c, int64_t y, int64_t x) {
  const int64_t row = std::min<int64_t>(y / c.dy, c.h - 1),
                column = std::min<int64_t>(x / c.dx, c.w - 1);
  const int64_t value =
      int64_t{c.data[row * c.w + column]} + (c.sgnd ? int64_t{1} << (c.prec - 1) : 0);
  return Clamp8(c.prec > 8 ? value >> (c.prec - 8) : value << (8 - c.prec));
}

Status Check(const opj_image_t& image) {
  if (image.x1 <= image.x0 || image.y1 <= image.y0 || image.numcomps < 1)
    return Invalid("found an image without pixels");
  WEFT_TRY(CheckSize(int64_t{image.y1} - image.y0, int64_t{image.x1} - image.x0));
  for (uint32_t k = 0; k < image.numcomps; ++k) {
    const opj_image_comp_t& c = image.comps[k];
    if (c.dx < 1 || c.dy < 1 || c.prec < 1 || c.prec > 31)
      return Invalid(fmt::format("component {} has {} bits", k, c.prec));
  }
  if (image.numcomps > 4)
    return Invalid(fmt::format("found {} components, expected 1 to 4", image.numcomps));
  return {};
}

Image Pixels(const opj_image_t& from) {
  const bool colour = from.numcomps >= 3;
  Image image{.height = int64_t{from.y1} - from.y0,
              .width = int64_t{from.x1} - from.x0,
              .channels = colour ? 3 : 1,
              .pixels = {}};
  image.pixels.reserve(static_cast<size_t>(image.height * image.width * image.channels));
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) image.pixels.push_back(At(from.comps[c], y, x));
      if (from.color_space != OPJ_CLRSPC_SYCC || !colour) continue;
      uint8_t* p = &image.pixels[image.pixels.size() - 3];  // luma and two differences (JFIF)
      const double luma = p[0], blue = p[1] - 128.0, red = p[2] - 128.0;
      p[0] = Clamp8(static_cast<int64_t>(luma + 1.402 * red + 0.5));
      p[1] = Clamp8(static_cast<int64_t>(luma - 0.344136 * blue - 0.714136 * red + 0.5));
      p[2] = Clamp8(static_cast<int64_t>(luma + 1.772 * blue + 0.5));
    }
  }
  return image;
}

}  // namespace

Result<Image> DecodeJpeg2000(Bytes bytes) {
  Source source{.bytes = bytes};
  std::string message;
  const bool boxes = bytes[0] == 0;  // a bare code stream begins with a marker
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)> codec(
      opj_create_decompress(boxes ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), opj_destroy_codec);
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)> stream(
      opj_stream_default_create(OPJ_TRUE), opj_stream_destroy);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  if (!codec || !stream || !opj_setup_decoder(codec.get(), &parameters))
    return Invalid("the decoder can't be set up");
  opj_set_error_handler(codec.get(), Say, &message);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), bytes.size());
  opj_stream_set_read_function(stream.get(), Read);
  opj_stream_set_skip_function(stream.get(), Skip);
  opj_stream_set_seek_function(stream.get(), Seek);
  opj_image_t* header = nullptr;
  const bool known = opj_read_header(stream.get(), codec.get(), &header);
  const std::unique_ptr<opj_image_t, void (*)(opj_image_t*)> image(header, opj_image_destroy);
  if (!known) return Damaged(message.c_str());
  WEFT_TRY(Check(*image));
  if (!opj_decode(codec.get(), stream.get(), image.get()) ||
      !opj_end_decompress(codec.get(), stream.get()))
    return Damaged(message.c_str());
  WEFT_TRY(Check(*image));  // a palette may have made other components
  for (uint32_t k = 0; k < image->numcomps; ++k) {
    const opj_image_comp_t& c = image->comps[k];
    if (!c.data || c.w < 1 || c.h < 1) return Invalid(fmt::format("component {} is empty", k));
  }
  return Pixels(*image);
}

}  // namespace weft::fallback::images
