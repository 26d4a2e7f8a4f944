#include "driver/one_group.h"

#include <fmt/format.h>

#include <map>

#include "graph/edit.h"
#include "partition/candidate.h"

namespace weft::driver {
namespace {

using graph::NodeId;
using graph::ValueId;
using partition::Group;
using partition::Member;

constexpr const char* kCopy = "direct";  // how an Identity is computed

class Taker {
 public:
  Taker(const Module& from, const Group& group) : from_(from), group_(group), names_(from.graph) {
    to_.form = Form::kGroups;
    to_.target = from.target;
    to_.graph.name = to_.grouping.name = group.name;
    to_.grouping.target = from.target;
  }

  Result<Module> Run() {
    const partition::GraphFacts facts(from_.graph);
    WEFT_TRY(const tc::Extracted program,
             partition::ExtractMembers(facts, from_.comprehensions, group_.members, group_.name));
    for (const ValueId v : program.inputs) WEFT_TRY(AddOperand(v));
    Group group = group_;
    for (Member& member : group.members) WEFT_TRY(AddMember(member));
    to_.grouping.groups.push_back(std::move(group));
    for (const ValueId v : program.outputs) WEFT_TRY(AddOutput(v));
    WEFT_TRY(graph::Verify(to_.graph));
    WEFT_TRY(partition::Verify(to_.grouping, to_.graph));
    return std::move(to_);
  }

 private:
  Status AddOperand(ValueId v) {
    const graph::Value& value = from_.graph[v];
    if (value.kind == graph::ValueKind::kConstant) {
      values_[v] = graph::AddConstant(to_.graph, value.name, value.constant);
      return {};
    }
    const auto layout = from_.grouping.layouts.find(v);
    if (layout == from_.grouping.layouts.end()) return Add(v, graph::ValueKind::kInput);
    WEFT_TRY(const auto shape, ShapeOf(v));
    const ValueId plain =
        graph::AddInput(to_.graph, names_.Fresh(value.name + "_plain"), *value.dtype, shape);
    WEFT_TRY(Add(v, graph::ValueKind::kComputed));
    to_.grouping.layouts[values_.at(v)] = layout->second;
    return AddCopy(plain, values_.at(v));
  }

  Status AddOutput(ValueId v) {
    if (!to_.grouping.layouts.contains(values_.at(v))) {
      to_.graph.outputs.push_back(values_.at(v));
      return {};
    }
    const ValueId plain =
        graph::AddComputed(to_.graph, names_.Fresh(from_.graph[v].name + "_plain"));
    to_.graph[plain].dtype = from_.graph[v].dtype;
    to_.graph[plain].shape = from_.graph[v].shape;
    to_.graph.outputs.push_back(plain);
    return AddCopy(values_.at(v), plain);
  }

  Status AddCopy(ValueId from, ValueId to) {
    const NodeId node = graph::AddNode(
        to_.graph,
        {.op = graph::Op::kIdentity, .op_name = "Identity", .inputs = {from}, .outputs = {to}});
    auto copies = tc::ToTc(to_.graph, node);
    if (!copies.yes())
      return Unsupported(fmt::format("no copy of {}", to_.graph[from].name)).At(group_.name);
    to_.comprehensions.of.push_back(*std::move(copies));
    to_.comprehensions.refusals.emplace_back();
    to_.grouping.groups.push_back(
        {.name = names_.Fresh(fmt::format("copy_{}", group_.name)), .members = {{node, kCopy}}});
    return {};
  }

  // The node, computed as the member says.
  Status AddMember(Member& member) {
    graph::Node node = from_.graph[member.node];
    tc::Alternative alternative;
    for (const tc::Alternative& a : from_.comprehensions.of[member.node.index])
      if (a.name == member.alternative) alternative = a;
    for (ValueId& v : node.inputs) {
      if (!v.valid() || values_.contains(v)) continue;
      // One that the program does not read: a shape, an axis, a constant in another form.
      WEFT_TRY(AddOperand(v));
    }
    for (ValueId& v : node.inputs)
      if (v.valid()) v = values_.at(v);
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      WEFT_TRY(Add(v, graph::ValueKind::kComputed));
      if (const auto it = from_.grouping.layouts.find(v); it != from_.grouping.layouts.end())
        to_.grouping.layouts[values_.at(v)] = it->second;
      v = values_.at(v);
    }
    for (auto* operands : {&alternative.inputs, &alternative.outputs})
      for (ValueId& v : *operands) v = values_.at(v);
    member.node = graph::AddNode(to_.graph, std::move(node));
    to_.comprehensions.of.push_back({std::move(alternative)});
    to_.comprehensions.refusals.emplace_back();
    return {};
  }

  Status Add(ValueId v, graph::ValueKind kind) {
    const graph::Value& value = from_.graph[v];
    WEFT_TRY(const auto shape, ShapeOf(v));
    if (kind == graph::ValueKind::kInput) {
      values_[v] = graph::AddInput(to_.graph, value.name, *value.dtype, shape);
    } else {
      values_[v] = graph::AddComputed(to_.graph, value.name);
      to_.graph[values_[v]].dtype = value.dtype;
      to_.graph[values_[v]].shape = shape;
    }
    return {};
  }

  Result<std::vector<graph::Extent>> ShapeOf(ValueId v) const {
    const auto shape = graph::StaticShape(from_.graph[v]);
    if (!shape || !from_.graph[v].dtype)
      return Unsupported(fmt::format("the extents of {} are not known", from_.graph[v].name))
          .At(group_.name);
    return graph::ExtentsOf(*shape);
  }

  const Module& from_;
  const Group& group_;
  graph::Names names_;
  Module to_;
  std::map<ValueId, ValueId> values_;
};

}  // namespace

Result<Module> OneGroup(const Module& module, const Group& group) {
  return Taker(module, group).Run();
}

}  // namespace weft::driver
