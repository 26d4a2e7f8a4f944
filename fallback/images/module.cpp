#include "fallback/images/module.h"

#include <string_view>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

[[maybe_unused]] Status Lacks(std::string_view format, std::string_view library) {
  return Missing(fmt::format("this build reads no {}", format))
      .Try(fmt::format("install {}, configure and build again", library));
}

// By what the file begins with.
Result<Image> DecodeAny(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("BM")) return DecodeBmp(bytes);
  if (text.size() > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7')
    return DecodePortable(bytes);
  if (text.starts_with("\xff\xd8")) return DecodeJpeg(bytes);
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return DecodePng(bytes);
  if (text.starts_with(std::string_view("\0\0\0\x0cjP  ", 8)) ||
      text.starts_with("\xff\x4f\xff\x51")) {
#ifdef WEFT_HAS_OPENJPEG
    return DecodeJpeg2000(bytes);
#else
    return Lacks("JPEG 2000", "libopenjp2-7-dev");
#endif
  }
  if (text.starts_with(std::string_view("II*\0", 4)) ||
      text.starts_with(std::string_view("MM\0*", 4)) ||
      text.starts_with(std::string_view("II+\0", 4)) ||
      text.starts_with(std::string_view("MM\0+", 4))) {
#ifdef WEFT_HAS_TIFF
    return DecodeTiff(bytes);
#else
    return Lacks("TIFF", "libtiff-dev");
#endif
  }
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) {
#ifdef WEFT_HAS_WEBP
    return DecodeWebp(bytes);
#else
    return Lacks("WebP", "libwebp-dev");
#endif
  }
  return Invalid("found no BMP, JPEG, JPEG 2000, PNG, portable, TIFF or WebP image");
}

constexpr Module kModule = {.decode = DecodeAny};

}  // namespace
}  // namespace weft::fallback::images

extern "C" __attribute__((visibility("default"))) const weft::fallback::images::Module*
weft_images_module() {
  return &weft::fallback::images::kModule;
}
