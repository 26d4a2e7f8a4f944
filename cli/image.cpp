#include "cli/image.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>  // wants cstdio before it

#include "base/file.h"

namespace weft::cli {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 28, kMaxPixels = int64_t{1} << 26;

Status CheckSize(int64_t height, int64_t width, const std::string& path) {
  if (height < 1 || width < 1)
    return Invalid(fmt::format("found an image of {} x {} pixels", width, height)).At(path);
  if (height > kMaxPixels / width)
    return Limit(
               fmt::format("found {} x {} pixels, at most {} are read", width, height, kMaxPixels))
        .At(path);
  return {};
}

Result<Pixels> ReadPng(const std::string& bytes, const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> closer(&image, png_image_free);
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    return Invalid(image.message).At(path);
  WEFT_TRY(CheckSize(image.height, image.width, path));
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  Pixels pixels{
      .height = image.height, .width = image.width, .channels = colour ? 3 : 1, .values = {}};
  pixels.values.resize(PNG_IMAGE_SIZE(image));
  constexpr png_color kBlack{};
  if (!png_image_finish_read(&image, &kBlack, pixels.values.data(), 0, nullptr))
    return Invalid(image.message).At(path);
  return pixels;
}

// libjpeg reports an error by calling back, and the callback must not return.
struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg gives a pointer to it
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void JpegFailed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

// Until a longjmp nothing with a destructor may begin to live, so this reads into what the caller
// owns: false, with a message, if the file is damaged (which a warning means too).
bool DecodeJpeg(const std::string& bytes, const std::string& path, Pixels& pixels,
                JpegErrors& errors, Status& status) {
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = JpegFailed;
  errors.base.emit_message = [](j_common_ptr info, int level) {
    if (level < 0) JpegFailed(info);
  };
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  status = CheckSize(jpeg.image_height, jpeg.image_width, path);
  if (status.ok() && jpeg.num_components != 1 && jpeg.num_components != 3)
    status = Unsupported(
                 fmt::format("found {} components, expected gray or colour", jpeg.num_components))
                 .At(path);
  if (status.ok()) {
    jpeg.out_color_space = jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg);
    const size_t row =
        static_cast<size_t>(jpeg.output_width) * static_cast<size_t>(jpeg.output_components);
    pixels.height = jpeg.output_height;
    pixels.width = jpeg.output_width;
    pixels.channels = jpeg.output_components;
    pixels.values.resize(row * jpeg.output_height);
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW at = pixels.values.data() + row * jpeg.output_scanline;
      jpeg_read_scanlines(&jpeg, &at, 1);
    }
    jpeg_finish_decompress(&jpeg);
  }
  jpeg_destroy_decompress(&jpeg);
  return true;
}

Result<Pixels> ReadJpeg(const std::string& bytes, const std::string& path) {
  Pixels pixels;
  JpegErrors errors{};
  Status status;
  if (!DecodeJpeg(bytes, path, pixels, errors, status)) return Invalid(errors.message).At(path);
  WEFT_TRY(std::move(status));
  return pixels;
}

// One number for each channel, out of none, one or as many.
Result<std::vector<float>> PerChannel(const std::vector<float>& given, float otherwise,
                                      const Pixels& pixels, const char* flag) {
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

Result<Pixels> ReadImage(const std::string& path) {
  WEFT_TRY(const std::string bytes, ReadFile(path, kMaxFileBytes));
  if (bytes.starts_with("\x89PNG")) return ReadPng(bytes, path);
  if (bytes.starts_with("\xff\xd8")) return ReadJpeg(bytes, path);
  return Invalid("found neither a PNG nor a JPEG image").At(path);
}

Result<Tensor> ImageTensor(const Pixels& pixels, const ImageFlags& flags) {
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
          (static_cast<float>(pixels.values[static_cast<size_t>(p * channels + c)]) - mean[at]) *
          scale[at];
    }
  return tensor;
}

}  // namespace weft::cli
