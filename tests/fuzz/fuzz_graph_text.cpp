// Graphs as text from strangers: refused with a location, or a graph that prints and reads back as
// itself, and whose types can be inferred or are refused.
#include <string_view>

#include "base/check.h"
#include "graph/graph.h"
#include "graph/infer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;         // NOLINT: a program of one function
  using namespace weft::graph;  // NOLINT
  BlobStore blobs;
  auto graph = ParseGraph({reinterpret_cast<const char*>(data), size}, "fuzz", blobs);
  if (!graph.ok()) {
    WEFT_CHECK(!graph.status().where().empty(), "no location: {}", graph.status().ToString());
    return 0;
  }
  const std::string text = Print(*graph, blobs);
  const auto again = ParseGraph(text, "again", blobs);
  WEFT_CHECK(again.ok(), "{}\n{}", again.status().ToString(), text);
  WEFT_CHECK(Equal(*graph, *again), "reads back different:\n{}", text);
  const Status inferred = Verify(*graph).ok() ? InferShapes(*graph) : Status();
  WEFT_CHECK(inferred.code() != Code::kInternal, "{}", inferred.ToString());
  return 0;
}
