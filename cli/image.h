// Images as inputs: PNG and JPEG files, normalized, in the layout that a network takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"

namespace weft::cli {

// 8-bit pixels, [height, width, channels] row-major; 1 channel (gray) or 3 (red, green, blue).
struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> values;
};

// How pixels become elements: (pixel - mean) * scale in f32. One number for all channels or one for
// each.
struct ImageFlags {
  std::vector<float> mean, scale;  // empty: 0, 1
  std::string layout = "nchw";     // nchw, nhwc, chw or hwc; n is 1
};

bool IsImageName(const std::string& path);  // ends in .png, .jpg or .jpeg, in any case
// Files are untrusted: at most 2^28 bytes, and 2^26 pixels whatever the header says. 16 bits become
// 8, a palette its colours, transparent pixels black. kInvalid if damaged, kUnsupported for CMYK.
Result<Pixels> ReadImage(const std::string& path);
Result<Tensor> ImageTensor(const Pixels& pixels, const ImageFlags& flags);

}  // namespace weft::cli
