#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "base/text.h"
#include "graph/edit.h"
#include "graph/graph.h"

namespace weft::graph {
namespace {

constexpr int kMaxDepth = 64;  // of subgraphs

class Parser {
 public:
  Parser(Lexer& lex, const BlobStore& blobs, int depth) : lex_(lex), blobs_(blobs), depth_(depth) {}

  // From the name on.
  Result<Graph> Body() {
    if (depth_ > kMaxDepth)
      return lex_.Error(fmt::format("subgraphs nest deeper than {}", kMaxDepth));
    const bool unnamed = lex_.Is("_");
    WEFT_TRY(graph_.name, lex_.ExpectName());
    if (unnamed) graph_.name.clear();
    WEFT_TRY(Inputs());
    const Token at_outputs = lex_.Peek();
    WEFT_TRY(auto outputs, OutputNames());
    WEFT_TRY(lex_.Expect("{"));
    while (!lex_.Accept("}")) WEFT_TRY(Line());
    for (const std::string& name : outputs) {
      const auto found = values_.find(name);
      if (found == values_.end())
        return lex_.ErrorAt(at_outputs, fmt::format("no value {}", PrintName(name)));
      graph_.outputs.push_back(found->second);
    }
    for (const auto& [name, token] : undeclared_) {
      return lex_.ErrorAt(token, fmt::format("symbol {} is not declared", PrintName(name)));
    }
    if (!pending_.empty())
      return lex_.Error(fmt::format("subgraph {} is missing", pending_.begin()->first));
    SortSymbols();
    return std::move(graph_);
  }

