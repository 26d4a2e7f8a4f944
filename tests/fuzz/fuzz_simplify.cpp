// Models from strangers, simplified as a build does: what comes out verifies, takes and gives what
// the model did, and computes the same, where that is integers of few elements.
#include <algorithm>
#include <optional>
#include <vector>

#include "driver/evaluate.h"
#include "graph/codes.h"
#include "graph/edit.h"
#include "graph/infer.h"
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

// Integers have no rounding that a rewrite could change.
bool IsExact(const Value& value) {
  constexpr int64_t kMost = 4096;
  const auto shape = StaticShape(value);
  const auto elems = shape ? CountElems(*shape) : Limit("");
  return value.dtype && elems.ok() && *elems <= kMost &&
         (IsInteger(*value.dtype) || *value.dtype == Dtype::kBool);
}

// By value, for made-up inputs: what is computed of integers alone. Nothing where that can't be
// evaluated, or not for these.
std::vector<std::optional<Tensor>> Evaluated(const Graph& graph) {
  std::vector<std::optional<Tensor>> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = graph.values[i];
    if (!IsExact(value)) continue;
    if (value.kind == ValueKind::kConstant) values[i] = value.constant;
    if (value.kind != ValueKind::kInput) continue;
    Tensor& input = values[i].emplace(*value.dtype, *StaticShape(value));
    for (int64_t k = 0; k < input.elems(); ++k)
      SetElemInt(input, k, (7 * k + std::ssize(value.name)) % 5 - 1);
  }
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor*> operands;
    bool known = Subgraphs(node).empty() && node.op != Op::kUnknown;
    for (ValueId v : node.inputs) {
      known = known && (!v.valid() || values[v.index]);
      operands.push_back(v.valid() && known ? &*values[v.index] : nullptr);
    }
    for (ValueId v : node.outputs) known = known && (!v.valid() || IsExact(graph[v]));
    if (!known) continue;
    auto results = driver::EvaluateNode(graph, node, operands);
    fuzz::CheckFair(results.status());
    if (!results.ok()) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].valid()) values[node.outputs[i].index] = std::move((*results)[i]);
  }
  return values;
}

void CheckSameResults(const Graph& before, const Graph& after) {
  const auto expected = Evaluated(before), found = Evaluated(after);
  BlobStore blobs;
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    const auto &x = expected[before.outputs[i].index], &y = found[after.outputs[i].index];
    WEFT_CHECK(!x || !y || *x == *y, "output {} differs:\n{}{}", i, Print(before, blobs),
               Print(after, blobs));
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
  CheckSameResults(before, graph);
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
