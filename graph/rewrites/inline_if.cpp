// An If whose condition is known becomes the branch that is taken.

#include <unordered_map>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// A constant that capture_constants brought in from around.
bool IsCopyOf(const Value& inner, const Value& outer) {
  return inner.kind == ValueKind::kConstant && outer.kind == ValueKind::kConstant &&
         inner.constant.data() == outer.constant.data() && inner.constant == outer.constant;
}

void Inline(Rewriter& r, NodeId at, const Graph& branch) {
  Graph& graph = r.graph;
  std::unordered_map<std::string_view, ValueId> around;
  for (size_t i = 0; i < graph.values.size(); ++i) around.emplace(graph.values[i].name, ValueId(i));
  std::vector<ValueId> now(branch.values.size());
  for (size_t i = 0; i < branch.values.size(); ++i) {
    const Value& value = branch.values[i];
    const auto found = around.find(value.name);
    if (found == around.end()) continue;
    if (value.kind == ValueKind::kCaptured || IsCopyOf(value, graph[found->second]))
      now[i] = found->second;
  }
  for (size_t i = 0; i < branch.values.size(); ++i) {
    const Value& value = branch.values[i];
    if (value.kind == ValueKind::kConstant && !now[i].valid())
      now[i] = r.NewConstant(value.name, value.constant);
  }
  const std::vector<ValueId> outputs = graph[at].outputs;
  for (const Node& node : branch.nodes) {
    Node copy = node;
    for (ValueId& id : copy.inputs) {
      if (id.valid()) id = now[static_cast<size_t>(id.index)];
    }
    for (ValueId& id : copy.outputs) {
      if (!id.valid()) continue;
      const ValueId made = r.NewComputed(branch[id].name);
      now[static_cast<size_t>(id.index)] = made;
      id = made;
    }
    r.InsertNode(at, std::move(copy));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) continue;
    const ValueId from = now[static_cast<size_t>(branch.outputs[i].index)];
    if (!r.Replace(outputs[i], from)) {  // an output's name can't move: a copy keeps it
      const ValueId copy = r.Insert(at, Op::kIdentity, {from}, graph[from].name, from);
      r.Replace(outputs[i], copy);
    }
  }
}

// Subgraphs of the branch name what they capture; a value that is renamed on the way would be lost
// to them.
bool NamesAreFree(Rewriter& r, const Graph& branch) {
  for (const Value& value : branch.values) {
    if (value.kind == ValueKind::kCaptured || !r.names().Has(value.name)) continue;
    const ValueId around = FindValue(r.graph, value.name);
    if (!around.valid() || !IsCopyOf(value, r.graph[around])) return false;
  }
  return true;
}

bool HasSubgraphs(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!Subgraphs(node).empty()) return true;
  }
  return false;
}

}  // namespace

Result<int> inline_if(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != Op::kIf) continue;
    const auto condition = ScalarOf(graph, node.inputs[0]);
    const Attribute* attribute =
        condition ? FindAttribute(node, *condition != 0 ? "then_branch" : "else_branch") : nullptr;
    if (!attribute) continue;
    const auto branch = std::get<std::shared_ptr<Graph>>(attribute->value);
    if (HasSubgraphs(*branch) && !NamesAreFree(r, *branch)) continue;
    Inline(r, NodeId(n), *branch);
  }
  return r.Finish();
}

}  // namespace weft::graph
