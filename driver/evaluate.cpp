#include "driver/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "fallback/execute.h"
#include "fallback/match.h"
#include "graph/infer.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;

// The node alone, its operands constants: whoever asks may hold a node that is in no graph, and
// what matters here is nothing but the values.
graph::Graph Alone(const graph::Graph& graph, const graph::Node& node,
                   std::span<const Tensor* const> inputs) {
  graph::Graph alone{.name = "one_node"};
  alone.nodes.push_back(node);
  graph::Node& copy = alone.nodes[0];
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (!copy.inputs[i].valid() || !inputs[i]) {
      copy.inputs[i] = {};
      continue;
    }
    graph::Value value{.name = fmt::format("in{}", i), .kind = graph::ValueKind::kConstant};
    value.dtype = inputs[i]->dtype();
    value.shape.emplace(inputs[i]->shape().begin(), inputs[i]->shape().end());
    value.constant = *inputs[i];
    alone.values.push_back(std::move(value));
    copy.inputs[i] = ValueId(alone.values.size() - 1);
  }
  for (size_t i = 0; i < copy.outputs.size(); ++i) {
    if (!copy.outputs[i].valid()) continue;
    alone.values.push_back({.name = fmt::format("out{}", i),
                            .dtype = graph[node.outputs[i]].dtype,
                            .producer = NodeId(size_t{0})});
    copy.outputs[i] = ValueId(alone.values.size() - 1);
    alone.outputs.push_back(copy.outputs[i]);
  }
  return alone;
}

Status Refused(const Refusal& refusal, const graph::Graph& graph) {
  return ToStatus(refusal, Code::kUnsupported).At(graph::Describe(graph, NodeId(size_t{0})));
}

Result<std::vector<Tensor>> ByComprehension(const graph::Graph& alone) {
  auto alternatives = tc::ToTc(alone, NodeId(size_t{0}));
  if (!alternatives.yes()) return Refused(alternatives.refusal(), alone);
  const tc::Alternative& direct = (*alternatives)[0];
  std::vector<Tensor> operands;
  for (ValueId v : direct.inputs) operands.push_back(alone[v].constant);
  WEFT_TRY(auto results, tc::Interpret(direct.program, operands));
  std::vector<Tensor> outputs(alone.nodes[0].outputs.size());
  for (size_t i = 0; i < direct.outputs.size(); ++i)
    for (size_t k = 0; k < outputs.size(); ++k)
      if (alone.nodes[0].outputs[k] == direct.outputs[i]) outputs[k] = std::move(results[i]);
  return outputs;
}

}  // namespace

Result<std::vector<Tensor>> EvaluateNode(const graph::Graph& graph, const graph::Node& node,
                                         std::span<const Tensor* const> inputs) {
  graph::Graph alone = Alone(graph, node, inputs);
  WEFT_TRY(graph::InferShapes(alone));
  const bool halves = std::ranges::any_of(
      alone.values, [](const graph::Value& v) { return v.dtype && SharesBytes(*v.dtype); });
  if (halves || !fallback::HasNative(graph::OpName(node.op))) return ByComprehension(alone);
  const NodeId id(size_t{0});
  auto call = fallback::Match(alone, std::span(&id, 1), fallback::Library::kNative);
  if (!call.yes()) return ByComprehension(alone);
  return fallback::RunNative(*call, inputs);
}

}  // namespace weft::driver
