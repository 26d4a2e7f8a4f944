#include "graph/sequences.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "graph/edit.h"

namespace weft::graph {
namespace {

// Puts the node that was added last before all others.
void MoveToFront(Graph& graph) {
  std::vector<NodeId> order = {NodeId(graph.nodes.size() - 1)};
  for (size_t i = 0; i + 1 < graph.nodes.size(); ++i) order.emplace_back(i);
  Reorder(graph, order);
}

// The node that makes a value, through copies; null if none does.
const Node* Maker(const Graph& graph, ValueId id) {
  while (graph[id].kind == ValueKind::kComputed && graph[id].producer.valid()) {
    const Node& node = graph[graph[id].producer];
    if (node.op != Op::kIdentity) return &node;
    id = node.inputs[0];
  }
  return nullptr;
}

}  // namespace

Status BindForm(Graph& graph, std::string_view input, const InputForm& form) {
  const auto found =
      std::ranges::find_if(graph.inputs, [&](ValueId id) { return graph[id].name == input; });
  if (found == graph.inputs.end()) return Usage(fmt::format("no input {}", PrintName(input)));
  const ValueId id = *found;
  if (graph[id].dtype) return Usage(fmt::format("input {} is a tensor", PrintName(input)));
  const bool tensor = form.kind == InputForm::Kind::kTensor;
  WEFT_CHECK(!tensor || form.parts.size() == 1, "{} parts", form.parts.size());
  for (const auto& part : form.parts) {
    WEFT_TRY(const int64_t elems, CountElems(part.shape));
    (void)elems;
  }
  if (tensor) {
    graph[id].dtype = form.parts[0].dtype;
    graph[id].shape = ExtentsOf(form.parts[0].shape);
    return {};
  }
  const int64_t place = found - graph.inputs.begin();
  graph.inputs.erase(found);
  graph[id].kind = ValueKind::kComputed;
  Node node{.op = Op::kOptional};
  if (form.kind == InputForm::Kind::kSequence)
    node.op = form.parts.empty() ? Op::kSequenceEmpty : Op::kSequenceConstruct;
  node.op_name = OpName(node.op);
  node.outputs = {id};
  Names names(graph);
  const size_t others = graph.inputs.size();
  for (size_t i = 0; i < form.parts.size(); ++i) {
    node.inputs.push_back(AddInput(graph, names.Fresh(fmt::format("{}[{}]", input, i)),
                                   form.parts[i].dtype, ExtentsOf(form.parts[i].shape)));
  }
  const auto begin = graph.inputs.begin();
  std::rotate(begin + place, begin + static_cast<int64_t>(others), graph.inputs.end());
  AddNode(graph, std::move(node));
  MoveToFront(graph);
  return {};
}

bool ExpandSequences(Graph& graph) {
  Names names(graph);
  std::vector<ValueId> outputs;
  for (ValueId id : graph.outputs) {
    const Node* maker = Maker(graph, id);
    const bool none = maker && (maker->op == Op::kSequenceEmpty || maker->op == Op::kOptional);
    if (!none && !(maker && maker->op == Op::kSequenceConstruct)) {
      outputs.push_back(id);
      continue;
    }
    if (none) continue;
    const std::vector<ValueId> elements = maker->inputs;  // AddNode moves the nodes
    for (size_t i = 0; i < elements.size(); ++i)
      outputs.push_back(AddNode(graph, Op::kIdentity, {elements[i]},
                                names.Fresh(fmt::format("{}[{}]", graph[id].name, i))));
  }
  const bool changed = outputs != graph.outputs;
  graph.outputs = std::move(outputs);
  return changed;
}

}  // namespace weft::graph
