// x / sqrt(mean(x^2) + epsilon) [* scale] (Zhang and Sennrich, "Root mean square layer
// normalization").

#include "graph/rewrites/norm_parts.h"

namespace weft::graph {
namespace {

bool Match(Rewriter& r, NodeId core) {
  Graph& graph = r.graph;
  const Node& node = graph[core];
  if (node.inputs.size() != 2) return false;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId x = node.inputs[k];
    const auto root = RootOf(r, node.inputs[1 - k]);
    if (!root || (node.op == Op::kDiv ? root->reciprocal || k != 0 : !root->reciprocal)) continue;
    const Node* mean = r.Def(root->value, Op::kReduceMean);
    if (!mean || Squared(r, mean->inputs[0]) != x) continue;
    const int64_t axes = MeanOfLastAxes(r, root->value, mean->inputs[0]);
    if (axes == 0 || !SameShape(graph, x, node.outputs[0])) continue;
    const Affined end = FollowScale(r, core, axes, false);
    ValueId scale = end.scale;
    if (!scale.valid()) {
      auto ones = Ones(graph[x], axes);
      if (!ones) return false;
      scale = r.NewConstant(graph[node.outputs[0]].name + "_ones", std::move(*ones));
    }
    r.Become(end.last, Op::kRMSNormalization, {x, scale},
             {{"axis", -axes}, {"epsilon", static_cast<float>(root->epsilon)}});
    return true;
  }
  return false;
}

}  // namespace

Result<int> rmsnorm_from_parts(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kDiv || op == Op::kMul) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
