#include <webp/decode.h>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {

Result<Image> DecodeWebp(Bytes bytes) {
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &found) != VP8_STATUS_OK)
    return Invalid("the header is damaged");
  if (found.has_animation) return Invalid("found an animation, expected one image");
  WEFT_TRY(CheckSize(found.height, found.width));
  Image image{.height = found.height, .width = found.width, .channels = 3, .pixels = {}};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * 3));
  if (!WebPDecodeRGBInto(bytes.data(), bytes.size(), image.pixels.data(), image.pixels.size(),
                         found.width * 3))
    return Invalid("the image is damaged, or ends too early");
  return image;
}

}  // namespace weft::fallback::images
