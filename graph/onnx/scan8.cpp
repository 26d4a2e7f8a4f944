// Scan of opset 8, whose operands all begin with a batch, as those since opset 9 without one: a
// Scan over the batch, in whose body the other goes over the steps.
#include <fmt/format.h>

#include "graph/onnx/builder.h"

namespace weft::graph {

Status ScanBatches(Node& node) {
  const Attribute* attribute = FindAttribute(node, "body");
  const auto* steps = attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->value) : nullptr;
  if (!steps) return Invalid("attribute \"body\" is no graph");
  if (InputAt(node, 0).valid())
    return Unsupported("sequence_lens of a Scan of opset 8 are not supported");
  const std::vector<ValueId> operands(node.inputs.begin() + 1, node.inputs.end());
  if ((*steps)->inputs.size() != operands.size())
    return Invalid(fmt::format("the body has {} inputs, expected {}", (*steps)->inputs.size(),
                               operands.size()));
  if (node.outputs.size() > (*steps)->outputs.size())
    return Invalid(fmt::format("found {} outputs, the body has {}", node.outputs.size(),
                               (*steps)->outputs.size()));
  auto body = std::make_shared<Graph>(Graph{.name = (*steps)->name + "_batch"});
  for (const Value& value : (*steps)->values)
    if (value.kind == ValueKind::kCaptured)
      body->values.push_back({.name = value.name, .kind = ValueKind::kCaptured});
  Names names(*body);
  Node inner{.op = Op::kScan, .op_name = node.op_name, .name = node.name};
  for (ValueId id : (*steps)->inputs) {
    body->values.push_back({.name = names.Fresh((**steps)[id].name),
                            .kind = ValueKind::kInput,
                            .dtype = (**steps)[id].dtype});
    inner.inputs.emplace_back(body->values.size() - 1);
  }
  for (size_t i = 0; i < (*steps)->outputs.size(); ++i)
    inner.outputs.push_back(AddComputed(*body, names.Fresh((**steps)[(*steps)->outputs[i]].name)));
  body->inputs = inner.inputs;
  body->outputs = inner.outputs;
  SetAttribute(inner, "body", *steps);
  SetAttribute(inner, "num_scan_inputs", IntAttr(node, "num_scan_inputs", 0));
  if (const auto directions = IntsAttr(node, "directions"); !directions.empty())
    SetAttribute(inner, "scan_input_directions", directions);
  AddNode(*body, std::move(inner));
  node.outputs.resize(body->outputs.size());
  node.inputs = operands;
  node.attributes.clear();
  SetAttribute(node, "num_scan_inputs", static_cast<int64_t>(operands.size()));
  SetAttribute(node, "body", std::move(body));
  return {};
}

}  // namespace weft::graph
