#include "graph/rewrites/norm_parts.h"

#include <algorithm>

namespace weft::graph {

int64_t MeanOfLastAxes(const Rewriter& r, ValueId id, ValueId of) {
  const Node* mean = r.Def(id, Op::kReduceMean);
  if (!mean || mean->inputs[0] != of || IntAttr(*mean, "keepdims", 1) == 0 || !r.graph[of].shape)
    return 0;
  auto axes = ConstantInts(r.graph, *mean, 1);
  if (!axes || axes->empty()) return 0;
  const auto rank = static_cast<int64_t>(r.graph[of].shape->size());
  for (int64_t& axis : *axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(*axes);
  const auto count = static_cast<int64_t>(axes->size());
  for (int64_t i = 0; i < count; ++i) {
    if ((*axes)[static_cast<size_t>(i)] != rank - count + i) return 0;
  }
  return count;
}

ValueId Squared(const Rewriter& r, ValueId id) {
  const auto power = WithScalar(r, id, Op::kPow);
  if (power && power->second == 2) return power->first;
  const Node* mul = r.Def(id, Op::kMul);
  return mul && mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : ValueId();
}

std::optional<Root> RootOf(const Rewriter& r, ValueId id) {
  if (const Node* reciprocal = r.Def(id, Op::kReciprocal)) {
    auto root = RootOf(r, reciprocal->inputs[0]);
    if (!root || root->reciprocal) return std::nullopt;
    root->reciprocal = true;
    return root;
  }
  if (const Node* div = r.Def(id, Op::kDiv)) {
    const auto one = ScalarOf(r.graph, div->inputs[0]);
    auto root = one && *one == 1 && r.Def(div->inputs[1], Op::kSqrt) ? RootOf(r, div->inputs[1])
                                                                     : std::nullopt;
    if (root) root->reciprocal = true;
    return root;
  }
  const auto dtype = r.graph[id].dtype;
  if (!dtype || !IsFloat(*dtype)) return std::nullopt;
  const Node* sqrt = r.Def(id, Op::kSqrt);
  const auto power = WithScalar(r, id, Op::kPow);
  const bool inverse = power && power->second == -0.5;
  if (!sqrt && !inverse && !(power && power->second == 0.5)) return std::nullopt;
  const auto sum = WithScalar(r, sqrt ? sqrt->inputs[0] : power->first, Op::kAdd);
  if (!sum || sum->second < 0 || !FitsAttribute(sum->second, dtype)) return std::nullopt;
  return Root{sum->first, sum->second, inverse};
}

Affined FollowScale(const Rewriter& r, NodeId core, int64_t axes, bool with_bias) {
  const Graph& graph = r.graph;
  Affined out{core, {}, {}};
  const ValueId normalized = graph[core].outputs[0];
  const auto& shape = *graph[normalized].shape;
  // A vector over exactly the normalized axes, known before the node that reads it.
  auto fits = [&](ValueId v) {
    const auto& s = graph[v].shape;
    return s && static_cast<int64_t>(s->size()) == axes &&
           std::ranges::equal(*s, std::span(shape).last(s->size()));
  };
  auto follow = [&](Op op, ValueId& operand) {
    const ValueId now = graph[out.last].outputs[0];
    const NodeId user = r.OnlyUser(now);
    if (!user.valid() || graph[user].op != op || graph[user].inputs.size() != 2) return;
    const ValueId other = graph[user].inputs[graph[user].inputs[0] == now ? 1 : 0];
    if (!fits(other) || !SameShape(graph, graph[user].outputs[0], now)) return;
    operand = other;
    out.last = user;
  };
  follow(Op::kMul, out.scale);
  if (with_bias) follow(Op::kAdd, out.bias);
  return out;
}

std::optional<Tensor> Ones(const Value& x, int64_t axes) {
  Shape shape;
  for (size_t i = x.shape->size() - static_cast<size_t>(axes); i < x.shape->size(); ++i) {
    const Extent extent = (*x.shape)[i];
    if (!extent.IsConstant() || extent.value() > 1 << 20) return std::nullopt;
    shape.push_back(extent.value());
  }
  const auto elems = CountElems(shape);
  if (!elems.ok() || *elems > 1 << 20 || !x.dtype) return std::nullopt;
  Tensor ones(*x.dtype, shape);
  for (int64_t i = 0; i < *elems; ++i) SetElem(ones, i, 1);
  return ones;
}

}  // namespace weft::graph
