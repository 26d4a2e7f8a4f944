// Batch normalization with constant statistics is a scale and a shift of each channel.

#include "graph/rewrites/fold_affine.h"

namespace weft::graph {

Result<int> conv_batchnorm(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kBatchNormalization) continue;
    const auto affine = AffineOfNormalization(graph, node);
    if (!affine || FoldAffine(r, NodeId(n), node.inputs[0], *affine)) continue;
    const auto& shape = graph[node.outputs[0]].shape;
    if (shape && shape->size() == 2) FoldIntoColumns(r, NodeId(n), node.inputs[0], *affine);
  }
  return r.Finish();
}

}  // namespace weft::graph
