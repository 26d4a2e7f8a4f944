// Model files from strangers: refused for a reason of theirs, or a graph that verifies and reads
// back as itself.
#include "tests/fuzz/graphs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;  // NOLINT: a program of one function
  const auto opsets = graph::OnnxOpsets(std::as_bytes(std::span(data, size)));
  fuzz::CheckFair(opsets.status());
  const auto graph = fuzz::Import(data, size);
  if (!graph) return 0;
  WEFT_CHECK(opsets.ok(), "imported, but {}", opsets.status().ToString());
  fuzz::CheckSound(*graph);
  return 0;
}
