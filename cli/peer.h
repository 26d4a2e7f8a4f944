// Another library that runs the same model, in a process of its own: onnxruntime, OpenVINO or
// torch.
//
// A process of its own, because the libraries bring thread pools and copies of TBB and protobuf
// that would meet ours. The process is a Python script (peer.py and what it imports, parts of this
// program) under the interpreter that WEFT_PEER_PYTHON names, or python3. Scripts, inputs and what
// the library caches lie in a private temporary folder.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"

namespace weft::cli {

class Peer {
 public:
  using Named = std::pair<std::string, Tensor>;
  // Loads `model` with these inputs; kMissing if the library isn't installed. threads >= 1. With
  // `on_cuda` it runs on the first GPU, where inputs lie and outputs stay.
  static Result<std::unique_ptr<Peer>> Open(const std::string& library, const std::string& model,
                                            const std::vector<Named>& inputs, uint32_t threads,
                                            bool on_cuda);
  ~Peer();  // ends the process
  // Runs to warm up, as of every arm, and one that counts: microseconds, as the peer measured them.
  Result<double> Run();
  // Of the last run, in the order of `names`.
  Result<std::vector<Tensor>> Outputs(const std::vector<std::string>& names);
  const std::string& version() const { return version_; }

 private:
  Peer() = default;
  Result<std::string> Ask(const std::string& line);
  Result<std::string> Answer();

  std::string library_, version_, folder_;
  int pid_ = -1, in_ = -1;
  FILE* out_ = nullptr;
};

}  // namespace weft::cli
