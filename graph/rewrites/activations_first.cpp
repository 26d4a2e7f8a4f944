// An activation behind a reshape goes in front of it, where it is the end of what made its input: a
// reshape is a view, and nothing is fused across one.
#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// Of one element each, whatever the shape; operands beside the first are numbers.
bool IsActivation(Op op) {
  switch (op) {
    case Op::kRelu:
    case Op::kLeakyRelu:
    case Op::kElu:
    case Op::kSelu:
    case Op::kCelu:
    case Op::kClip:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kHardSigmoid:
    case Op::kHardSwish:
    case Op::kSwish:
    case Op::kMish:
    case Op::kGelu:
    case Op::kErf:
    case Op::kExp:
    case Op::kSoftplus:
    case Op::kSoftsign:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<int> activations_first(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const NodeId id(n);
    const Node node = graph[id];
    if (!IsActivation(node.op)) continue;
    const ValueId y = node.outputs[0], t = node.inputs[0];
    const Node* reshape = r.Def(t);
    if (!IsReshape(reshape) || r.OnlyUser(t) != id || !graph[y].shape) continue;
    const ValueId x = reshape->inputs[0];
    if (!graph[x].shape || graph[x].kind != ValueKind::kComputed) continue;
    const std::string name = graph[y].name + "_first";
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = x;
    const ValueId active = r.Insert(id, node.op, std::move(inputs), name, y, node.attributes);
    graph[active].shape = graph[x].shape;
    r.BecomeLike(id, *reshape, active);
  }
  return r.Finish();
}

}  // namespace weft::graph
