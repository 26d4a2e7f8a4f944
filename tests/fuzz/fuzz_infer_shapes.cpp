// Types of models from strangers: refused, or a graph whose types inference confirms, and which
// stay what they are when the extents that were open become numbers.
#include "graph/infer.h"
#include "tests/fuzz/graphs.h"

namespace weft::graph {
namespace {

// Whether `b` may be what `a` is once its symbols are numbers. A value of no known type may be
// anything.
bool Agrees(const Value& a, const Value& b) {
  if (a.dtype && a.dtype != b.dtype) return false;
  if (!a.shape) return true;
  if (!b.shape || a.shape->size() != b.shape->size()) return false;
  for (size_t i = 0; i < a.shape->size(); ++i)
    if ((*a.shape)[i].IsConstant() && (*a.shape)[i] != (*b.shape)[i]) return false;
  return true;
}

void CheckBound(const Graph& open) {
  Graph bound = open;
  int64_t next = 2;
  for (const std::string& symbol : FreeSymbols(open)) {
    const Status status = BindSymbol(bound, symbol, next++);
    fuzz::CheckPlaced(status);
    if (!status.ok()) return;
  }
  const Status status = InferShapes(bound);
  fuzz::CheckPlaced(status);
  if (!status.ok()) return;  // that size does not fit
  fuzz::CheckSound(bound);
  for (size_t i = 0; i < open.values.size(); ++i) {
    BlobStore blobs;
    WEFT_CHECK(Agrees(open.values[i], bound.values[i]), "{} has another type in\n{}\nthan in\n{}",
               open.values[i].name, Print(bound, blobs), Print(open, blobs));
  }
}

}  // namespace
}  // namespace weft::graph

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;         // NOLINT: a program of one function
  using namespace weft::graph;  // NOLINT
  auto graph = fuzz::Import(data, size);
  if (!graph) return 0;
  const Status inferred = InferShapes(*graph);
  fuzz::CheckPlaced(inferred);
  if (!inferred.ok()) return 0;
  fuzz::CheckSound(*graph);
  const Status again = VerifyShapes(*graph);
  WEFT_CHECK(again.ok(), "{}", again.ToString());
  fuzz::CheckFair(ShapeInputs(*graph).status());
  CheckBound(*graph);
  return 0;
}
