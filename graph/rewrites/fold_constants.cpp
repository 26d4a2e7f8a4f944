// Nodes whose results are known: from constants by the evaluator, from extents by inference.

#include <algorithm>

#include "graph/infer/engine.h"
#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

constexpr int64_t kMaxBytes = 64 << 20, kAlwaysBytes = 1 << 20, kMaxGrowth = 4,
                  kMaxDequantized = 16, kMaxWeightBytes = int64_t{1} << 30;

bool IsPure(const Node& node) {
  switch (node.op) {
    case Op::kUnknown:
      return false;
    default:
      return Subgraphs(node).empty();
  }
}

// The result is not absurdly larger than what it is made of. Each reader of a value has its share
// of it, so that all results together are not either, however many a file asks for.
bool Worthwhile(const Rewriter& r, const Node& node) {
  int64_t in = 0, share = 0, out = 0;
  for (const ValueId id : node.inputs) {
    if (!id.valid()) continue;
    const int64_t bytes = r.graph[r.Resolve(id)].constant.bytes();
    in += bytes;
    share += bytes / static_cast<int64_t>(std::max<size_t>(r.Uses(id), 1));
  }
  for (const ValueId id : node.outputs) {
    if (!id.valid()) continue;
    const Value& value = r.graph[id];
    const auto shape = StaticShape(value);
    const auto elems = shape ? CountElems(*shape) : Result<int64_t>(in);
    if (!elems.ok() || *elems > kMaxWeightBytes) return false;
    out += *elems * std::max<int64_t>(value.dtype ? SizeBytes(*value.dtype) : 8, 1);
  }
  // Weights that are cast or turned around; and those of a product with many rows: read as they are
  // they would be converted in each run, and rewrites have taken those that stay.
  const bool dequantizes = node.op == Op::kDequantizeLinear, keeps = dequantizes || out <= in;
  const int64_t growth = dequantizes ? kMaxDequantized : kMaxGrowth;
  return out <= (keeps ? kMaxWeightBytes : kMaxBytes) &&
         out <= std::max(kAlwaysBytes, growth * share);
}

bool Evaluate(Rewriter& r, NodeId id, const Evaluator& evaluate) {
  const Node node = r.graph[id];
  std::vector<const Tensor*> inputs;
  for (ValueId input : node.inputs) {
    if (input.valid() && r.graph[r.Resolve(input)].kind != ValueKind::kConstant) return false;
    inputs.push_back(nullptr);
  }
  Node resolved = node;
  for (size_t i = 0; i < inputs.size(); ++i) {
    resolved.inputs[i] = r.Resolve(node.inputs[i]);
    if (resolved.inputs[i].valid()) inputs[i] = &r.graph[resolved.inputs[i]].constant;
  }
  if (!evaluate || !IsPure(node) || !Worthwhile(r, node)) return false;
  auto results = evaluate(r.graph, resolved, inputs);
  // A node that can't be computed here stays: if it is wrong, running it will say so.
  if (!results.ok() || results->size() != node.outputs.size()) return false;
  bool any = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (!output.valid() || r.IsOutput(output)) continue;
    any |= r.Replace(output,
                     r.NewConstant(r.graph[output].name + "_folded", std::move((*results)[i])));
  }
  return any;
}

// All elements of an integer or bool tensor, where inference knows them as numbers.
std::optional<Tensor> FromFacts(const Value& value, const infer::Facts* facts) {
  const auto shape = StaticShape(value);
  if (!facts || !shape || !value.dtype || IsFloat(*value.dtype) || *value.dtype == Dtype::kString)
    return std::nullopt;
  const auto elems = CountElems(*shape);
  if (!elems.ok() || *elems != static_cast<int64_t>(facts->size())) return std::nullopt;
  for (const auto& elem : *facts) {
    if (elem.kind != infer::Elem::kInteger || !elem.integer.IsConstant()) return std::nullopt;
  }
  Tensor tensor(*value.dtype, *shape);
  for (size_t i = 0; i < facts->size(); ++i)
    SetElemInt(tensor, static_cast<int64_t>(i), (*facts)[i].integer.constant());
  return tensor;
}

}  // namespace

Result<int> fold_constants(Graph& graph, const Evaluator& evaluate) {
  // What a subgraph captures has its types from around it: inference on a copy leaves them alone.
  const bool captures = std::ranges::any_of(
      graph.values, [](const Value& v) { return v.kind == ValueKind::kCaptured; });
  Graph copy;
  if (captures) copy = Clone(graph);
  Graph& probe = captures ? copy : graph;
  if (!captures) infer::ResetTypes(graph);
  infer::Engine engine(probe);
  std::vector<std::pair<ValueId, Tensor>> known;
  for (size_t n = 0; n < probe.nodes.size(); ++n) {
    const Status status = engine.Infer(NodeId(n));
    // A branch that is never taken may be wrong; of the graph itself inference has said so.
    if (!status.ok()) return 0;
    for (ValueId id : probe.nodes[n].outputs) {
      if (!id.valid()) continue;
      if (auto tensor = FromFacts(probe[id], engine.FactsOf(id)))
        known.emplace_back(id, std::move(*tensor));
    }
  }
  Rewriter r(graph);
  for (auto& [id, tensor] : known) {
    if (!r.IsOutput(id))
      r.Replace(id, r.NewConstant(graph[id].name + "_folded", std::move(tensor)));
  }
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    const bool done = std::ranges::all_of(node.outputs, [&](ValueId id) {
      return !id.valid() || r.Resolve(id) != id || r.IsOutput(id);
    });
    if (!done) Evaluate(r, NodeId(n), evaluate);
  }
  return r.Finish();
}

}  // namespace weft::graph
