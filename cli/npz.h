// NumPy's .npy and .npz files: arrays only, no pickles, nothing evaluated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"

namespace weft::cli {

// Numpy has no type for elements of four bits: they are written as int8 or uint8, one in a byte.
Tensor Widened(const Tensor& tensor);  // others as they are
// The inverse; an error if a number does not fit.
Result<Tensor> Narrowed(const Tensor& tensor, Dtype dtype);
// Either byte order and Fortran order are honoured; declared sizes are checked against the bytes.
Result<Tensor> ParseNpy(std::string_view bytes, const std::string& where);
Result<Tensor> ReadNpy(const std::string& path);
Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path);
// Stored, not compressed; whole or not at all.
Status WriteNpz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace weft::cli
