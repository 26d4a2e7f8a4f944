// Images as inputs: PNG and JPEG files, normalized, in the layout that a network takes.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "fallback/image.h"

namespace weft::cli {

// How pixels become elements: (pixel - mean) * scale in f32. One number for all channels or one for
// each.
struct ImageFlags {
  std::vector<float> mean, scale;  // empty: 0, 1
  std::string layout = "nchw";     // nchw, nhwc, chw or hwc; n is 1
};

bool IsImageName(const std::string& path);  // ends in .png, .jpg or .jpeg, in any case
// Files are untrusted: at most 2^28 bytes, of any format, as fallback/image.h says. kInvalid if
// damaged.
Result<fallback::Image> ReadImage(const std::string& path);
Result<Tensor> ImageTensor(const fallback::Image& pixels, const ImageFlags& flags);

}  // namespace weft::cli
