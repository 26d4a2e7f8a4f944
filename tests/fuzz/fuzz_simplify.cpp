// Models from strangers, simplified as a build does: what comes out verifies, takes and gives what
// the model did, and has nothing left to simplify.
#include <algorithm>

#include "driver/evaluate.h"
#include "graph/codes.h"
#include "graph/edit.h"
#include "graph/infer.h"
#include "graph/sequences.h"
#include "graph/simplify.h"
#include "tests/fuzz/graphs.h"

namespace weft::graph {
namespace {

std::vector<std::string> Names(const Graph& graph, std::span<const ValueId> values) {
  std::vector<std::string> names;
  for (ValueId v : values) names.push_back(graph[v].name);
  return names;
}

// Whether inference has all it needs.
bool Typed(const Graph& graph) {
  return std::ranges::all_of(graph.inputs,
                             [&](ValueId v) { return graph[v].dtype && graph[v].shape; }) &&
         std::ranges::all_of(graph.nodes, [](const Node& node) {
           return node.op != Op::kUnknown &&
                  std::ranges::all_of(Subgraphs(node),
                                      [](const auto& body) { return Typed(*body); });
         });
}

// Types that were known stay; extents that were open may be known now. Less may be where something
// has no known type.
void CheckKept(const Graph& before, const Graph& after) {
  BlobStore blobs;
  const auto both = [&] { return Print(before, blobs) + Print(after, blobs); };
  WEFT_CHECK(Names(before, before.inputs) == Names(after, after.inputs), "other inputs:\n{}",
             both());
  WEFT_CHECK(Names(before, before.outputs) == Names(after, after.outputs), "other outputs:\n{}",
             both());
  const bool typed = Typed(before);
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    const Value &a = before[before.outputs[i]], &b = after[after.outputs[i]];
    const bool comparable = a.dtype && (b.dtype || typed);
    WEFT_CHECK(!comparable || a.dtype == b.dtype, "{} has another type:\n{}", a.name, both());
    if (!a.shape || (!b.shape && !typed)) continue;
    WEFT_CHECK(b.shape && a.shape->size() == b.shape->size(), "{} has another rank:\n{}", a.name,
               both());
    for (size_t k = 0; k < a.shape->size(); ++k) {
      const Extent was = (*a.shape)[k], is = (*b.shape)[k];
      const bool same = !was.IsConstant() || was == is || (!is.IsConstant() && !typed);
      WEFT_CHECK(same, "{} has other extents:\n{}", a.name, both());
    }
  }
}

void Try(Graph graph) {
  Graph before = Clone(graph);
  const Status status = Simplify(graph, driver::EvaluateNode);
  fuzz::CheckPlaced(status);
  if (!status.ok()) return;
  fuzz::CheckSound(graph);
  const Status types = VerifyShapes(graph);
  WEFT_CHECK(types.ok(), "{}", types.ToString());
  CheckKept(before, graph);
}

}  // namespace
}  // namespace weft::graph

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;         // NOLINT: a program of one function
  using namespace weft::graph;  // NOLINT
  auto graph = fuzz::Import(data, size);
  if (!graph || !InferShapes(*graph).ok()) return 0;
  const Status lowered = LowerCodes(*graph);
  fuzz::CheckPlaced(lowered);
  if (lowered.ok()) Try(*std::move(graph));
  return 0;
}
