#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "graph/edit.h"
#include "graph/graph.h"

namespace weft::graph {
namespace {

constexpr int64_t kInPlace = 16;  // elements of a constant that print where it stands

// Values that a line would be misread for are quoted.
std::string ValueName(std::string_view name) {
  if (name == "_" || name == "symbol" || name == "subgraph" || name == "captured")
    return PrintString(name);
  return PrintName(name);
}

std::string FloatText(float value) {
  std::string text = PrintFloat(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos)
    text += ".0";  // else it reads as an integer
  return text;
}

// Text holds neither the payload of a NaN nor the upper half of u64.
bool HasText(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (IsFloat(tensor.dtype()) && std::isnan(ElemAsDouble(tensor, i))) return false;
    if (tensor.dtype() == Dtype::kU64 && tensor.as<uint64_t>()[i] > INT64_MAX) return false;
    if (tensor.dtype() == Dtype::kBool && tensor.as<uint8_t>()[i] > 1) return false;
  }
  return true;
}

std::string TensorText(const Tensor& tensor, BlobStore& blobs) {
  const bool text = tensor.dtype() == Dtype::kString;
  if (!text && tensor.elems() != 0 && (tensor.elems() > kInPlace || !HasText(tensor))) {
    return fmt::format("blob(\"{}\", {} bytes)", blobs.Put(tensor), tensor.bytes());
  }
  std::string out = "const(";
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (i > 0) out += ", ";
    if (text) {
      out += PrintString(tensor.strings()[static_cast<size_t>(i)]);
    } else if (tensor.dtype() == Dtype::kF64) {
      out += PrintFloat(tensor.as<double>()[i]);
    } else if (IsFloat(tensor.dtype())) {
      out += PrintFloat(static_cast<float>(ElemAsDouble(tensor, i)));
    } else {
      out += fmt::format("{}", ElemAsInt(tensor, i));
    }
  }
  return out + ")";
}

class Printer {
 public:
  Printer(BlobStore& blobs, int& subgraphs, std::string indent)
      : blobs_(blobs), subgraphs_(subgraphs), indent_(std::move(indent)) {}

  // From the name on: "digits (image: f32[…]) -> (digit) {…}".
  std::string Body(const Graph& graph) {
    graph_ = &graph;
    out_ = (graph.name.empty() ? "_" : ValueName(graph.name)) + " (";
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      out_ += (i > 0 ? ", " : "") + Typed(graph.inputs[i]);
    }
    out_ += ") -> (";
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      out_ += (i > 0 ? ", " : "") + Ref(graph.outputs[i]);
    out_ += ") {\n";
    for (const Symbol& symbol : graph.symbols) Line(SymbolText(symbol));
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const Value& value = graph.values[i];
      if (value.kind == ValueKind::kCaptured) Line("captured " + Typed(ValueId(i)));
      if (value.kind == ValueKind::kConstant) {
        Line(fmt::format("{} = {}", Typed(ValueId(i)), TensorText(value.constant, blobs_)));
      }
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) NodeText(graph.nodes[n]);
    return out_ + indent_ + "}\n";
  }

 private:
  void Line(const std::string& text) { out_ += indent_ + "  " + text + "\n"; }

  static std::string SymbolText(const Symbol& symbol) {
    return fmt::format("symbol {} in {}:{}", PrintName(symbol.name), symbol.min, symbol.max);
  }

  std::string Ref(ValueId id) const { return id.valid() ? ValueName((*graph_)[id].name) : "_"; }

  std::string Typed(ValueId id) const {
    if (!id.valid()) return "_";
    const Value& value = (*graph_)[id];
    std::string out = ValueName(value.name);
    if (!value.dtype && !value.shape) return out;
    out += ": " + (value.dtype ? std::string(DtypeName(*value.dtype)) : "_");
    if (!value.shape) return out;
    out += "[";
    for (size_t i = 0; i < value.shape->size(); ++i) {
      const Extent& extent = (*value.shape)[i];
      if (i > 0) out += ", ";
      out += extent.IsConstant()
                 ? fmt::format("{}", extent.value())
                 : PrintName(graph_->symbols[static_cast<size_t>(extent.symbol().index)].name);
    }
    return out + "]";
  }

  std::string AttributeText(const AttributeValue& value,
                            std::vector<std::shared_ptr<Graph>>& pending) {
    auto list = [](const auto& items, std::string_view empty, auto&& print) {
      std::string out(items.empty() ? empty : "");
      out += "[";
      for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? ", " : "") + print(items[i]);
      return out + "]";
    };
    auto integer = [](int64_t i) { return fmt::format("{}", i); };
    struct Visitor {
      decltype(list)& list_of;
      decltype(integer)& int_text;
      Printer& self;
      std::vector<std::shared_ptr<Graph>>& pending;
      std::string operator()(int64_t i) const { return int_text(i); }
      std::string operator()(float f) const { return FloatText(f); }
      std::string operator()(const std::string& s) const { return PrintString(s); }
      std::string operator()(const std::vector<int64_t>& v) const {
        return list_of(v, "", int_text);
      }
      std::string operator()(const std::vector<float>& v) const {
        return list_of(v, "f32", FloatText);
      }
      std::string operator()(const std::vector<std::string>& v) const {
        return list_of(v, "string", [](const std::string& s) { return PrintString(s); });
      }
      std::string operator()(const Tensor& t) const {
        std::string out(DtypeName(t.dtype()));
        return out + weft::Print(t.shape()) + " " + TensorText(t, self.blobs_);
      }
      std::string operator()(const std::shared_ptr<Graph>& g) const {
        if (!g) return "nothing";
        pending.push_back(g);
        return fmt::format("graph{}", self.subgraphs_ + static_cast<int>(pending.size()));
      }
    };
    return std::visit(Visitor{list, integer, *this, pending}, value);
  }

  void NodeText(const Node& node) {
    std::string line;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      line += (i > 0 ? ", " : "") + Typed(node.outputs[i]);
    line += " = ";
    line += node.op != Op::kUnknown ? std::string(OpName(node.op))
                                    : PrintString(node.domain + "::" + node.op_name);
    line += "(";
    for (size_t i = 0; i < node.inputs.size(); ++i)
      line += (i > 0 ? ", " : "") + Ref(node.inputs[i]);
    line += ")";
    std::vector<std::shared_ptr<Graph>> pending;
    std::string braces;
    if (!node.name.empty()) braces = "name = " + PrintString(node.name);
    for (const Attribute& attribute : node.attributes) {
      // An attribute that is itself called `name` is told from the node's by its quotes.
      const std::string name =
          attribute.name == "name" ? PrintString("name") : PrintName(attribute.name);
      braces +=
          (braces.empty() ? "" : ", ") + name + " = " + AttributeText(attribute.value, pending);
    }
    if (!braces.empty()) line += " {" + braces + "}";
    Line(line);
    const int first = subgraphs_ + 1;
    subgraphs_ += static_cast<int>(pending.size());
    for (size_t i = 0; i < pending.size(); ++i) {
      Printer inner(blobs_, subgraphs_, indent_ + "  ");
      const std::string body = inner.Body(*pending[i]);
      out_ += fmt::format("{}  subgraph graph{} {}", indent_, first + static_cast<int>(i), body);
    }
  }

  BlobStore& blobs_;
  int& subgraphs_;  // numbered through the whole text
  std::string indent_;
  const Graph* graph_ = nullptr;
  std::string out_;
};

}  // namespace

std::string Print(const Graph& graph, BlobStore& blobs) {
  int subgraphs = 0;
  return "graph " + Printer(blobs, subgraphs, "").Body(graph);
}

}  // namespace weft::graph
