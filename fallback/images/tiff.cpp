#include <tiffio.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

constexpr tmsize_t kMaxBytesAtOnce = tmsize_t{1} << 29;

struct Source {
  Bytes bytes;
  uint64_t at = 0;
  char message[256] = {};
};

Source& Of(thandle_t handle) { return *static_cast<Source*>(handle); }

tmsize_t Read(thandle_t handle, void* to, tmsize_t count) {
  Source& source = Of(handle);
  if (count < 0 || source.at >= source.bytes.size()) return 0;
  const auto taken =
      std::min<uint64_t>(static_cast<uint64_t>(count), source.bytes.size() - source.at);
  std::memcpy(to, source.bytes.data() + source.at, taken);
  source.at += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }

toff_t Seek(thandle_t handle, toff_t offset, int from) {
  Source& source = Of(handle);
  const uint64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? source.at : source.bytes.size();
  source.at = base + offset;
  return source.at;
}

int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return Of(handle).bytes.size(); }

int Say(TIFF*, void* handle, const char*, const char* format, va_list arguments) {
  Source& source = *static_cast<Source*>(handle);
  std::vsnprintf(source.message, sizeof source.message, format, arguments);
  return 1;
}

int SayNothing(TIFF*, void*, const char*, const char*, va_list) { return 1; }

// The image as tag Orientation (1 to 8) has it shown, from its rows and columns as they are stored.
Image Shown(const Image& stored, int orientation) {
  const bool turned = orientation >= 5;  // rows are columns
  const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Image shown = stored;
  if (turned) std::swap(shown.height, shown.width);
  for (int64_t y = 0; y < shown.height; ++y) {
    for (int64_t x = 0; x < shown.width; ++x) {
      const int64_t v = bottom ? shown.height - 1 - y : y, u = right ? shown.width - 1 - x : x;
      const int64_t from = turned ? u * stored.width + v : v * stored.width + u;
      std::memcpy(shown.pixels.data() + 3 * (y * shown.width + x), stored.pixels.data() + 3 * from,
                  3);
    }
  }
  return shown;
}

}  // namespace

Result<Image> DecodeTiff(Bytes bytes) {
  Source source{.bytes = bytes};
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBytesAtOnce);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Say, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), SayNothing, nullptr);
  // "m": libtiff would else map the file, which is in memory already.
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpenExt("image", "rm", &source, Read, Write, Seek, Close, Size, nullptr, nullptr,
                        options.get()),
      TIFFClose);
  if (!tiff) return Damaged(source.message);
  uint32_t width = 0, height = 0;
  uint16_t orientation = ORIENTATION_TOPLEFT, extra = 0, *kinds = nullptr;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  WEFT_TRY(CheckSize(height, width));
  TIFFGetField(tiff.get(), TIFFTAG_ORIENTATION, &orientation);
  if (orientation < 1 || orientation > 8) orientation = ORIENTATION_TOPLEFT;
  // Colours are wanted as they are stored: libtiff multiplies them by what is known as opacity.
  if (TIFFGetField(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds) && extra > 0) {
    std::vector<uint16_t> opaque(extra, EXTRASAMPLE_ASSOCALPHA);
    TIFFSetField(tiff.get(), TIFFTAG_EXTRASAMPLES, extra, opaque.data());
  }
  std::vector<uint32_t> raster(static_cast<size_t>(width) * height);
  // Asked for the orientation that the file has, libtiff turns nothing.
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(), orientation, 1))
    return Damaged(source.message);
  Image image{.height = height, .width = width, .channels = 3, .pixels = {}};
  image.pixels.resize(raster.size() * 3);
  for (size_t i = 0; i < raster.size(); ++i) {
    image.pixels[3 * i] = TIFFGetR(raster[i]);
    image.pixels[3 * i + 1] = TIFFGetG(raster[i]);
    image.pixels[3 * i + 2] = TIFFGetB(raster[i]);
  }
  return orientation == ORIENTATION_TOPLEFT ? image : Shown(image, orientation);
}

}  // namespace weft::fallback::images