 private:
  Status Inputs() {
    WEFT_TRY(lex_.Expect("("));
    for (bool first = true; !lex_.Accept(")"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      WEFT_TRY(const ValueId id, NewValue(ValueKind::kInput));
      graph_.inputs.push_back(id);
    }
    return {};
  }

  Result<std::vector<std::string>> OutputNames() {
    std::vector<std::string> names;
    WEFT_TRY(lex_.Expect("->"));
    WEFT_TRY(lex_.Expect("("));
    for (bool first = true; !lex_.Accept(")"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      WEFT_TRY(auto name, lex_.ExpectName());
      names.push_back(std::move(name));
    }
    return names;
  }

  // In the order in which they are declared, which may differ from that of their first use.
  void SortSymbols() {
    std::vector<SymbolId> now(graph_.symbols.size());
    std::vector<Symbol> symbols;
    for (SymbolId id : declared_) {
      now[static_cast<size_t>(id.index)] = SymbolId(symbols.size());
      symbols.push_back(std::move(graph_.symbols[static_cast<size_t>(id.index)]));
    }
    graph_.symbols = std::move(symbols);
    for (Value& value : graph_.values) {
      if (!value.shape) continue;
      for (Extent& extent : *value.shape) {
        if (!extent.IsConstant()) extent = now[static_cast<size_t>(extent.symbol().index)];
      }
    }
  }

  // name[: type], a value that is defined here.
  Result<ValueId> NewValue(ValueKind kind) {
    const Token at = lex_.Peek();
    Value value{.kind = kind};
    WEFT_TRY(value.name, lex_.ExpectName());
    if (lex_.Accept(":")) {
      if (!lex_.Accept("_")) {
        WEFT_TRY(value.dtype, lex_.ExpectDtype());
      }
      if (lex_.Accept("[")) {
        WEFT_TRY(auto extents, Extents());
        value.shape = std::move(extents);
      }
    }
    const ValueId id(graph_.values.size());
    if (!values_.emplace(value.name, id).second) {
      return lex_.ErrorAt(at, fmt::format("value {} is defined twice", PrintName(value.name)));
    }
    graph_.values.push_back(std::move(value));
    return id;
  }

  Result<std::vector<Extent>> Extents() {
    std::vector<Extent> extents;
    for (bool first = true; !lex_.Accept("]"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      const Token at = lex_.Peek();
      if (at.kind == TokenKind::kInt) {
        extents.emplace_back(lex_.Next().integer);
        continue;
      }
      WEFT_TRY(auto name, lex_.ExpectName());
      const auto [found, fresh] = symbols_.emplace(name, SymbolId(graph_.symbols.size()));
      if (fresh) {
        graph_.symbols.push_back({.name = name});
        undeclared_.emplace(name, at);
      }
      extents.emplace_back(found->second);
    }
    return extents;
  }

  Status SymbolLine() {
    const Token at = lex_.Peek();
    WEFT_TRY(auto name, lex_.ExpectName());
    const auto [found, fresh] = symbols_.emplace(name, SymbolId(graph_.symbols.size()));
    if (fresh) {
      graph_.symbols.push_back({.name = name});
    } else if (undeclared_.erase(name) == 0) {
      return lex_.ErrorAt(at, fmt::format("symbol {} is declared twice", PrintName(name)));
    }
    declared_.push_back(found->second);
    if (lex_.Accept("in")) {
      WEFT_TRY(const int64_t min, lex_.ExpectInt());
      WEFT_TRY(lex_.Expect(":"));
      WEFT_TRY(const int64_t max, lex_.ExpectInt());
      if (min < 0 || max < min)
        return lex_.ErrorAt(
            at, fmt::format("symbol {} has the range {}:{}", PrintName(name), min, max));
      Symbol& symbol = graph_.symbols[static_cast<size_t>(found->second.index)];
      symbol.min = min;
      symbol.max = max;
    }
    return {};
  }

  Status Line() {
    if (lex_.AtEnd()) return lex_.Error("expected }");
    if (lex_.Accept("symbol")) return SymbolLine();
    if (lex_.Accept("subgraph")) return SubgraphLine();
    if (lex_.Accept("captured")) {
      WEFT_TRY(NewValue(ValueKind::kCaptured));
      return {};
    }
    std::vector<ValueId> defined;
    do {
      if (lex_.Accept("_")) {
        defined.emplace_back();
        continue;
      }
      WEFT_TRY(const ValueId id, NewValue(ValueKind::kComputed));
      defined.push_back(id);
    } while (lex_.Accept(","));
    WEFT_TRY(lex_.Expect("="));
    if (lex_.Is("const") || lex_.Is("blob")) return ConstantLine(defined);
    return NodeLine(std::move(defined));
  }

  Status SubgraphLine() {
    const Token at = lex_.Peek();
    WEFT_TRY(auto name, lex_.ExpectName());
    const auto found = pending_.find(name);
    if (found == pending_.end())
      return lex_.ErrorAt(at, fmt::format("no node has {}", PrintName(name)));
    Parser inner(lex_, blobs_, depth_ + 1);
    WEFT_TRY(*found->second, inner.Body());
    pending_.erase(found);
    return {};
  }

  Status ConstantLine(const std::vector<ValueId>& defined) {
    if (defined.size() != 1 || !defined[0].valid()) return lex_.Error("a constant is one value");
    Value& value = graph_[defined[0]];
    const auto shape = StaticShape(value);
    if (!value.dtype || !shape)
      return lex_.Error("a constant needs an element type and integer extents");
    WEFT_TRY(value.constant, TensorOf(*value.dtype, *shape));
    value.kind = ValueKind::kConstant;
    return {};
  }

  Result<Tensor> TensorOf(Dtype dtype, const Shape& shape) {
    if (lex_.Accept("blob")) {
      const Token at = lex_.Peek();
      WEFT_TRY(lex_.Expect("("));
      WEFT_TRY(auto hash, lex_.ExpectString());
      WEFT_TRY(lex_.Expect(","));
      WEFT_TRY(lex_.ExpectInt());
      WEFT_TRY(lex_.Expect("bytes"));
      WEFT_TRY(lex_.Expect(")"));
      auto tensor = blobs_.Get(hash, dtype, shape);
      if (!tensor.ok()) return std::move(tensor.status()).At(lex_.Where(at));
      return tensor;
    }
    return TensorInPlace(dtype, shape);
  }

  Result<Tensor> TensorInPlace(Dtype dtype, const Shape& shape) {
    const Token at = lex_.Peek();
    WEFT_TRY(lex_.Expect("const"));
    WEFT_TRY(lex_.Expect("("));
    // Elements first: nothing is allocated that the text has not spelled out.
    std::vector<double> reals;
    std::vector<int64_t> ints;
    std::vector<std::string> texts;
    int64_t count = 0;
    for (; !lex_.Accept(")"); ++count) {
      if (count > 0) WEFT_TRY(lex_.Expect(","));
      if (dtype == Dtype::kString) {
        WEFT_TRY(auto text, lex_.ExpectString());
        texts.push_back(std::move(text));
      } else if (IsFloat(dtype)) {
        WEFT_TRY(const double real, lex_.ExpectFloat());
        reals.push_back(real);
      } else {
        WEFT_TRY(const int64_t integer, lex_.ExpectInt());
        ints.push_back(integer);
      }
    }
    auto elems = CountElems(shape);
    if (!elems.ok()) return std::move(elems.status()).At(lex_.Where(at));
    if (*elems != count)
      return lex_.ErrorAt(at, fmt::format("found {} elements, expected {}", count, *elems));
    Tensor tensor(dtype, shape);
    for (size_t i = 0; i < reals.size(); ++i) SetElem(tensor, static_cast<int64_t>(i), reals[i]);
    for (size_t i = 0; i < ints.size(); ++i) SetElemInt(tensor, static_cast<int64_t>(i), ints[i]);
    tensor.strings() = std::move(texts);
    return tensor;
  }

  Status NodeLine(std::vector<ValueId> outputs) {
    Node node;
    const Token at = lex_.Peek();
    WEFT_TRY(auto op, lex_.ExpectName());
    if (at.kind == TokenKind::kString) {
      const size_t colons = op.find("::");
      if (colons == std::string::npos) return lex_.ErrorAt(at, "expected \"domain::Operator\"");
      node.domain = op.substr(0, colons);
      node.op_name = op.substr(colons + 2);
    } else {
      const auto known = ParseOp("", op);
      if (!known) return lex_.ErrorAt(at, fmt::format("unknown operator {}", op));
      node.op = *known;
      node.op_name = op;
    }
    WEFT_TRY(lex_.Expect("("));
    for (bool first = true; !lex_.Accept(")"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      if (lex_.Accept("_")) {
        node.inputs.emplace_back();
        continue;
      }
      const Token use = lex_.Peek();
      WEFT_TRY(auto name, lex_.ExpectName());
      const auto found = values_.find(name);
      if (found == values_.end()) {
        return lex_.ErrorAt(use,
                            fmt::format("value {} is not defined before its use", PrintName(name)));
      }
      node.inputs.push_back(found->second);
    }
    if (lex_.Accept("{")) WEFT_TRY(Attributes(node));
    for (ValueId id : outputs) {
      if (id.valid()) graph_[id].kind = ValueKind::kComputed;
    }
    node.outputs = std::move(outputs);
    AddNode(graph_, std::move(node));
    return {};
  }

  Status Attributes(Node& node) {
    for (bool first = true; !lex_.Accept("}"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      const Token at = lex_.Peek();
      WEFT_TRY(auto name, lex_.ExpectName());
      WEFT_TRY(lex_.Expect("="));
      if (name == "name" && at.kind == TokenKind::kName) {
        WEFT_TRY(node.name, lex_.ExpectString());
        continue;
      }
      if (FindAttribute(node, name))
        return lex_.ErrorAt(at, fmt::format("attribute {} is given twice", name));
      WEFT_TRY(auto value, OneAttribute());
      SetAttribute(node, std::move(name), std::move(value));
    }
    return {};
  }

  // An integer unless it has a point, an exponent or is called nan or inf.
  bool IsFloatNext() const {
    const Token& token = lex_.Peek(lex_.Is("-") ? 1 : 0);
    // Digits alone are an integer, even those of INT64_MIN, which only fit with their sign.
    const bool point = token.kind == TokenKind::kFloat &&
                       token.text.find_first_not_of("0123456789") != std::string::npos;
    return point ||
           (token.kind == TokenKind::kName && (token.text == "nan" || token.text == "inf"));
  }

  Result<AttributeValue> OneAttribute() {
    const Token at = lex_.Peek();
    if (at.kind == TokenKind::kString) {
      WEFT_TRY(auto text, lex_.ExpectString());
      return AttributeValue(std::move(text));
    }
    if (lex_.Is("[")) return List();
    if (IsFloatNext()) {
      WEFT_TRY(const double real, lex_.ExpectFloat());
      return AttributeValue(static_cast<float>(real));
    }
    if (at.kind == TokenKind::kInt || at.kind == TokenKind::kFloat || lex_.Is("-")) {
      WEFT_TRY(const int64_t integer, lex_.ExpectInt());
      return AttributeValue(integer);
    }
    if (lex_.Accept("nothing")) return AttributeValue(std::shared_ptr<Graph>());
    if (at.text.starts_with("graph")) {
      WEFT_TRY(auto name, lex_.ExpectName());
      auto graph = std::make_shared<Graph>();
      if (!pending_.emplace(name, graph).second) {
        return lex_.ErrorAt(at, fmt::format("{} is used twice", PrintName(name)));
      }
      return AttributeValue(std::move(graph));
    }
    WEFT_TRY(const Dtype dtype, lex_.ExpectDtype());
    WEFT_TRY(auto shape, lex_.ExpectShape());
    if (shape.empty() && !lex_.Is("const") && !lex_.Is("blob")) {  // f32[]: no floats
      if (dtype == Dtype::kString) return AttributeValue(std::vector<std::string>());
      return AttributeValue(std::vector<float>());
    }
    WEFT_TRY(auto tensor, TensorOf(dtype, shape));
    return AttributeValue(std::move(tensor));
  }

  Result<AttributeValue> List() {
    WEFT_TRY(lex_.Expect("["));
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> texts;
    const bool text = lex_.Peek().kind == TokenKind::kString, real = IsFloatNext();
    for (bool first = true; !lex_.Accept("]"); first = false) {
      if (!first) WEFT_TRY(lex_.Expect(","));
      if (text) {
        WEFT_TRY(auto item, lex_.ExpectString());
        texts.push_back(std::move(item));
      } else if (real) {
        WEFT_TRY(const double item, lex_.ExpectFloat());
        floats.push_back(static_cast<float>(item));
      } else {
        WEFT_TRY(const int64_t item, lex_.ExpectInt());
        ints.push_back(item);
      }
    }
    if (text) return AttributeValue(std::move(texts));
    if (real) return AttributeValue(std::move(floats));
    return AttributeValue(std::move(ints));
  }

  Lexer& lex_;
  const BlobStore& blobs_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, SymbolId> symbols_;
  std::vector<SymbolId> declared_;
  std::map<std::string, Token> undeclared_;                // used before a `symbol` line
  std::map<std::string, std::shared_ptr<Graph>> pending_;  // named by a node, body to come
};

}  // namespace

Result<Graph> ParseGraph(std::string_view text, const std::string& file, const BlobStore& blobs) {
  WEFT_TRY(auto lex, Lexer::Open(text, file));
  WEFT_TRY(lex.Expect("graph"));
  Parser parser(lex, blobs, 0);
  WEFT_TRY(auto graph, parser.Body());
  if (!lex.AtEnd()) return lex.Error("expected the end of the text");
  Status verified = Verify(graph);
  if (verified.ok()) return graph;
  return verified.where().empty() ? std::move(verified).At(file) : verified;
}

}  // namespace weft::graph
