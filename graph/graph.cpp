#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/text.h"

namespace weft::graph {
namespace {

constexpr std::string_view kNames[] = {
#define WEFT_OP(name, domain) #name,
#include "graph/ops.def"
#undef WEFT_OP
};

template <typename T>
const T* GetIf(const Node& node, std::string_view name) {
  const Attribute* attribute = FindAttribute(node, name);
  return attribute ? std::get_if<T>(&attribute->value) : nullptr;
}

}  // namespace

std::string_view OpName(Op op) { return kNames[static_cast<size_t>(op)]; }

std::optional<Op> ParseOp(std::string_view domain, std::string_view name) {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, Op>;
    for (size_t i = 1; i < std::size(kNames); ++i) (*t)[kNames[i]] = static_cast<Op>(i);
    return t;
  }();
  if (!domain.empty() && domain != "ai.onnx") return std::nullopt;
  const auto found = table->find(name);
  if (found == table->end()) return std::nullopt;
  return found->second;
}

const Attribute* FindAttribute(const Node& node, std::string_view name) {
  const auto found = std::ranges::lower_bound(node.attributes, name, {}, &Attribute::name);
  return found != node.attributes.end() && found->name == name ? &*found : nullptr;
}

int64_t IntAttr(const Node& node, std::string_view name, int64_t otherwise) {
  const auto* value = GetIf<int64_t>(node, name);
  return value ? *value : otherwise;
}

float FloatAttr(const Node& node, std::string_view name, float otherwise) {
  const auto* value = GetIf<float>(node, name);
  return value ? *value : otherwise;
}

std::string StringAttr(const Node& node, std::string_view name, std::string_view otherwise) {
  const auto* value = GetIf<std::string>(node, name);
  return value ? *value : std::string(otherwise);
}

std::vector<int64_t> IntsAttr(const Node& node, std::string_view name) {
  const auto* value = GetIf<std::vector<int64_t>>(node, name);
  return value ? *value : std::vector<int64_t>{};
}

void SetAttribute(Node& node, std::string name, AttributeValue value) {
  const auto at = std::ranges::lower_bound(node.attributes, name, {}, &Attribute::name);
  if (at != node.attributes.end() && at->name == name) {
    at->value = std::move(value);
  } else {
    node.attributes.insert(at, Attribute{std::move(name), std::move(value)});
  }
}

ValueId InputAt(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : ValueId();
}

std::optional<std::vector<int64_t>> ConstantInts(const Graph& graph, const Node& node, size_t i) {
  const ValueId id = InputAt(node, i);
  if (!id.valid()) return std::nullopt;
  const Value& value = graph[id];
  return value.kind == ValueKind::kConstant ? IntsOf(value.constant) : std::nullopt;
}

std::optional<std::vector<int64_t>> IntsOf(const Tensor& tensor) {
  if (!IsInteger(tensor.dtype())) return std::nullopt;
  std::vector<int64_t> ints(static_cast<size_t>(tensor.elems()));
  for (size_t k = 0; k < ints.size(); ++k) ints[k] = ElemAsInt(tensor, static_cast<int64_t>(k));
  return ints;
}

std::optional<Shape> StaticShape(const Value& value) {
  if (!value.shape) return std::nullopt;
  Shape shape;
  for (const Extent& extent : *value.shape) {
    if (!extent.IsConstant()) return std::nullopt;
    shape.push_back(extent.value());
  }
  return shape;
}

ValueId FindValue(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return ValueId(i);
  }
  return {};
}

std::vector<std::vector<NodeId>> Consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> consumers(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (!id.valid()) continue;
      auto& list = consumers[static_cast<size_t>(id.index)];
      if (list.empty() || list.back() != NodeId(n)) list.push_back(NodeId(n));
    }
  }
  return consumers;
}

std::string Describe(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  std::string op = node.op == Op::kUnknown && !node.domain.empty()
                       ? node.domain + "::" + node.op_name
                   : node.op == Op::kUnknown ? node.op_name
                                             : std::string(OpName(node.op));
  for (char& c : op) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  if (!node.name.empty()) return fmt::format("node {} ({})", PrintString(node.name), op);
  for (ValueId output : node.outputs) {
    const bool known = output.valid() && static_cast<size_t>(output.index) <
                                             graph.values.size();  // else Verify's case
    if (known) return fmt::format("node of {} ({})", PrintString(graph[output].name), op);
  }
  return fmt::format("node {} ({})", id.index, op);
}

std::string NodeName(const Graph& graph, NodeId id) {
  return graph[id].name.empty() ? ShortName(graph, id) : graph[id].name;
}

std::string ShortName(const Graph& graph, NodeId id) {
  constexpr size_t kMax = 48;
  const Node& node = graph[id];
  std::string_view from = node.name;
  for (ValueId output : node.outputs) {
    if (from.empty() && output.valid()) from = graph[output].name;
  }
  std::string out;
  for (char c : from) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (out.ends_with('_')) out.pop_back();
  if (out.size() > kMax) out.erase(0, out.size() - kMax);  // the end of a path says most
  while (out.starts_with('_')) out.erase(0, 1);
  if (out.empty()) out = fmt::format("node{}", id.index);
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "n");
  return out;
}

}  // namespace weft::graph
