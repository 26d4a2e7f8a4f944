// Indices that are the same for all elements of a row, as ScatterElements and GatherElements want
// them, name rows:
//
//   ScatterElements(x, Expand(i), u)  becomes  ScatterND(x, i, u)  along the first axis
//   GatherElements(x, Expand(i))      becomes  Gather(x, i)
//
// Exporters write so what is summed up over the edges of a graph.
#include <algorithm>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

class RowFinder {
 public:
  explicit RowFinder(Graph& graph) : r_(graph) {}

  int Run() {
    const size_t count = r_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const NodeId id(n);
      const Op op = r_.graph[id].op;
      if (op == Op::kScatterElements || op == Op::kGatherElements) ByRows(id);
    }
    return r_.Finish();
  }

 private:
  void ByRows(NodeId id) {
    const Node& node = r_.graph[id];
    if (node.inputs.size() < 2) return;
    const auto data = StaticShape(r_.graph[node.inputs[0]]),
               indices = StaticShape(r_.graph[node.inputs[1]]);
    if (!data || !indices || data->empty() || indices->size() != data->size()) return;
    const auto rank = static_cast<int64_t>(data->size());
    int64_t axis = IntAttr(node, "axis", 0);
    axis += axis < 0 ? rank : 0;
    const bool scatters = node.op == Op::kScatterElements;
    if (axis < 0 || axis >= rank || (scatters && axis != 0)) return;
    for (int64_t a = 0; a < rank; ++a)
      if (a != axis && (*indices)[a] != (*data)[a]) return;
    const auto of_rows = IndicesOfRows(node.inputs[1], *indices, axis);
    if (!of_rows) return;
    const Shape wanted = scatters ? Shape{(*indices)[axis], 1} : Shape{(*indices)[axis]};
    const ValueId rows = Reshaped(id, *of_rows, wanted);
    if (!scatters) return r_.Become(id, Op::kGather, {node.inputs[0], rows}, {{"axis", axis}});
    std::string reduction(StringAttr(node, "reduction", "none"));
    r_.Become(id, Op::kScatterND, {node.inputs[0], rows, node.inputs[2]},
              {{"reduction", std::move(reduction)}});
  }

  // A value with one element for each index of `axis`, in order; none if indices differ elsewhere.
  std::optional<ValueId> IndicesOfRows(ValueId indices, const Shape& shape, int64_t axis) const {
    const Node* expand = r_.Def(indices, Op::kExpand);
    if (!expand) return std::nullopt;
    const auto from = StaticShape(r_.graph[expand->inputs[0]]);
    if (!from || from->size() > shape.size()) return std::nullopt;
    const size_t missing = shape.size() - from->size();
    for (size_t a = 0; a < shape.size(); ++a) {
      const int64_t extent = a < missing ? 1 : (*from)[a - missing];
      if (extent != (static_cast<int64_t>(a) == axis ? shape[a] : 1)) return std::nullopt;
    }
    return expand->inputs[0];
  }

  ValueId Reshaped(NodeId at, ValueId indices, const Shape& shape) {
    if (StaticShape(r_.graph[indices]) == shape) return indices;
    const std::string name = r_.graph[indices].name + "_rows";
    Tensor extents(Dtype::kI64, {static_cast<int64_t>(shape.size())});
    std::ranges::copy(shape, extents.mutable_as<int64_t>());
    const ValueId reshaped =
        r_.Insert(at, Op::kReshape, {indices, r_.NewConstant(name + "_extents", extents)}, name,
                  indices, {{"allowzero", int64_t{1}}});
    r_.graph[reshaped].shape.emplace(shape.begin(), shape.end());
    return reshaped;
  }

  Rewriter r_;
};

}  // namespace

Result<int> indices_of_rows(Graph& graph, const Evaluator&) { return RowFinder(graph).Run(); }

}  // namespace weft::graph
