#include <algorithm>

#include "fallback/execute.h"
#include "fallback/match_internal.h"
#include "fallback/native/refusals.h"
#include "graph/widen.h"

namespace weft::fallback {
namespace {

// Natives take all types whose elements have addresses, and plain layouts; an extent that is a
// symbol is known when the network runs.
std::optional<Refusal> Fill(const graph::Graph& graph, graph::ValueId id, CallOperand& operand) {
  if (!id.valid()) return std::nullopt;
  const graph::Value& value = graph[id];
  operand.value = value.name;
  operand.constant = value.kind == graph::ValueKind::kConstant;
  if (!value.dtype)
    return Refuse(Reason::kDtypeUnknownToLibrary, "{} has no known type", value.name);
  if (SharesBytes(*value.dtype) || IsCode(*value.dtype))
    return Refuse(Reason::kDtypeUnknownToLibrary, "{} is {}", value.name, DtypeName(*value.dtype));
  operand.dtype = *value.dtype;
  operand.layout = Layout::Plain(0);
  if (!value.shape) return std::nullopt;  // whatever its rank will be
  for (const graph::Extent& extent : *value.shape) {
    operand.shape.push_back(extent.IsConstant() ? extent.value() : -1);
  }
  operand.layout = Layout::Plain(operand.shape.size());
  return std::nullopt;
}

// Subgraphs are no data; no operator with one has a native kernel.
struct CopyAttribute {
  std::optional<CallAttributeValue> operator()(const std::shared_ptr<graph::Graph>&) const {
    return std::nullopt;
  }
  template <typename T>
  std::optional<CallAttributeValue> operator()(const T& value) const {
    return CallAttributeValue(value);
  }
};

}  // namespace

Verdict<LibraryCall> MatchNative(const graph::Graph& graph, graph::NodeId id) {
  const graph::Node& node = graph[id];
  LibraryCall call{.library = Library::kNative, .op = std::string(graph::OpName(node.op))};
  if (node.op == graph::Op::kUnknown || !HasNative(call.op)) {
    return Refuse(Reason::kOpUnknownToLibrary, "{}", node.op_name.empty() ? call.op : node.op_name);
  }
  if (graph::FindAttribute(node, graph::kSumType) != nullptr)
    return Refuse(Reason::kDtypeUnknownToLibrary, "sums of bfloat16 that stay float32");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    call.inputs.push_back({.role = fmt::format("in{}", i)});
    if (auto no = Fill(graph, node.inputs[i], call.inputs.back())) return *std::move(no);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    call.outputs.push_back({.role = fmt::format("out{}", i)});
    if (auto no = Fill(graph, node.outputs[i], call.outputs.back())) return *std::move(no);
  }
  for (const graph::Attribute& attribute : node.attributes) {
    auto value = std::visit(CopyAttribute(), attribute.value);
    if (!value) return Refuse(Reason::kOpUnknownToLibrary, "{} has a subgraph", call.op);
    call.attributes.push_back({attribute.name, *std::move(value)});
  }
  if (const std::string why = native::WhyNot(call); !why.empty())
    return Refuse(Reason::kPatternUnknownToLibrary, "{}", why);
  call.origins.push_back(Origin(graph, id));
  return call;
}

bool HasNativeCall(const graph::Graph& graph, graph::NodeId node) {
  return MatchNative(graph, node).yes();
}

}  // namespace weft::fallback
