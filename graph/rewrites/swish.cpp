// x * sigmoid(alpha * x): SiLU for alpha = 1, the quick form of GELU for 1.702.

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

Result<int> swish(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kMul || node.inputs.size() != 2) continue;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId x = node.inputs[k];
      const Node* sigmoid = r.Def(node.inputs[1 - k], Op::kSigmoid);
      if (!sigmoid || !SameShape(graph, x, node.outputs[0])) continue;
      // A sigmoid that others read too would be computed twice.
      if (!r.OnlyUser(node.inputs[1 - k]).valid()) continue;
      double alpha = 1;
      if (sigmoid->inputs[0] != x) {
        const auto scaled = WithScalar(r, sigmoid->inputs[0], Op::kMul);
        if (!scaled || scaled->first != x) continue;
        alpha = scaled->second;
        if (!FitsAttribute(alpha, graph[x].dtype)) continue;
      }
      r.Become(NodeId(n), Op::kSwish, {x}, {{"alpha", static_cast<float>(alpha)}});
      break;
    }
  }
  return r.Finish();
}

}  // namespace weft::graph
