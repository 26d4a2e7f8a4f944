#include "graph/rewrites/inline.h"

#include <string>
#include <string_view>
#include <unordered_map>

namespace weft::graph {
namespace {

// A constant that capture_constants brought in from around.
bool IsCopyOf(const Value& inner, const Value& outer) {
  return inner.kind == ValueKind::kConstant && outer.kind == ValueKind::kConstant &&
         inner.constant.data() == outer.constant.data() && inner.constant == outer.constant;
}

}  // namespace

Inliner::Inliner(Rewriter& r, NodeId at, const Graph& body)
    : r_(r), at_(at), body_(body), around_(body.values.size()) {
  const Graph& graph = r.graph;
  std::unordered_map<std::string_view, ValueId> names;
  for (size_t i = 0; i < graph.values.size(); ++i) names.emplace(graph.values[i].name, ValueId(i));
  for (size_t i = 0; i < body.values.size(); ++i) {
    const Value& value = body.values[i];
    const auto found = names.find(value.name);
    if (found == names.end()) continue;
    if (value.kind == ValueKind::kCaptured || IsCopyOf(value, graph[found->second]))
      around_[i] = found->second;
  }
  for (size_t i = 0; i < body.values.size(); ++i) {
    const Value& value = body.values[i];
    if (value.kind == ValueKind::kConstant && !around_[i].valid())
      around_[i] = r.NewConstant(value.name, value.constant);
  }
}

std::vector<ValueId> Inliner::Run(std::span<const ValueId> inputs) {
  std::vector<ValueId> now = around_;
  for (size_t i = 0; i < inputs.size(); ++i)
    now[static_cast<size_t>(body_.inputs[i].index)] = inputs[i];
  for (const Node& node : body_.nodes) {
    Node copy = node;
    for (ValueId& id : copy.inputs) {
      if (id.valid()) id = now[static_cast<size_t>(id.index)];
    }
    for (ValueId& id : copy.outputs) {
      if (!id.valid()) continue;
      const ValueId made = r_.NewComputed(body_[id].name);
      now[static_cast<size_t>(id.index)] = made;
      id = made;
    }
    RenameIn(copy, now);
    r_.InsertNode(at_, std::move(copy));
  }
  std::vector<ValueId> outputs;
  for (ValueId id : body_.outputs) outputs.push_back(now[static_cast<size_t>(id.index)]);
  return outputs;
}

void Inliner::RenameIn(Node& node, const std::vector<ValueId>& now) const {
  if (Subgraphs(node).empty()) return;
  std::unordered_map<std::string, std::string> renames;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].valid() && r_.graph[now[i]].name != body_.values[i].name)
      renames.emplace(body_.values[i].name, r_.graph[now[i]].name);
  }
  for (Attribute& attribute : node.attributes) {  // each copy of the node has subgraphs of its own
    auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
    if (!inner) continue;
    *inner = std::make_shared<Graph>(Clone(**inner));
    RenameCaptured(**inner, renames);
  }
}

void Inliner::Give(ValueId output, ValueId from) {
  if (!output.valid() || r_.Replace(output, from)) return;
  const ValueId copy = r_.Insert(at_, Op::kIdentity, {from}, r_.graph[from].name, from);
  r_.Replace(output, copy);
}

}  // namespace weft::graph
