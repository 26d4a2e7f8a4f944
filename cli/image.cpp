#include "cli/image.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"

namespace weft::cli {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

// One number for each channel, out of none, one or as many.
Result<std::vector<float>> PerChannel(const std::vector<float>& given, float otherwise,
                                      const fallback::Image& pixels, const char* flag) {
  const auto channels = static_cast<size_t>(pixels.channels);
  if (given.empty()) return std::vector<float>(channels, otherwise);
  if (given.size() == 1) return std::vector<float>(channels, given[0]);
  if (given.size() == channels) return given;
  return Usage(
      fmt::format("{}: found {} numbers, the image has {} channels", flag, given.size(), channels));
}

}  // namespace

bool IsImageName(const std::string& path) {
  std::string end = path.substr(path.size() - std::min<size_t>(path.size(), 5));
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end.ends_with(".png") || end.ends_with(".jpg") || end.ends_with(".jpeg");
}

Result<fallback::Image> ReadImage(const std::string& path) {
  WEFT_TRY(const std::string bytes, ReadFile(path, kMaxFileBytes));
  auto image =
      fallback::DecodeImage({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (!image.ok()) return std::move(image.status()).At(path);
  return *std::move(image);
}

Result<Tensor> ImageTensor(const fallback::Image& pixels, const ImageFlags& flags) {
  const auto [height, width, channels] = std::tuple(pixels.height, pixels.width, pixels.channels);
  const bool planar = flags.layout.ends_with("chw");
  WEFT_TRY(const auto mean, PerChannel(flags.mean, 0, pixels, "--mean"));
  WEFT_TRY(const auto scale, PerChannel(flags.scale, 1, pixels, "--scale"));
  Shape shape = planar ? Shape{channels, height, width} : Shape{height, width, channels};
  if (flags.layout.starts_with("n")) shape.insert(shape.begin(), 1);
  WEFT_TRY(Tensor tensor, Tensor::Allocate(Dtype::kF32, shape));
  float* out = tensor.mutable_as<float>();
  for (int64_t p = 0; p < height * width; ++p)
    for (int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<size_t>(c);
      out[planar ? c * height * width + p : p * channels + c] =
          (static_cast<float>(pixels.pixels[static_cast<size_t>(p * channels + c)]) - mean[at]) *
          scale[at];
    }
  return tensor;
}

}  // namespace weft::cli
