// clip(x + 3, 0, 6) / 6 and its like: max(0, min(1, alpha * x + beta)).

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

bool Match(Rewriter& r, NodeId id) {
  const ValueId y = r.graph[id].outputs[0];
  const Factors f = FactorsOf(r, y);
  if (f.values.size() != 1) return false;
  const Node* clip = r.Def(f.values[0], Op::kClip);
  const auto low = clip ? ScalarOf(r.graph, InputAt(*clip, 1)) : std::nullopt;
  const auto high = clip ? ScalarOf(r.graph, InputAt(*clip, 2)) : std::nullopt;
  if (!low || !high || *low != 0 || *high <= 0 || !Near(*high * f.coefficient, 1, r.graph[y].dtype))
    return false;
  const auto sum = WithScalar(r, clip->inputs[0], Op::kAdd);
  if (!sum) return false;
  const Factors inner = FactorsOf(r, sum->first);
  if (inner.values.size() != 1 || !SameShape(r.graph, inner.values[0], y)) return false;
  const double alpha = inner.coefficient * f.coefficient, beta = sum->second * f.coefficient;
  const auto dtype = r.graph[y].dtype;
  if (!FitsAttribute(alpha, dtype) || !FitsAttribute(beta, dtype)) return false;
  r.Become(id, Op::kHardSigmoid, {inner.values[0]},
           {{"alpha", static_cast<float>(alpha)}, {"beta", static_cast<float>(beta)}});
  return true;
}

}  // namespace

Result<int> hard_sigmoid(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kMul || op == Op::kDiv) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
