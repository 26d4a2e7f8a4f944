// A transpose of a transpose is one transpose, or none.

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

Result<int> compose_transposes(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& outer = graph.nodes[n];
    if (outer.op != Op::kTranspose) continue;
    const Node* inner = r.Def(outer.inputs[0], Op::kTranspose);
    const auto second = IntsAttr(outer, "perm");
    const auto first = inner ? IntsAttr(*inner, "perm") : std::vector<int64_t>();
    if (!inner || first.empty() || first.size() != second.size()) continue;
    std::vector<int64_t> perm;
    for (int64_t axis : second) perm.push_back(first[static_cast<size_t>(axis)]);
    r.Become(NodeId(n), Op::kTranspose, {inner->inputs[0]}, {{"perm", std::move(perm)}});
  }
  return r.Finish();
}

}  // namespace weft::graph
