#include "graph/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/text.h"
#include "graph/edit.h"
#include "graph/infer.h"

namespace weft::graph {
namespace {

using Places = std::unordered_map<std::string_view, ValueId>;

bool IsControl(Op op) { return op == Op::kIf || op == Op::kLoop; }
bool IsOpen(const Value& value) { return !value.dtype || !StaticShape(value); }

Places ByName(const Graph& graph) {
  Places names;
  for (size_t i = 0; i < graph.values.size(); ++i) names.emplace(graph.values[i].name, ValueId(i));
  return names;
}

// What a node reads, by operands and through its subgraphs.
std::vector<ValueId> Reads(const Node& node, const Places& names) {
  std::vector<ValueId> reads;
  for (ValueId id : node.inputs)
    if (id.valid()) reads.push_back(id);
  for (const auto& inner : Subgraphs(node))
    for (const Value& value : inner->values)
      if (const auto it = names.find(value.name);
          value.kind == ValueKind::kCaptured && it != names.end())
        reads.push_back(it->second);
  return reads;
}

// Extents of computed values belong to the graph around, whose symbols mean nothing elsewhere; but
// inputs of both graphs are what they were declared.
void ForgetExtents(Graph& graph, const std::set<std::string>& declared = {}) {
  bool keeps = false;
  for (Value& value : graph.values) {
    if (!value.shape || StaticShape(value)) continue;
    if (value.kind == ValueKind::kInput && declared.contains(value.name))
      keeps = true;
    else
      value.shape.reset();
  }
  if (!keeps) graph.symbols.clear();
}

// The node in a graph of its own, whose inputs are its operands, each once; constants go with it.
Graph Alone(const Graph& graph, const Node& node) {
  Graph alone{.name = "alone"};
  Node copy = node;
  std::map<ValueId, ValueId> taken;
  for (ValueId& id : copy.inputs) {
    if (!id.valid()) continue;
    const auto [known, is_new] = taken.emplace(id, ValueId(alone.values.size()));
    if (is_new) {
      Value value = graph[id];
      value.producer = {};
      if (value.kind != ValueKind::kConstant) {
        value.kind = ValueKind::kInput;
        alone.inputs.push_back(known->second);
      }
      alone.values.push_back(std::move(value));
    }
    id = known->second;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    copy.outputs[i] = AddComputed(alone, graph[node.outputs[i]].name);
    alone[copy.outputs[i]].dtype = graph[node.outputs[i]].dtype;
    alone.outputs.push_back(copy.outputs[i]);
  }
  AddNode(alone, std::move(copy));
  return alone;
}

// The node alone, on operands of known extents: whether their elements decide those of its results.
Result<bool> WantsValues(const Graph& graph, const Node& node) {
  WEFT_TRY(const auto wanted, ShapeInputs(Alone(graph, node)));
  return !wanted.empty();
}

class Cutter {
 public:
  Cutter(Graph& graph, const RunsOpen& runs_open)
      : graph_(graph), runs_open_(runs_open), names_(ByName(graph)), late_(graph.values.size()) {
    for (const Node& node : graph.nodes) reads_.push_back(Reads(node, names_));
    is_open_ = std::ranges::any_of(graph.inputs, [&](ValueId id) { return IsOpen(graph[id]); });
  }

  Result<Cut> Run() {
    std::vector<bool> waits(graph_.nodes.size());
    for (size_t n = 0; n < waits.size(); ++n) {
      WEFT_TRY(waits[n], Waits(NodeId(n)));
      if (waits[n]) Delay(NodeId(n));
    }
    DelaySequences(waits);
    const auto count = static_cast<size_t>(std::ranges::count(waits, true));
    cut_.is_all = count > 0 && count == waits.size();
    if (count > 0) WEFT_TRY(Split(waits));
    return cut_;
  }

 private:
  bool IsLate(ValueId id) const { return late_[static_cast<size_t>(id.index)]; }

  Result<bool> Waits(NodeId n) {
    const Node& node = graph_[n];
    const std::vector<ValueId>& reads = reads_[static_cast<size_t>(n.index)];
    if (std::ranges::any_of(reads, [&](ValueId id) { return IsLate(id); })) return true;
    if (node.op == Op::kUnknown) return false;  // no run brings what it lacks
    // Sequences have no steps of their own: they go once all extents are known, or never.
    if (is_open_ && HasSequences(node, reads)) return true;
    if (HoldsPlans(node.op) || IsControl(node.op)) return false;
    // What is made now and has no type is a sequence, or made by what nobody knows: no run tells.
    if (std::ranges::any_of(reads, [&](ValueId id) { return !graph_[id].dtype; })) return false;
    if (std::ranges::any_of(reads, [&](ValueId id) { return IsOpen(graph_[id]); })) return true;
    const bool open = std::ranges::any_of(
        node.outputs, [&](ValueId id) { return id.valid() && IsOpen(graph_[id]); });
    if (!open || runs_open_(graph_, n)) return false;
    WEFT_TRY(const bool wants, WantsValues(graph_, node));
    cut_.wants_values |= wants;
    return wants;  // otherwise nothing helps, and whoever builds says why
  }

