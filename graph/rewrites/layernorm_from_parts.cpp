// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) [* scale] [+ bias], as exporters before
// opset 17 write layer normalization.

#include "graph/rewrites/norm_parts.h"

namespace weft::graph {
namespace {

// Sub(x, mean(x)) over the last axes: x and how many axes.
std::pair<ValueId, int64_t> Centered(const Rewriter& r, ValueId id) {
  const Node* sub = r.Def(id, Op::kSub);
  if (!sub) return {};
  return {sub->inputs[0], MeanOfLastAxes(r, sub->inputs[1], sub->inputs[0])};
}

bool Match(Rewriter& r, NodeId core) {
  Graph& graph = r.graph;
  const Node& node = graph[core];
  if (node.inputs.size() != 2) return false;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId centered = node.inputs[k];
    const auto [x, axes] = Centered(r, centered);
    const auto root = axes > 0 ? RootOf(r, node.inputs[1 - k]) : std::nullopt;
    if (!root || (node.op == Op::kDiv ? root->reciprocal || k != 0 : !root->reciprocal)) continue;
    const Node* variance = r.Def(root->value, Op::kReduceMean);
    const ValueId squared = variance ? Squared(r, variance->inputs[0]) : ValueId();
    if (!squared.valid() || MeanOfLastAxes(r, root->value, variance->inputs[0]) != axes) continue;
    if (squared != centered && Centered(r, squared) != std::pair(x, axes)) continue;
    if (!SameShape(graph, x, node.outputs[0])) continue;

    const Affined end = FollowScale(r, core, axes, true);
    ValueId scale = end.scale;
    if (!scale.valid()) {
      auto ones = Ones(graph[x], axes);
      if (!ones) return false;
      scale = r.NewConstant(graph[node.outputs[0]].name + "_ones", std::move(*ones));
    }
    std::vector<ValueId> inputs = {x, scale};
    if (end.bias.valid()) inputs.push_back(end.bias);
    r.Become(end.last, Op::kLayerNormalization, std::move(inputs),
             {{"axis", -axes}, {"epsilon", static_cast<float>(root->epsilon)}});
    return true;
  }
  return false;
}

}  // namespace

Result<int> layernorm_from_parts(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kDiv || op == Op::kMul) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
