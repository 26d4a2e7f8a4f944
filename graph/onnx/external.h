// Bytes of tensors that lie in files beside the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace weft::graph {

// Reads each file once. A name is resolved below the folder one component at a time, without
// following a link anywhere; only regular files with a single name are taken, so nothing outside is
// reachable.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  // The whole file, as u8.
  Result<Tensor> Open(const std::string& location);

 private:
  std::string folder_;                               // empty: no file is taken
  std::map<std::vector<std::string>, Tensor> open_;  // by the components of the name
};

}  // namespace weft::graph