  bool HasSequences(const Node& node, const std::vector<ValueId>& reads) const {
    const auto has_type = [&](ValueId id) { return !id.valid() || graph_[id].dtype; };
    return !std::ranges::all_of(reads, has_type) || !std::ranges::all_of(node.outputs, has_type);
  }

  void Delay(NodeId n) {
    for (ValueId id : graph_[n].outputs)
      if (id.valid()) late_[static_cast<size_t>(id.index)] = true;
  }

  // Only tensors pass into a Stage: what makes a sequence that is read there waits with its
  // readers, and so do all others that read it.
  void DelaySequences(std::vector<bool>& waits) {
    std::vector<std::vector<NodeId>> readers(graph_.values.size());
    std::vector<NodeId> todo;
    for (size_t n = 0; n < waits.size(); ++n) {
      for (ValueId id : reads_[n]) readers[static_cast<size_t>(id.index)].emplace_back(n);
      if (waits[n]) todo.emplace_back(n);
    }
    const auto delay = [&](NodeId n) {
      if (waits[static_cast<size_t>(n.index)]) return;
      waits[static_cast<size_t>(n.index)] = true;
      Delay(n);
      todo.push_back(n);
    };
    while (!todo.empty()) {
      const NodeId n = todo.back();
      todo.pop_back();
      for (ValueId id : reads_[static_cast<size_t>(n.index)])
        if (const NodeId maker = graph_[id].producer;
            !graph_[id].dtype && maker.valid() && graph_[maker].op != Op::kUnknown)
          delay(maker);
      for (ValueId id : graph_[n].outputs)
        if (id.valid())
          for (const NodeId reader : readers[static_cast<size_t>(id.index)]) delay(reader);
    }
  }

  // The nodes that wait become the body of one Stage.
  Status Split(const std::vector<bool>& waits) {
    std::set<ValueId> taken;
    for (size_t n = 0; n < waits.size(); ++n)
      if (waits[n])
        for (ValueId id : reads_[n])
          if (!IsLate(id) && graph_[id].kind != ValueKind::kConstant) taken.insert(id);
    for (ValueId id : taken)
      if (!graph_[id].dtype) return NoTensor(graph_, id);

    Node stage{.op = Op::kStage, .op_name = std::string(OpName(Op::kStage))};
    auto body = std::make_shared<Graph>(Clone(graph_));
    std::set<std::string> declared;
    for (ValueId id : graph_.inputs) declared.insert(graph_[id].name);
    std::vector<Node> now, later;
    for (size_t n = 0; n < waits.size(); ++n) {
      if (waits[n])
        later.push_back(std::move(body->nodes[n]));
      else
        now.push_back(std::move(graph_.nodes[n]));
    }
    body->nodes = std::move(later);
    body->inputs.clear();
    for (ValueId id : taken) {
      (*body)[id].kind = ValueKind::kInput;
      (*body)[id].producer = {};
      body->inputs.push_back(id);
    }
    body->outputs.clear();
    for (ValueId id : graph_.outputs)
      if (IsLate(id) && std::ranges::count(body->outputs, id) == 0) body->outputs.push_back(id);
    stage.inputs.assign(taken.begin(), taken.end());
    stage.outputs = body->outputs;
    DropDead(*body);
    ForgetExtents(*body, declared);
    SetAttribute(stage, "body", std::move(body));
    graph_.nodes = std::move(now);
    AddNode(graph_, std::move(stage));
    DropDead(graph_);
    return {};
  }

 public:
  static Status NoTensor(const Graph& graph, ValueId id) {
    const Value& value = graph[id];
    if (value.producer.valid() && graph[value.producer].op == Op::kUnknown)
      return Unsupported(
                 fmt::format("{}: nothing here knows the operator, nor what it gives to a part "
                             "that is built when it runs",
                             Describe(graph, value.producer)))
          .Try("replace the operator, or export the model with standard ones");
    return Unsupported("it is no tensor, and passes into a part that is built when it runs")
        .At(fmt::format("value {}", PrintString(value.name)))
        .Try(value.kind == ValueKind::kInput ? "say what it is made of: weft.build(…, forms=…)"
                                             : "");
  }

