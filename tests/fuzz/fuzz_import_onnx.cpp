// Any bytes: imported, inferred, simplified, printed and read back without a crash.

#include "graph/infer.h"
#include "graph/onnx/import.h"
#include "graph/simplify.h"

using namespace weft;         // NOLINT: a program of one function
using namespace weft::graph;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ImportLimits limits{.max_nodes = 2000, .max_bytes = 1 << 20};
  auto graph = ImportOnnx(std::as_bytes(std::span(data, size)), "fuzz", "", limits);
  if (!graph.ok() || !InferShapes(*graph).ok()) return 0;
  const Evaluator refuse = [](const Graph&, const Node&,
                              std::span<const Tensor* const>) -> Result<std::vector<Tensor>> {
    return Unsupported("no kernels here");
  };
  if (!Simplify(*graph, refuse).ok()) return 0;
  BlobStore blobs;
  const auto again = ParseGraph(Print(*graph, blobs), "fuzz", blobs);
  if (!again.ok() || !Equal(*graph, *again)) __builtin_trap();
  return 0;
}
