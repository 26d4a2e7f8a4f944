// Bytes of tensors that lie in files beside the model.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace weft::graph {

struct ExternalBytes {
  std::shared_ptr<const void> owner;  // keeps the mapping alive
  std::span<const std::byte> bytes;
};

// Maps each file once. A name is resolved below the folder one component at a time, without
// following a link anywhere; only regular files with a single name are taken, so nothing outside is
// reachable.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  // The whole file.
  Result<ExternalBytes> Open(const std::string& location);

 private:
  std::string folder_;  // empty: no file is taken
  std::map<std::string, ExternalBytes> open_;
};

}  // namespace weft::graph
