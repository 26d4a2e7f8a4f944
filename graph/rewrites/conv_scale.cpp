// A product or a sum with a constant for each channel, as exporters leave biases and learned scales
// behind a convolution, goes into its weights and its bias.
#include "graph/rewrites/fold_affine.h"

namespace weft::graph {
namespace {

void Match(Rewriter& r, NodeId id) {
  const Node& node = r.graph[id];
  for (size_t k = 0; k < 2; ++k) {
    const Node* linear = LinearBefore(r, node.inputs[k]);
    if (!linear || !SameShape(r.graph, node.inputs[k], node.outputs[0])) continue;
    const int64_t channels = ChannelsOf(r.graph, *linear);
    const size_t rank = r.graph[node.outputs[0]].shape->size();
    auto numbers = ByChannel(r.graph, node.inputs[1 - k], rank,
                             linear->op == Op::kGemm ? rank - 1 : 1, channels);
    if (!numbers) continue;
    const auto count = static_cast<size_t>(channels);
    PerChannel affine;
    if (node.op == Op::kMul) affine = {std::move(*numbers), std::vector<double>(count, 0.0)};
    if (node.op == Op::kAdd) affine = {std::vector<double>(count, 1.0), std::move(*numbers)};
    FoldAffine(r, id, node.inputs[k], affine);
    return;
  }
}

}  // namespace

Result<int> conv_scale(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kMul || op == Op::kAdd) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
