// Of several Reshape, Flatten, Squeeze and Unsqueeze in a row only the last shape matters.

#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

bool IsReshape(const Node* node) {
  return node && (node->op == Op::kReshape || node->op == Op::kFlatten ||
                  node->op == Op::kSqueeze || node->op == Op::kUnsqueeze);
}

// The output's extents as a constant; one symbol may be left to -1, if no extent is zero.
std::optional<std::vector<int64_t>> ShapeFor(const Value& value) {
  if (!value.shape) return std::nullopt;
  std::vector<int64_t> shape;
  for (const Extent& extent : *value.shape)
    shape.push_back(extent.IsConstant() ? extent.value() : -1);
  const auto open = std::ranges::count(shape, -1);
  if (open > 1 || (open == 1 && std::ranges::count(shape, 0) > 0)) return std::nullopt;
  return shape;
}

// Whether a run checks that an extent is 1, which no reshape would.
bool ChecksExtents(const Graph& graph, const Node& node) {
  const auto open = [&](ValueId id) {
    return std::ranges::count_if(*graph[id].shape, [](Extent e) { return !e.IsConstant(); });
  };
  return node.op == Op::kSqueeze &&
         (!graph[node.inputs[0]].shape || !graph[node.outputs[0]].shape ||
          open(node.inputs[0]) != open(node.outputs[0]));
}

}  // namespace

Result<int> compose_reshapes(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    if (!IsReshape(&node)) continue;
    const Node* before = r.Def(node.inputs[0]);
    if (!IsReshape(before) || ChecksExtents(graph, node) || ChecksExtents(graph, *before)) continue;
    const ValueId x = before->inputs[0], y = node.outputs[0];
    const auto shape = ShapeFor(graph[y]);
    if (!shape || !graph[x].shape) continue;
    const ValueId constant = r.NewConstant(graph[y].name + "_shape", TensorOfInts(*shape));
    r.Become(NodeId(n), Op::kReshape, {x, constant}, {{"allowzero", int64_t{1}}});
  }
  return r.Finish();
}

}  // namespace weft::graph
