// Features that are joined along the last axis and then told apart by one more, as vectors of
// embeddings are before their products are taken: each part is reshaped before they are joined,
// which moves nothing, and nothing is left between the joined ones and who reads them.
//
//   Reshape(Concat(x, y) {axis = 1}, [b, 3, 4]) of x [b, 8] and y [b, 4]  becomes
//   Concat(Reshape(x, [b, 2, 4]), Reshape(y, [b, 1, 4])) {axis = 1}
//
// Of rows that were looked up in a table, one a part, the places are reshaped instead, so that
// nothing is left between looking up and joining either.
#include <algorithm>
#include <utility>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// What each part is reshaped to; empty if some part has no such shape.
std::vector<std::vector<Extent>> ShapesOfParts(const Graph& graph, const Node& concat,
                                               const std::vector<Extent>& to) {
  const auto& joined = graph[concat.outputs[0]].shape;
  if (!joined || joined->empty() || to.size() <= joined->size()) return {};
  const size_t last = joined->size() - 1;
  const int64_t axis = IntAttr(concat, "axis", 0);
  if (axis != -1 && axis != static_cast<int64_t>(last)) return {};
  if (!std::equal(joined->begin(), joined->end() - 1, to.begin())) return {};
  int64_t each = 1, count = 0;  // elements behind the new axis, and how many of these there are
  for (size_t a = last + 1; a < to.size(); ++a)
    if (to[a].value() <= 0 || __builtin_mul_overflow(each, to[a].value(), &each)) return {};
  std::vector<std::vector<Extent>> shapes;
  for (const ValueId part : concat.inputs) {
    const auto& from = graph[part].shape;
    if (!from || from->size() != joined->size()) return {};
    const int64_t extent = from->back().value();
    if (extent <= 0 || extent % each != 0) return {};
    std::vector<Extent> shape = to;
    shape[last] = Extent(extent / each);
    if (!AsReshapesTo(shape)) return {};
    count += extent / each;
    shapes.push_back(std::move(shape));
  }
  if (to[last] != Extent(count)) return {};
  return shapes;
}

class Parts {
 public:
  Parts(Rewriter& r, NodeId reshape) : r_(r), reshape_(reshape) {}

  // The value, which `user` alone reads, reshaped by one more axis, the last or the one before it.
  ValueId Reshaped(ValueId value, NodeId user, const std::vector<Extent>& shape) {
    if (const auto looked_up = LookedUp(value, user, shape)) return *looked_up;
    const std::string name = r_.graph[value].name;
    const ValueId list = r_.NewConstant(name + "_shape", TensorOfInts(*AsReshapesTo(shape)));
    return Insert(Op::kReshape, {value, list}, value, shape, {{"allowzero", int64_t{1}}});
  }

 private:
  std::optional<ValueId> LookedUp(ValueId value, NodeId user, const std::vector<Extent>& shape) {
    const Node* const gather = r_.Def(value, Op::kGather);
    if (!gather || r_.OnlyUser(value) != user) return std::nullopt;
    const ValueId data = gather->inputs[0], index = gather->inputs[1];
    const auto &from = r_.graph[data].shape, &places = r_.graph[index].shape;
    if (!from || !places) return std::nullopt;
    const auto rank = static_cast<int64_t>(from->size()), axis = IntAttr(*gather, "axis", 0);
    const NodeId looking = r_.graph[value].producer;
    if (rank == 2 && (axis == 0 || axis == -2) && shape.size() == places->size() + 2 &&
        shape.back() == from->back()) {  // a row at each place
      const std::vector<Extent> reshaped(shape.begin(), shape.end() - 1);
      if (reshaped.back() != Extent(1) || !AsReshapesTo(reshaped)) return std::nullopt;
      const ValueId at = Reshaped(index, looking, reshaped);
      return Insert(Op::kGather, {data, at}, value, shape, {{"axis", int64_t{0}}});
    }
    const bool is_one = r_.graph[index].kind == ValueKind::kConstant && places->empty();
    if (!is_one || (axis != rank - 1 && axis != -1) || shape.back() != Extent(1) ||
        shape.size() != from->size())
      return std::nullopt;
    const ValueId at = r_.NewConstant(  // a column, as a matrix of one
        r_.graph[index].name + "_column", TensorOfInts({{ElemAsInt(r_.graph[index].constant, 0)}}));
    return Insert(Op::kGather, {data, at}, value, shape, {{"axis", rank - 1}});
  }

  ValueId Insert(Op op, std::vector<ValueId> inputs, ValueId like, const std::vector<Extent>& shape,
                 std::vector<Attribute> attributes) {
    const std::string name = r_.graph[like].name + "_part";
    const ValueId made =
        r_.Insert(reshape_, op, std::move(inputs), name, like, std::move(attributes));
    r_.graph[made].shape = shape;
    return made;
  }

  Rewriter& r_;
  const NodeId reshape_;
};

}  // namespace

Result<int> reshapes_of_parts(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const NodeId id(n);
    if (!IsReshape(&graph.nodes[n])) continue;
    const ValueId joined = graph.nodes[n].inputs[0], y = graph.nodes[n].outputs[0];
    const Node* const found = r.Def(joined, Op::kConcat);
    if (!found || !graph[y].shape || r.OnlyUser(joined) != id) continue;
    const Node concat = *found;
    const auto shapes = ShapesOfParts(graph, concat, *graph[y].shape);
    if (shapes.empty()) continue;
    Parts of(r, id);
    const NodeId joining = graph[joined].producer;
    std::vector<ValueId> parts;
    for (size_t p = 0; p < shapes.size(); ++p)
      parts.push_back(of.Reshaped(concat.inputs[p], joining, shapes[p]));
    const auto axis = static_cast<int64_t>(graph[joined].shape->size()) - 1;
    r.Become(id, Op::kConcat, std::move(parts), {{"axis", axis}});
  }
  return r.Finish();
}

}  // namespace weft::graph
