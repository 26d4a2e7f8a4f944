#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "graph/edit.h"
#include "graph/schema.h"

namespace weft::graph {
namespace {

constexpr int kMaxDepth = 64;  // of subgraphs

class Verifier {
 public:
  Verifier(const Graph& graph, const Verifier* outer, int depth)
      : graph_(graph), outer_(outer), depth_(depth) {}

  Status Run() {
    if (depth_ > kMaxDepth) return Limit(fmt::format("subgraphs nest deeper than {}", kMaxDepth));
    WEFT_TRY(Symbols());
    WEFT_TRY(Values());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      auto status = CheckNode(NodeId(n));
      if (!status.ok()) return std::move(status).At(Describe(graph_, NodeId(n)));
    }
    WEFT_TRY(Ends());
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (!defined_[i]) return Wrong(i, "is produced by nobody");
    }
    return {};
  }

 private:
  Status Wrong(size_t value, std::string what) const {
    return Invalid(fmt::format("value {} {}", PrintString(graph_.values[value].name), what));
  }
  bool InRange(ValueId id) const {
    return id.valid() && static_cast<size_t>(id.index) < graph_.values.size();
  }

  Status Symbols() const {
    std::unordered_set<std::string_view> names;
    for (const Symbol& symbol : graph_.symbols) {
      if (symbol.name.empty() || !names.insert(symbol.name).second) {
        return Invalid(fmt::format("symbol {} is empty or not unique", PrintString(symbol.name)));
      }
      if (symbol.max < symbol.min || symbol.min < 0) {
        return Invalid(fmt::format("symbol {} has the range {}:{}", PrintString(symbol.name),
                                   symbol.min, symbol.max));
      }
    }
    return {};
  }

  Status Values() {
    defined_.assign(graph_.values.size(), false);
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.name.empty()) return Invalid(fmt::format("value {} has no name", i));
      if (!names_.insert(value.name).second) return Wrong(i, "is defined twice");
      if (value.shape) WEFT_TRY(CheckShape(i));
      if (value.kind == ValueKind::kConstant) WEFT_TRY(CheckConstant(i));
      if (value.kind == ValueKind::kCaptured) {
        if (!outer_ || !outer_->names_.contains(value.name))
          return Wrong(i, "is captured, but nobody around defines it");
        defined_[i] = true;
      }
    }
    for (ValueId id : graph_.inputs) {
      if (!InRange(id)) return Invalid("an input is no value of the graph");
      if (graph_[id].kind != ValueKind::kInput)
        return Wrong(Index(id), "is listed as an input, but is none");
      if (defined_[Index(id)]) return Wrong(Index(id), "is an input twice");
      defined_[Index(id)] = true;
    }
    return {};
  }

  static size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

  Status CheckShape(size_t i) const {
    for (const Extent& extent : *graph_.values[i].shape) {
      if (extent.IsConstant()
              ? extent.value() < 0
              : static_cast<size_t>(extent.symbol().index) >= graph_.symbols.size()) {
        return Wrong(i, "has a negative or unknown extent");
      }
    }
    return {};
  }

  Status CheckConstant(size_t i) {
    const Value& value = graph_.values[i];
    const Tensor& tensor = value.constant;
    if (value.dtype != tensor.dtype())
      return Wrong(i, "has another element type than its constant");
    if (!value.shape || StaticShape(value) != tensor.shape())
      return Wrong(i, "has another shape than its constant");
    auto elems = CountElems(tensor.shape());
    if (!elems.ok()) return Wrong(i, "has too many elements");
    const auto held = tensor.dtype() == Dtype::kString
                          ? static_cast<int64_t>(tensor.strings().size())
                          : tensor.elems();
    if (held != *elems)
      return Wrong(i, fmt::format("holds {} elements, expected {}", held, *elems));
    defined_[i] = true;
    return {};
  }

  Status CheckNode(NodeId id) {
    const Node& node = graph_[id];
    for (ValueId input : node.inputs) {
      if (input.valid() && !InRange(input)) return Invalid("an input is no value of the graph");
      if (input.valid() && !defined_[Index(input)])
        return Wrong(Index(input), "is used before it is defined");
    }
    if (node.outputs.empty()) return Invalid("found 0 outputs, expected 1 at least");
    for (ValueId output : node.outputs) {
      if (!output.valid()) continue;
      if (!InRange(output)) return Invalid("an output is no value of the graph");
      const Value& value = graph_[output];
      if (defined_[Index(output)]) return Wrong(Index(output), "has two producers");
      if (value.kind != ValueKind::kComputed || value.producer != id) {
        return Wrong(Index(output), "does not know its producer");
      }
      defined_[Index(output)] = true;
    }
    WEFT_TRY(CheckAttributes(node));
    if (node.op == Op::kUnknown && node.domain.find(':') != std::string::npos)
      return Invalid(fmt::format("the domain {} holds a colon", PrintString(node.domain)));
    if (node.op == Op::kUnknown) return {};
    if (!node.domain.empty())
      return Invalid(fmt::format("operator {} is known and has the domain {}", OpName(node.op),
                                 PrintString(node.domain)));
    const Schema* schema = FindSchema(OpName(node.op));
    return schema ? CheckAgainst(*schema, node) : Status();
  }

  Status CheckAttributes(const Node& node) {
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      const Attribute& attribute = node.attributes[i];
      if (attribute.name.empty() || (i > 0 && node.attributes[i - 1].name >= attribute.name)) {
        return Invalid(
            fmt::format("attribute {} is unsorted or given twice", PrintString(attribute.name)));
      }
      const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
      if (!subgraph) continue;
      if (!*subgraph)
        return Invalid(fmt::format("attribute {} is an absent graph", PrintString(attribute.name)));
      auto status = Verifier(**subgraph, this, depth_ + 1).Run();
      if (!status.ok()) return std::move(status).Because(fmt::format("in its {}", attribute.name));
    }
    return {};
  }

  Status Ends() const {
    for (ValueId id : graph_.outputs) {
      if (!InRange(id)) return Invalid("an output is no value of the graph");
      if (!defined_[Index(id)]) return Wrong(Index(id), "is an output that nobody produces");
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].kind == ValueKind::kInput && !defined_[i])
        return Wrong(i, "is an input, but not listed");
    }
    return {};
  }

  const Graph& graph_;
  const Verifier* outer_;
  int depth_;
  std::vector<bool> defined_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

Status Verify(const Graph& graph) { return Verifier(graph, nullptr, 0).Run(); }

}  // namespace weft::graph
