// Any text: refused with a location, or a graph that prints and reads back as itself.

#include "graph/graph.h"

using namespace weft;         // NOLINT: a program of one function
using namespace weft::graph;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  BlobStore blobs;
  const auto graph = ParseGraph(text, "fuzz", blobs);
  if (!graph.ok()) return 0;
  const auto again = ParseGraph(Print(*graph, blobs), "fuzz", blobs);
  if (!again.ok() || !Equal(*graph, *again)) __builtin_trap();
  return 0;
}
