#include <algorithm>

#include "graph/rewrites/rewriter.h"
#include "graph/widen.h"

namespace weft::graph {
namespace {

// Instructions sum up some neighbouring products at once; shorter sums leave them idle, and it
// costs more to round their factors.
constexpr int64_t kLeastSum = 16;

class Narrower {
 public:
  explicit Narrower(Graph& graph) : r_(graph) {}

  void Run() {
    const size_t count = r_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n)
      if (NodeId id(n); Multiplies(r_.graph[id])) Narrow(id);
    r_.Finish();
  }

 private:
  bool Multiplies(const Node& node) const {
    if (node.op != Op::kConv && node.op != Op::kMatMul && node.op != Op::kGemm) return false;
    const auto is_float = [&](size_t i) { return r_.graph[node.inputs[i]].dtype == Dtype::kF32; };
    if (!is_float(0) || !is_float(1)) return false;
    const auto& shape = r_.graph[node.inputs[node.op == Op::kConv ? 1 : 0]].shape;
    if (!shape || shape->size() < (node.op == Op::kConv ? 2U : 1U)) return false;
    const bool turned = node.op == Op::kGemm && IntAttr(node, "transA", 0) != 0;
    const Extent summed = node.op == Op::kConv ? (*shape)[1]
                          : turned             ? shape->front()
                                               : shape->back();
    return summed.IsConstant() && summed.value() >= kLeastSum;
  }

  void Narrow(NodeId id) {
    const Node node = r_.graph[id];
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < 2; ++i) inputs[i] = narrow_.Of(id, inputs[i]);
    std::vector<Attribute> attributes = node.attributes;
    attributes.push_back({std::string(kSumType), int64_t{DtypeToOnnx(Dtype::kF32)}});
    std::ranges::sort(attributes, {}, &Attribute::name);
    r_.Become(id, node.op, std::move(inputs), std::move(attributes));
  }

  Rewriter r_;
  Conversion narrow_{r_, Dtype::kBF16, "_bf16"};
};

}  // namespace

void NarrowProducts(Graph& graph) { Narrower(graph).Run(); }

}  // namespace weft::graph
