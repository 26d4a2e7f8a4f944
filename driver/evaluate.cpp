#include "driver/evaluate.h"

#include <fmt/format.h>

#include "fallback/execute.h"
#include "fallback/match.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::driver {
namespace {

graph::NodeId IdOf(const graph::Graph& graph, const graph::Node& node) {
  return graph::NodeId(static_cast<size_t>(&node - graph.nodes.data()));
}

Result<std::vector<Tensor>> EvaluateNatively(const graph::Graph& graph, const graph::Node& node,
                                             std::span<const Tensor* const> inputs) {
  const graph::NodeId id = IdOf(graph, node);
  auto call = fallback::Match(graph, std::span(&id, 1), fallback::Library::kNative);
  if (!call.yes())
    return Unsupported(fmt::format("{}: {}", ReasonName(call.refusal().reason), call.refusal().detail))
        .At(graph::Describe(graph, id));
  return fallback::RunNative(*call, inputs);
}

}  // namespace

Result<std::vector<Tensor>> EvaluateNode(const graph::Graph& graph, const graph::Node& node,
                                         std::span<const Tensor* const> inputs) {
  if (fallback::HasNative(graph::OpName(node.op))) return EvaluateNatively(graph, node, inputs);
  auto alternatives = tc::ToTc(graph, IdOf(graph, node));
  if (!alternatives.yes())
    return Unsupported(fmt::format("{}: {}", ReasonName(alternatives.refusal().reason),
                                   alternatives.refusal().detail))
        .At(graph::Describe(graph, IdOf(graph, node)));
  const tc::Alternative& direct = (*alternatives)[0];
  std::vector<Tensor> operands;
  for (graph::ValueId v : direct.inputs)
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == v && inputs[i]) {
        operands.push_back(*inputs[i]);
        break;
      }
  WEFT_TRY(auto results, tc::Interpret(direct.program, operands));
  // The comprehension names the outputs that it gives; absent optional ones stay empty tensors.
  std::vector<Tensor> outputs(node.outputs.size());
  for (size_t i = 0; i < direct.outputs.size(); ++i)
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] == direct.outputs[i]) outputs[k] = std::move(results[i]);
  return outputs;
}

}  // namespace weft::driver
