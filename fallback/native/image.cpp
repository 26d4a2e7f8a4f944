// ImageDecoder: the image in a file's bytes.
#include "fallback/image.h"

#include "base/log.h"
#include "fallback/native/args.h"

namespace weft::fallback::native {
namespace {

// ITU-R BT.601 with weights of 16 bits, rounded, as Pillow has it.
uint8_t Luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

}  // namespace

// [bytes] -> [height, width, channels]. What can't be decoded gives an empty image, as the standard
// has it; what the limits or this build refuse is an error.
Status RunImageDecoder(const Args& args) {
  WEFT_TRY(args.NeedType(0, Dtype::kU8));
  if (args[0].rank() != 1)
    return args.Error("{} has rank {}, expected 1", args.Name(0), args[0].rank());
  const std::string format = args.Text("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return args.Error("pixel_format is {}, expected RGB, BGR or Grayscale", PrintString(format));
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  Result<Image> decoded = DecodeImage({args[0].as<uint8_t>(), static_cast<size_t>(args[0].elems)});
  if (!decoded.ok()) {
    if (decoded.status().code() != Code::kInvalid)
      return std::move(decoded.status()).Because(fmt::format("in {}", args.Name(0)));
    WEFT_LOG(kWarning, "native", "ImageDecoder: {} is no image that can be decoded: {}",
             args.Name(0), decoded.status().what());
    return args.Output(0, Dtype::kU8, {0, 0, channels}).status();
  }
  const Image& image = *decoded;
  WEFT_TRY(const Out out, args.Output(0, Dtype::kU8, {image.height, image.width, channels}));
  const uint8_t* from = image.pixels.data();
  uint8_t* to = out.as<uint8_t>();
  for (int64_t i = 0; i < image.height * image.width; ++i, from += image.channels, to += channels) {
    const bool gray = image.channels == 1;
    if (channels == 1) {
      *to = gray ? *from : Luma(from);
      continue;
    }
    for (int64_t c = 0; c < 3; ++c) to[format == "BGR" ? 2 - c : c] = from[gray ? 0 : c];
  }
  return {};
}

}  // namespace weft::fallback::native
