// Group normalization (Wu and He, Group Normalization, 2018) as exporters write it: the channels of
// a group are one channel of an instance normalization, and scale and bias come behind it.
//
//   Reshape(InstanceNormalization(Reshape(x, [n, groups, -1])), shape of x) [* scale] [+ bias]
//
// With a group for each channel it is an instance normalization that has this scale and this bias.
#include "graph/rewrites/fold_affine.h"

namespace weft::graph {
namespace {

// What an instance normalization normalizes, in how many groups, and the last node of it.
struct Groups {
  ValueId x;
  int64_t groups = 0, channels = 0;
  NodeId last;
};

// The extent, if it is known and not zero.
int64_t Known(const Extent& extent) { return extent.IsConstant() ? extent.value() : 0; }

std::optional<Groups> GroupsOf(const Rewriter& r, NodeId id) {
  const Graph& graph = r.graph;
  const ValueId rows = graph[id].inputs[0], normalized = graph[id].outputs[0];
  const auto& of_rows = graph[rows].shape;
  if (!of_rows || of_rows->size() < 3 || Known((*of_rows)[1]) == 0) return std::nullopt;
  const int64_t groups = Known((*of_rows)[1]);
  const Node* before = r.Def(rows);
  const NodeId after = r.OnlyUser(normalized);
  if (IsReshape(before) && after.valid() && IsReshape(&graph[after]) &&
      SameShape(graph, before->inputs[0], graph[after].outputs[0])) {
    const ValueId x = before->inputs[0];
    const auto& of_x = *graph[x].shape;
    if (of_x.size() >= 3 && of_x[0] == (*of_rows)[0] && Known(of_x[1]) > 0 &&
        Known(of_x[1]) % groups == 0)
      return Groups{x, groups, Known(of_x[1]), after};
  }
  return Groups{rows, groups, groups, id};
}

// Constants behind it, by channel.
void FollowAffine(const Rewriter& r, Groups& norm, PerChannel& affine) {
  const Graph& graph = r.graph;
  const size_t rank = graph[norm.x].shape->size();
  for (;;) {
    const ValueId value = graph[norm.last].outputs[0];
    const NodeId user = r.OnlyUser(value);
    if (!user.valid()) return;
    const Node& node = graph[user];
    if ((node.op != Op::kMul && node.op != Op::kAdd) || !SameShape(graph, value, node.outputs[0]))
      return;
    const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
    const auto numbers = ByChannel(graph, other, rank, 1, norm.channels);
    if (!numbers) return;
    for (size_t c = 0; c < numbers->size(); ++c) {
      if (node.op == Op::kMul) affine.scale[c] *= (*numbers)[c];
      double& shift = affine.shift[c];
      shift = node.op == Op::kMul ? shift * (*numbers)[c] : shift + (*numbers)[c];
    }
    norm.last = user;
  }
}

void Match(Rewriter& r, NodeId id) {
  Graph& graph = r.graph;
  const Node core = graph[id];
  auto norm = GroupsOf(r, id);
  if (!norm || graph[norm->x].dtype != Dtype::kF32) return;
  const auto scale = ByChannel(graph, core.inputs[1], 1, 0, norm->groups),
             shift = ByChannel(graph, core.inputs[2], 1, 0, norm->groups);
  if (!scale || !shift) return;
  PerChannel affine;
  for (int64_t c = 0; c < norm->channels; ++c) {
    const auto group = static_cast<size_t>(c / (norm->channels / norm->groups));
    affine.scale.push_back((*scale)[group]);
    affine.shift.push_back((*shift)[group]);
  }
  FollowAffine(r, *norm, affine);
  if (norm->last == id) return;
  const Shape shape{norm->channels};
  auto scales = Rounded(affine.scale, Dtype::kF32, shape),
       shifts = Rounded(affine.shift, Dtype::kF32, shape);
  if (!scales || !shifts) return;
  const std::string name = graph[graph[norm->last].outputs[0]].name;
  std::vector<ValueId> inputs{norm->x, r.NewConstant(name + "_scale", *std::move(scales)),
                              r.NewConstant(name + "_bias", *std::move(shifts))};
  const Attribute epsilon{"epsilon", FloatAttr(core, "epsilon", 1e-5F)};
  if (norm->groups == norm->channels)
    r.Become(norm->last, Op::kInstanceNormalization, std::move(inputs), {epsilon});
  else
    r.Become(norm->last, Op::kGroupNormalization, std::move(inputs),
             {epsilon, {"num_groups", norm->groups}});
}

}  // namespace

Result<int> groupnorm_from_parts(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == Op::kInstanceNormalization) Match(r, NodeId(n));
  return r.Finish();
}

}  // namespace weft::graph
