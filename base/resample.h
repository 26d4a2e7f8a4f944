// Where the elements of a resized axis come from (ONNX, Resize), as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// How one axis is resampled: output i is the sum over taps t of weights[i * taps + t] * x(base[i] +
// t), places outside [0, in) meaning the nearest element inside.
struct Resample {
  int64_t in = 1, out = 1, taps = 1;
  std::vector<int64_t> base;
  std::vector<double> weights;  // empty for one tap of weight 1
  std::vector<bool> outside;    // output is the extrapolation value; empty if none is
};

// The node's attributes of these names.
struct ResampleRule {
  std::string mode, coordinates, nearest_mode;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
};

// `scale` is out / in as the node has it, roi_lo and roi_hi the crop in [0, 1]. Null if the tables
// were longer than 16 million elements or an output came from no place.
std::optional<Resample> MakeResample(const ResampleRule& rule, int64_t in, int64_t out,
                                     double scale, double roi_lo, double roi_hi);

}  // namespace weft
