#include "graph/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace weft::graph {

Names::Names(const Graph& graph, const Names* around) : around_(around) {
  taken_.reserve(graph.values.size() * 2);
  for (const Value& value : graph.values) taken_.insert(value.name);
}

std::string Names::Fresh(std::string_view base) {
  std::string name(base);
  for (size_t k = 1; Has(name); ++k) name = fmt::format("{}_{}", base, k);
  taken_.insert(name);
  return name;
}

ValueId AddInput(Graph& graph, std::string name, Dtype dtype, std::vector<Extent> shape) {
  Value value{.name = std::move(name),
              .kind = ValueKind::kInput,
              .dtype = dtype,
              .shape = std::move(shape)};
  graph.values.push_back(std::move(value));
  graph.inputs.push_back(ValueId(graph.values.size() - 1));
  return graph.inputs.back();
}

ValueId AddConstant(Graph& graph, std::string name, Tensor tensor) {
  Value value{.name = std::move(name), .kind = ValueKind::kConstant, .dtype = tensor.dtype()};
  value.shape = ExtentsOf(tensor.shape());
  value.constant = std::move(tensor);
  graph.values.push_back(std::move(value));
  return ValueId(graph.values.size() - 1);
}

ValueId AddComputed(Graph& graph, std::string name) {
  graph.values.push_back(Value{.name = std::move(name)});
  return ValueId(graph.values.size() - 1);
}

SymbolId AddSymbol(Graph& graph, std::string name, int64_t min, int64_t max) {
  graph.symbols.push_back({std::move(name), min, max});
  return SymbolId(graph.symbols.size() - 1);
}

NodeId AddNode(Graph& graph, Node node) {
  const NodeId id(graph.nodes.size());
  for (ValueId output : node.outputs) {
    if (output.valid()) graph[output].producer = id;
  }
  graph.nodes.push_back(std::move(node));
  return id;
}

ValueId AddNode(Graph& graph, Op op, std::vector<ValueId> inputs, std::string output,
                std::vector<Attribute> attributes) {
  Node node{.op = op, .op_name = std::string(OpName(op)), .inputs = std::move(inputs)};
  for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
  const ValueId id = AddComputed(graph, std::move(output));
  node.outputs = {id};
  AddNode(graph, std::move(node));
  return id;
}

std::vector<Extent> ExtentsOf(std::span<const int64_t> shape) {
  return {shape.begin(), shape.end()};
}

Tensor TensorOfInts(std::span<const int64_t> values) {
  Tensor tensor(Dtype::kI64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<int64_t>()[i] = values[i];
  return tensor;
}

Tensor TensorOfScalar(Dtype dtype, double value) {
  Tensor tensor(dtype, {});
  SetElem(tensor, 0, value);
  return tensor;
}

std::vector<std::shared_ptr<Graph>> Subgraphs(const Node& node) {
  std::vector<std::shared_ptr<Graph>> graphs;
  for (const Attribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
    if (graph && *graph) graphs.push_back(*graph);
  }
  return graphs;
}

Graph Clone(const Graph& graph) {
  Graph copy = graph;
  for (Node& node : copy.nodes) {
    for (Attribute& attribute : node.attributes) {
      auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
      if (subgraph && *subgraph) *subgraph = std::make_shared<Graph>(Clone(**subgraph));
    }
  }
  return copy;
}

std::vector<bool> CapturedByName(const Graph& graph) {
  std::vector<bool> captured(graph.values.size());
  std::unordered_map<std::string_view, size_t> by_name;
  for (const Node& node : graph.nodes) {
    for (const auto& subgraph : Subgraphs(node)) {
      for (const Value& value : subgraph->values) {
        if (value.kind != ValueKind::kCaptured) continue;
        if (by_name.empty()) {
          for (size_t i = 0; i < graph.values.size(); ++i) by_name[graph.values[i].name] = i;
        }
        const auto found = by_name.find(value.name);
        if (found != by_name.end()) captured[found->second] = true;
      }
    }
  }
  return captured;
}

namespace {

// live[v]: some output needs value v. Nodes are visited backwards, so one pass is enough.
std::vector<bool> LiveValues(const Graph& graph) {
  std::vector<bool> live =
      CapturedByName(graph);  // refined below: a dead node's captures don't count
  const bool captures = std::ranges::find(live, true) != live.end();
  std::unordered_map<std::string_view, size_t> by_name;
  if (captures) {
    for (size_t i = 0; i < graph.values.size(); ++i) by_name[graph.values[i].name] = i;
    live.assign(live.size(), false);
  }
  auto mark = [&](ValueId id) {
    if (id.valid()) live[static_cast<size_t>(id.index)] = true;
  };
  for (ValueId id : graph.outputs) mark(id);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool needed = std::ranges::any_of(node.outputs, [&](ValueId id) {
      return id.valid() && live[static_cast<size_t>(id.index)];
    });
    if (!needed) continue;
    for (ValueId id : node.inputs) mark(id);
    if (!captures) continue;
    for (const auto& subgraph : Subgraphs(node)) {
      for (const Value& value : subgraph->values) {
        const auto found = by_name.find(value.name);
        if (value.kind == ValueKind::kCaptured && found != by_name.end())
          live[found->second] = true;
      }
    }
  }
  return live;
}

void Renumber(std::vector<ValueId>& ids, const std::vector<ValueId>& now) {
  for (ValueId& id : ids) {
    if (id.valid()) id = now[static_cast<size_t>(id.index)];
  }
}

}  // namespace

void DropDead(Graph& graph) {
  graph.forms.clear();  // no node reads them
  for (Node& node : graph.nodes) {
    for (const auto& subgraph : Subgraphs(node)) DropDead(*subgraph);
  }
  std::vector<bool> keep = LiveValues(graph);
  for (ValueId id : graph.inputs) keep[static_cast<size_t>(id.index)] = true;

  // A node stays with all its outputs, also those that nobody reads.
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    bool needed = false;
    for (ValueId id : node.outputs) needed |= id.valid() && keep[static_cast<size_t>(id.index)];
    if (!needed) continue;
    for (ValueId id : node.outputs) {
      if (id.valid()) keep[static_cast<size_t>(id.index)] = true;
    }
    nodes.push_back(std::move(node));
  }
  std::vector<ValueId> now(graph.values.size());
  std::vector<Value> values;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!keep[i]) continue;
    now[i] = ValueId(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  graph.nodes = std::move(nodes);
  Renumber(graph.inputs, now);
  Renumber(graph.outputs, now);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Renumber(graph.nodes[n].inputs, now);
    Renumber(graph.nodes[n].outputs, now);
    for (ValueId id : graph.nodes[n].outputs) {
      if (id.valid()) graph[id].producer = NodeId(n);
    }
  }
}

void Reorder(Graph& graph, std::span<const NodeId> order) {
  WEFT_CHECK(order.size() == graph.nodes.size(), "{} of {}", order.size(), graph.nodes.size());
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (NodeId id : order) nodes.push_back(std::move(graph[id]));
  graph.nodes = std::move(nodes);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].outputs) {
      if (id.valid()) graph[id].producer = NodeId(n);
    }
  }
}

}  // namespace weft::graph
