// x * tanh(softplus(x)), as exporters of opsets without Mish spell it.

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

Result<int> mish(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kMul || node.inputs.size() != 2) continue;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId x = node.inputs[k], gate = node.inputs[1 - k];
      const Node* tanh = r.Def(gate, Op::kTanh);
      const Node* softplus = tanh ? r.Def(tanh->inputs[0], Op::kSoftplus) : nullptr;
      if (!softplus || softplus->inputs[0] != x) continue;
      // What others read too would be computed twice.
      if (!r.OnlyUser(gate).valid() || !r.OnlyUser(tanh->inputs[0]).valid()) continue;
      r.Become(NodeId(n), Op::kMish, {x});
      break;
    }
  }
  return r.Finish();
}

}  // namespace weft::graph
