// Of several Reshape, Flatten, Squeeze and Unsqueeze in a row only the last shape matters.

#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// Whether all that comes in can be given this shape, so that nobody misses the check. What both
// have goes; of the rest, what stands for -1 takes what the constants leave.
bool NeverFails(const Graph& graph, const Node& node) {
  if (node.op == Op::kFlatten || node.op == Op::kUnsqueeze) return true;
  const auto &from = graph[node.inputs[0]].shape, &to = graph[node.outputs[0]].shape;
  if (!from || !to) return false;
  std::vector<Extent> left = *from;
  int64_t before = 1, after = 1, open = 0;
  bool is_small = true;
  const auto multiply = [&](int64_t& product, int64_t by) {
    is_small &= !__builtin_mul_overflow(product, by, &product);
  };
  for (const Extent& extent : *to) {
    const auto same = extent.IsConstant() ? left.end() : std::ranges::find(left, extent);
    if (extent.IsConstant()) {
      multiply(after, extent.value());
    } else if (same != left.end()) {
      left.erase(same);
    } else {
      ++open;
    }
  }
  bool all_constant = true;
  for (const Extent& extent : left) {
    all_constant &= extent.IsConstant();
    if (extent.IsConstant()) multiply(before, extent.value());
  }
  if (!is_small) return false;
  if (open == 0) return all_constant && before == after;
  const auto list = node.op == Op::kReshape ? ConstantInts(graph, node, 1) : std::nullopt;
  return open == 1 && list && std::ranges::count(*list, -1) == 1 && after > 0 &&
         before % after == 0;
}

}  // namespace

Result<int> compose_reshapes(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    if (!IsReshape(&node)) continue;
    const Node* before = r.Def(node.inputs[0]);
    if (!IsReshape(before) || !NeverFails(graph, *before)) continue;
    const bool is_said = node.op == Op::kReshape && ConstantInts(graph, node, 1);
    if (!is_said && !NeverFails(graph, node)) continue;
    const ValueId x = before->inputs[0], y = node.outputs[0];
    if (!graph[x].shape || !graph[y].shape) continue;
    const auto shape = AsReshapesTo(*graph[y].shape);
    if (!shape) continue;
    const ValueId constant = r.NewConstant(graph[y].name + "_shape", TensorOfInts(*shape));
    r.Become(NodeId(n), Op::kReshape, {x, constant}, {{"allowzero", int64_t{1}}});
  }
  return r.Finish();
}

}  // namespace weft::graph
