// An If whose condition is known becomes the branch that is taken.

#include "graph/rewrites/inline.h"

namespace weft::graph {

Result<int> inline_if(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kIf) continue;
    const auto condition = ScalarOf(graph, node.inputs[0]);
    const Attribute* attribute =
        condition ? FindAttribute(node, *condition != 0 ? "then_branch" : "else_branch") : nullptr;
    if (!attribute) continue;
    const auto branch = std::get<std::shared_ptr<Graph>>(attribute->value);
    Inliner inliner(r, NodeId(n), *branch);
    const std::vector<ValueId> found = inliner.Run(), outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) inliner.Give(outputs[i], found[i]);
  }
  return r.Finish();
}

}  // namespace weft::graph