 private:
  Graph& graph_;
  const RunsOpen& runs_open_;
  const Places names_;
  std::vector<std::vector<ValueId>> reads_;  // by node
  bool is_open_ = false;                     // inputs may be of any extents
  std::vector<bool> late_;                   // by value: made by a node that waits
  Cut cut_;
};

// The body takes the values by operands, after those that it has. A body that does not read one
// takes it all the same: branches share their operands.
Result<std::shared_ptr<Graph>> Closed(const Graph& open, const Graph& around,
                                      const std::vector<ValueId>& taken) {
  auto body = std::make_shared<Graph>(Clone(open));
  const Places names = ByName(open);
  Names fresh(open);
  for (ValueId id : taken) {
    const Value& value = around[id];
    if (!value.dtype) return Cutter::NoTensor(around, id);
    const auto found = names.find(value.name);
    ValueId input = found == names.end() ? ValueId() : found->second;
    if (input.valid() && open[input].kind == ValueKind::kCaptured) {
      (*body)[input].kind = ValueKind::kInput;
      body->inputs.push_back(input);
    } else {
      input = AddInput(*body, fresh.Fresh(value.name), *value.dtype, {});
    }
    (*body)[input].dtype = value.dtype;
    (*body)[input].shape = value.shape;
    if (!StaticShape(value)) (*body)[input].shape.reset();
  }
  ForgetExtents(*body);
  return body;
}

Status Close(Graph& graph, NodeId id, const Places& names) {
  const std::vector<ValueId> reads = Reads(graph[id], names);
  Node& node = graph[id];
  const auto operands = static_cast<std::ptrdiff_t>(
      std::ranges::count_if(node.inputs, [](ValueId v) { return v.valid(); }));
  const std::set<ValueId> captured(reads.begin() + operands, reads.end());
  const std::vector<ValueId> taken(captured.begin(), captured.end());
  for (Attribute& attribute : node.attributes)
    if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
      WEFT_TRY(*body, Closed(**body, graph, taken));
    }
  if (node.op == Op::kLoop) {
    node.inputs.resize(std::max<size_t>(node.inputs.size(), 2));
    SetAttribute(node, "states", static_cast<int64_t>(node.inputs.size()) - 2);
    const auto body = std::get<std::shared_ptr<Graph>>(FindAttribute(node, "body")->value);
    node.outputs.resize(body->outputs.size() - 1);  // those that nobody asked for
  }
  node.op = node.op == Op::kLoop ? Op::kRepeat : Op::kBranch;
  node.op_name = OpName(node.op);
  node.inputs.insert(node.inputs.end(), taken.begin(), taken.end());
  return {};
}

Status CloseAll(Graph& graph) {
  const Places names = ByName(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (IsControl(graph.nodes[n].op)) {
      auto status = Close(graph, NodeId(n), names);
      if (!status.ok()) return std::move(status).Because(Describe(graph, NodeId(n)));
    }
  return {};
}

// A Stage of the one node takes its place.
void Enclose(Graph& graph, Node& node) {
  auto body = std::make_shared<Graph>(Alone(graph, node));
  ForgetExtents(*body);
  Node stage{.op = Op::kStage, .op_name = std::string(OpName(Op::kStage))};
  const auto is_computed = [&](ValueId id) {
    return id.valid() && graph[id].kind != ValueKind::kConstant;
  };
  for (const ValueId id : node.inputs)
    if (is_computed(id) && std::ranges::find(stage.inputs, id) == stage.inputs.end())
      stage.inputs.push_back(id);
  std::ranges::copy_if(node.outputs, std::back_inserter(stage.outputs), is_computed);
  SetAttribute(stage, "body", std::move(body));
  node = std::move(stage);
}

}  // namespace

Result<Cut> MakeStages(Graph& graph, const RunsOpen& runs_open) {
  WEFT_TRY(const Cut cut, Cutter(graph, runs_open).Run());
  WEFT_TRY(CloseAll(graph));
  return cut;
}

Result<bool> MakeGeneral(Graph& graph, const RunsOpen& runs_open) {
  const auto is_tensor = [](const Value& value) { return value.dtype.has_value(); };
  if (!std::ranges::all_of(graph.values, is_tensor)) return false;
  const auto is_open = [&](ValueId id) { return id.valid() && IsOpen(graph[id]); };
  std::vector<size_t> others;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (HoldsPlans(node.op) || IsControl(node.op) || runs_open(graph, NodeId(n))) continue;
    if (std::ranges::none_of(node.inputs, is_open) && std::ranges::none_of(node.outputs, is_open))
      continue;
    if (!Subgraphs(node).empty()) return false;  // which may capture anything
    others.push_back(n);
  }
  if (others.size() > graph.nodes.size() / 4) return false;
  for (const size_t n : others) Enclose(graph, graph.nodes[n]);
  WEFT_TRY(CloseAll(graph));
  return true;
}

}  // namespace weft::graph
