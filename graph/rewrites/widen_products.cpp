#include "graph/widen.h"

#include <algorithm>
#include <optional>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

constexpr int64_t kFewProducts = 4;

class Widener {
 public:
  Widener(Graph& graph, Dtype narrow) : r_(graph), narrow_(narrow) {}

  void Run() {
    const size_t count = r_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n)
      if (Multiplies(r_.graph.nodes[n])) Widen(NodeId(n));
    r_.Finish();
  }

 private:
  bool Multiplies(const Node& node) const {
    switch (node.op) {
      case Op::kConv:
      case Op::kConvTranspose:
      case Op::kEinsum:
        break;
      case Op::kMatMul:
      case Op::kGemm:
        if (ReadsOnce(node)) return false;
        break;
      default:
        return false;
    }
    return r_.graph[node.outputs[0]].dtype == narrow_ &&
           std::ranges::all_of(
               node.inputs, [&](ValueId v) { return !v.valid() || r_.graph[v].dtype == narrow_; });
  }

  // Whether a constant matrix is read for few rows of the other operand.
  bool ReadsOnce(const Node& node) const {
    const auto shape = StaticShape(r_.graph[node.inputs[0]]);
    const Value& matrix = r_.graph[node.inputs[1]];
    if (!shape || shape->empty() || matrix.kind != ValueKind::kConstant) return false;
    const bool turned = node.op == Op::kGemm && IntAttr(node, "transA", 0) != 0;
    const int64_t depth = turned ? shape->front() : shape->back();
    int64_t rows = depth == 0 ? 0 : 1;
    for (const int64_t extent : *shape) rows *= extent;
    return rows < kFewProducts * depth;
  }

  void Widen(NodeId id) {
    const Node node = r_.graph[id];
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v.valid() ? wide_.Of(id, v) : v);
    const ValueId y = node.outputs[0];
    const ValueId wide =
        r_.Insert(id, node.op, inputs, r_.graph[y].name + "_wide", y, node.attributes);
    r_.graph[wide].dtype = Dtype::kF32;
    r_.Become(id, Op::kCast, {wide}, {{"to", int64_t{DtypeToOnnx(narrow_)}}});
  }

  Rewriter r_;
  const Dtype narrow_;
  Conversion wide_{r_, Dtype::kF32, "_wide"};
};

}  // namespace

// Most networks have none, and each start asks.
void WidenProducts(Graph& graph, Dtype narrow) {
  if (std::ranges::count(graph.values, std::optional(narrow), &Value::dtype) > 0)
    Widener(graph, narrow).Run();
}

}  // namespace weft::graph
