// The same operator on the same operands is computed once; equal small constants are one.

#include <fmt/format.h>

#include <unordered_map>

#include "base/text.h"
#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

constexpr int64_t kSmallBytes = 1024;

std::string BytesOf(const Tensor& tensor) {
  std::string out = fmt::format("{}{}", DtypeName(tensor.dtype()), weft::Print(tensor.shape()));
  for (const std::string& text : tensor.strings()) out += PrintString(text);
  const auto raw = tensor.raw();
  out.append(reinterpret_cast<const char*>(raw.data()), raw.size());
  return out;
}

// A key that two nodes share only if they compute the same, or nothing if a node can't be shared.
std::optional<std::string> KeyOf(const Rewriter& r, const Node& node) {
  switch (node.op) {
    case Op::kUnknown:
      return std::nullopt;
    default:
      break;
  }
  std::string key = fmt::format("{} {}", static_cast<int>(node.op), node.outputs.size());
  for (ValueId id : node.outputs) key += id.valid() ? '1' : '0';
  for (ValueId id : node.inputs) key += fmt::format(" {}", r.Resolve(id).index);
  for (const Attribute& attribute : node.attributes) {
    key += fmt::format(" {}#{}=", attribute.name, attribute.value.index());
    if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
      key += fmt::format("{}", *i);
    } else if (const auto* f = std::get_if<float>(&attribute.value)) {
      key += PrintFloat(*f);
    } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
      key += PrintString(*s);
    } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      for (int64_t i : *ints) key += fmt::format("{},", i);
    } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
      for (float f : *floats) key += PrintFloat(f) + ",";
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
      for (const std::string& s : *texts) key += PrintString(s);
    } else if (const auto* tensor = std::get_if<Tensor>(&attribute.value);
               tensor && tensor->bytes() <= kSmallBytes) {
      key += BytesOf(*tensor);
    } else {
      return std::nullopt;
    }
  }
  return key;
}

}  // namespace

Result<int> common_subexpressions(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  std::unordered_map<std::string, ValueId> constants;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind != ValueKind::kConstant || value.constant.bytes() > kSmallBytes ||
        r.IsOutput(ValueId(i)))
      continue;
    const auto [found, fresh] = constants.emplace(BytesOf(value.constant), ValueId(i));
    if (!fresh) r.Replace(ValueId(i), found->second);
  }
  std::unordered_map<std::string, size_t> seen;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto key = KeyOf(r, node);
    if (!key) continue;
    const auto [found, fresh] = seen.emplace(*key, n);
    if (fresh) continue;
    const Node& first = graph.nodes[found->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) r.Replace(node.outputs[i], first.outputs[i]);
    }
  }
  return r.Finish();
}

}  // namespace weft::graph
