// x * hardsigmoid(x) with slope 1/6 and offset 1/2, also as x * clip(x + 3, 0, 6) / 6.

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// coefficient * value = max(0, min(1, x / 6 + 1/2))
bool IsGate(const Rewriter& r, ValueId id, double coefficient, ValueId x) {
  const auto near = [&](double found, double meant) {
    return Near(found, meant, r.graph[x].dtype);
  };
  if (const Node* node = r.Def(id, Op::kHardSigmoid)) {
    return near(coefficient, 1) && node->inputs[0] == x &&
           near(FloatAttr(*node, "alpha", 0.2f), 1.0 / 6) &&
           near(FloatAttr(*node, "beta", 0.5f), 0.5);
  }
  const Node* clip = r.Def(id, Op::kClip);
  const auto low = clip ? ScalarOf(r.graph, InputAt(*clip, 1)) : std::nullopt;
  const auto high = clip ? ScalarOf(r.graph, InputAt(*clip, 2)) : std::nullopt;
  const auto sum = clip ? WithScalar(r, clip->inputs[0], Op::kAdd) : std::nullopt;
  return low && high && sum && *low == 0 && near(*high, 6) && near(coefficient, 1.0 / 6) &&
         sum->first == x && near(sum->second, 3);
}

}  // namespace

Result<int> hard_swish(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kMul && node.op != Op::kDiv) continue;
    const ValueId y = node.outputs[0];
    const Factors f = FactorsOf(r, y);
    if (f.values.size() != 2) continue;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId x = f.values[k];
      if (!IsGate(r, f.values[1 - k], f.coefficient, x) || !SameShape(graph, x, y)) continue;
      r.Become(NodeId(n), Op::kHardSwish, {x});
      break;
    }
  }
  return r.Finish();
}

}  // namespace weft::graph
