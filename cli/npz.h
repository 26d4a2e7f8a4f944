// NumPy's .npy and .npz files: arrays only, no pickles, nothing evaluated.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"

namespace weft::cli {

// Either byte order and Fortran order are honoured; declared sizes are checked against the bytes.
Result<Tensor> ParseNpy(std::string_view bytes, const std::string& where);
Result<Tensor> ReadNpy(const std::string& path);
// `wanted` refuses the names of arrays that nobody has a use for, before one that is compressed is
// unpacked: it may have a thousand times the bytes of its file.
Result<std::map<std::string, Tensor>> ReadNpz(
    const std::string& path, const std::function<Status(const std::string&)>& wanted);
// Stored, not compressed; whole or not at all.
Status WriteNpz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace weft::cli
