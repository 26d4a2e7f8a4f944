// x * 0.5 * (1 + erf(x / sqrt(2))), in any order of its factors, and the form with tanh
// (Hendrycks and Gimpel, "Gaussian error linear units", section 2).

#include <algorithm>
#include <cmath>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

constexpr double kCubic = 0.044715;

// erf(x / sqrt(2))
bool IsErf(const Rewriter& r, ValueId id, ValueId x) {
  const Node* erf = r.Def(id, Op::kErf);
  if (!erf) return false;
  const Factors inner = FactorsOf(r, erf->inputs[0]);
  return inner.values == std::vector<ValueId>{x} &&
         Near(inner.coefficient, std::sqrt(0.5), r.graph[x].dtype);
}

bool IsCube(const Rewriter& r, ValueId id, ValueId x) {
  const auto power = WithScalar(r, id, Op::kPow);
  return power && power->first == x && power->second == 3;
}

bool IsSquare(const Rewriter& r, ValueId id, ValueId x) {
  const auto power = WithScalar(r, id, Op::kPow);
  return power && power->first == x && power->second == 2;
}

// 0.044715 * x^3
bool IsCubicTerm(const Rewriter& r, ValueId id, ValueId x) {
  const Factors f = FactorsOf(r, id);
  if (!Near(f.coefficient, kCubic, r.graph[x].dtype)) return false;
  if (f.values.size() == 1) return IsCube(r, f.values[0], x);
  if (f.values.size() == 2) {
    return (f.values[0] == x && IsSquare(r, f.values[1], x)) ||
           (f.values[1] == x && IsSquare(r, f.values[0], x));
  }
  return f.values.size() == 3 && std::ranges::count(f.values, x) == 3;
}

// 1 + 0.044715 * x^2
bool IsQuadraticSum(const Rewriter& r, ValueId id, ValueId x) {
  const auto sum = WithScalar(r, id, Op::kAdd);
  if (!sum || !Near(sum->second, 1, r.graph[x].dtype)) return false;
  const Factors f = FactorsOf(r, sum->first);
  if (!Near(f.coefficient, kCubic, r.graph[x].dtype)) return false;
  return (f.values.size() == 1 && IsSquare(r, f.values[0], x)) ||
         (f.values.size() == 2 && std::ranges::count(f.values, x) == 2);
}

// tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))
bool IsTanh(const Rewriter& r, ValueId id, ValueId x) {
  const Node* tanh = r.Def(id, Op::kTanh);
  if (!tanh) return false;
  const Factors f = FactorsOf(r, tanh->inputs[0]);
  if (!Near(f.coefficient, std::sqrt(2 / M_PI), r.graph[x].dtype)) return false;
  if (f.values.size() == 2) {
    return (f.values[0] == x && IsQuadraticSum(r, f.values[1], x)) ||
           (f.values[1] == x && IsQuadraticSum(r, f.values[0], x));
  }
  const Node* sum = f.values.size() == 1 ? r.Def(f.values[0], Op::kAdd) : nullptr;
  if (!sum) return false;
  const ValueId a = sum->inputs[0], b = sum->inputs[1];
  return (a == x && IsCubicTerm(r, b, x)) || (b == x && IsCubicTerm(r, a, x));
}

bool Match(Rewriter& r, NodeId id) {
  const ValueId y = r.graph[id].outputs[0];
  const Factors f = FactorsOf(r, y);
  if (f.values.size() != 2 || !Near(f.coefficient, 0.5, r.graph[y].dtype)) return false;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId x = f.values[k];
    const auto sum = WithScalar(r, f.values[1 - k], Op::kAdd);
    if (!sum || !Near(sum->second, 1, r.graph[x].dtype) || !SameShape(r.graph, x, y)) continue;
    const bool erf = IsErf(r, sum->first, x);
    if (!erf && !IsTanh(r, sum->first, x)) continue;
    r.Become(id, Op::kGelu, {x}, {{"approximate", std::string(erf ? "none" : "tanh")}});
    return true;
  }
  return false;
}

}  // namespace

Result<int> gelu(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kMul || op == Op::kDiv) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
