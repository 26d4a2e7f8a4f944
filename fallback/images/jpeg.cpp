#include <csetjmp>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>  // wants cstdio before it

#include "fallback/images/decoders.h"

namespace weft::fallback::images {
namespace {

constexpr int kMaxScans = 256;  // of a progressive file: each goes over all pixels

// libjpeg reports an error by calling back, and the callback must not return.
struct Errors {
  jpeg_error_mgr base;  // first: libjpeg gives a pointer to it
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void Failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

void CountScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<Errors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMaxScans);
  std::longjmp(errors->back, 1);
}

// Inks as Adobe's programs write them, inverted.
void FromInks(const uint8_t* inks, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i) {
    const int light = inks[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - inks[4 * i + c]) * light + 128;
      rgb[3 * i + c] = Clamp8(light - (((product >> 8) + product) >> 8));
    }
  }
}

// Until a longjmp nothing with a destructor may begin to live, so this reads into what the caller
// owns: false, with a message, if the file is damaged. Of what libjpeg only warns of, the end of
// the data counts as damage.
bool Decode(Bytes bytes, Image& image, std::vector<uint8_t>& row, Errors& errors, Status& status) {
  jpeg_decompress_struct jpeg{};
  jpeg_progress_mgr progress{};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = Failed;
  errors.base.emit_message = [](j_common_ptr info, int) {
    if (info->err->msg_code == JWRN_JPEG_EOF) Failed(info);
  };
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  progress.progress_monitor = CountScans;
  jpeg.progress = &progress;
  jpeg_mem_src(&jpeg, bytes.data(), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  status = CheckSize(jpeg.image_height, jpeg.image_width);
  if (status.ok() && jpeg.num_components != 1 && jpeg.num_components != 3 &&
      jpeg.num_components != 4)
    status = Invalid(fmt::format("found {} components, expected 1, 3 or 4", jpeg.num_components));
  if (status.ok()) {
    const bool inks = jpeg.num_components == 4;
    jpeg.out_color_space = inks ? JCS_CMYK : jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg);
    image = {.height = jpeg.output_height,
             .width = jpeg.output_width,
             .channels = inks ? 3 : jpeg.output_components,
             .pixels = {}};
    const auto width = static_cast<size_t>(image.width);
    const size_t length = width * static_cast<size_t>(image.channels);
    row.resize(width * static_cast<size_t>(jpeg.output_components));
    while (jpeg.output_scanline < jpeg.output_height) {
      const size_t at = length * jpeg.output_scanline;
      image.pixels.resize(at + length);  // grows with what was read
      JSAMPROW to = inks ? row.data() : image.pixels.data() + at;
      jpeg_read_scanlines(&jpeg, &to, 1);
      if (inks) FromInks(row.data(), image.width, image.pixels.data() + at);
    }
    jpeg_finish_decompress(&jpeg);
  }
  jpeg_destroy_decompress(&jpeg);
  return true;
}

}  // namespace

Result<Image> DecodeJpeg(Bytes bytes) {
  Image image;
  std::vector<uint8_t> row;
  Errors errors{};
  Status status;
  if (!Decode(bytes, image, row, errors, status)) return Damaged(errors.message);
  WEFT_TRY(std::move(status));
  return image;
}

}  // namespace weft::fallback::images
