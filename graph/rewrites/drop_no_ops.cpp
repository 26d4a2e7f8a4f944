// Nodes that give back what they get.

#include <algorithm>
#include <limits>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

bool AllEqual(const std::optional<std::vector<int64_t>>& ints, int64_t value) {
  return ints && std::ranges::all_of(*ints, [&](int64_t i) { return i == value; });
}

bool FullSlice(const Graph& graph, const Node& node) {
  const auto starts = ConstantInts(graph, node, 1), ends = ConstantInts(graph, node, 2),
             steps = ConstantInts(graph, node, 4);
  if (!AllEqual(starts, 0) || !ends || (InputAt(node, 4).valid() && !AllEqual(steps, 1)))
    return false;
  return SameShape(graph, node.inputs[0], node.outputs[0]) ||
         std::ranges::all_of(*ends,
                             [](int64_t e) { return e >= std::numeric_limits<int32_t>::max(); });
}

bool IsIdentityPermutation(const Node& node) {
  const auto perm = IntsAttr(node, "perm");
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return !perm.empty();
}

bool IsNoOp(const Graph& graph, const Node& node) {
  const ValueId x = InputAt(node, 0), y = node.outputs.empty() ? ValueId() : node.outputs[0];
  if (!x.valid() || !y.valid()) return false;
  const bool same = SameShape(graph, x, y);
  switch (node.op) {
    case Op::kIdentity:
      return true;
    case Op::kDropout: {
      const auto training = ScalarOf(graph, InputAt(node, 2));
      const bool mask = node.outputs.size() > 1 && node.outputs[1].valid();
      return !mask && (!InputAt(node, 2).valid() || (training && *training == 0));
    }
    case Op::kCast:
    case Op::kCastLike:
      return graph[x].dtype && graph[x].dtype == graph[y].dtype;
    case Op::kReshape:
    case Op::kFlatten:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kExpand:
      return same;
    case Op::kTranspose:
      return IsIdentityPermutation(node) || (same && graph[x].shape->size() <= 1);
    case Op::kPad:
      return AllEqual(ConstantInts(graph, node, 1), 0);
    case Op::kTile:
      return AllEqual(ConstantInts(graph, node, 1), 1);
    case Op::kSlice:
      return FullSlice(graph, node);
    case Op::kConcat:
    case Op::kSum:
    case Op::kMax:
    case Op::kMin:
    case Op::kMean:
      return node.inputs.size() == 1;
    case Op::kSplit:
      return node.outputs.size() == 1;
    case Op::kMul:
    case Op::kDiv: {
      const auto one = ScalarOf(graph, InputAt(node, 1));
      return same && one && *one == 1;
    }
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kReduceProd: {
      const auto axes = ConstantInts(graph, node, 1);
      return IntAttr(node, "noop_with_empty_axes", 0) != 0 &&
             (!InputAt(node, 1).valid() || (axes && axes->empty()));
    }
    default:
      return false;
  }
}

}  // namespace

Result<int> drop_no_ops(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (const Node& node : graph.nodes) {
    if (IsNoOp(graph, node)) r.Replace(node.outputs[0], node.inputs[0]);
  }
  return r.Finish();
}

}  // namespace weft::graph
