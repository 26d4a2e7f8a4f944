// Graph: what the network says. The first noun.
//
// Values and nodes lie in flat arrays; nodes are in topological order; every value has exactly one
// producer (a graph input, a constant or a node). Operators are ONNX's, in the form of the newest
// opset that weft knows (28): the importer rewrites older spellings (attributes that became inputs,
// changed defaults), so nobody downstream asks for an opset.
//
// Text form (`.graph`):
//
//   graph digits (image: f32[batch, 1, 28, 28]) -> (digit) {
//     symbol batch in 1:65536
//     w1: f32[16, 1, 3, 3] = blob(3f9ac2…, 576 bytes)
//     axes: i64[1] = const(1)
//     conv1: f32[batch, 16, 28, 28] = Conv(image, w1, b1) {pads = [1, 1, 1, 1]}  # /conv1/Conv
//     out = If(cond) {then_branch = graph1, else_branch = graph2}
//     subgraph graph1 … { … }
//   }
//
// An absent optional operand prints as `_`. `name` in the braces is the node's ONNX name when it is
// not the comment-free default. Small constants (up to 16 elements) print in place.
//
// Verify(): (1) ids in range, lists consistent; (2) each value has one producer, before its uses;
// (3) names of values are unique and not empty; (4) constants match their dtype and shape exactly;
// (5) inputs and outputs exist; (6) operand counts and attributes fit the operator's schema; (7) a
// symbol's range is not empty; (8) subgraphs verify, with captured names resolved in the enclosing
// scopes; (9) if a node's output shapes are known, inference agrees with them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/blob.h"
#include "base/dtype.h"
#include "base/id.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft::graph {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using SymbolId = Id<struct SymbolTag>;

// Operators by name; kUnknown carries its domain and name in the node.
enum class Op : uint16_t {
#define WEFT_OP(name, domain) k##name,
#include "graph/ops.def"
#undef WEFT_OP
};
std::string_view OpName(Op op);
std::optional<Op> ParseOp(std::string_view domain, std::string_view name);

// An extent is an integer or a symbol.
class Extent {
 public:
  Extent(int64_t value = 0) : value_(value) {}  // NOLINT: integers are extents
  Extent(SymbolId symbol) : symbol_(symbol) {}  // NOLINT
  bool IsConstant() const { return !symbol_.valid(); }
  int64_t value() const { return value_; }     // if constant
  SymbolId symbol() const { return symbol_; }  // otherwise
  bool operator==(const Extent&) const = default;

 private:
  int64_t value_ = 0;
  SymbolId symbol_;
};

// A size that is only known when the network runs. Two inputs share a symbol only if the model
// names them equally with a usable name; `?`, empty and negative dimensions each get a symbol of
// their own.
struct Symbol {
  std::string name;  // unique in the graph
  int64_t min = 0, max = INT32_MAX;
  bool operator==(const Symbol&) const = default;
};

enum class ValueKind : uint8_t { kInput, kConstant, kComputed, kCaptured };

struct Value {
  std::string name;  // as in the model; unique
  ValueKind kind = ValueKind::kComputed;
  std::optional<Dtype> dtype;  // absent until inferred (or not a tensor)
  std::optional<std::vector<Extent>> shape;
  NodeId producer;  // kComputed
  Tensor constant;  // kConstant
};

struct Graph;

using AttributeValue =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, Tensor, std::shared_ptr<Graph>>;
struct Attribute {
  std::string name;
  AttributeValue value;
};

struct Node {
  Op op = Op::kUnknown;
  std::string domain;                 // "" is ai.onnx
  std::string op_name;                // as in the model (for kUnknown the only way to tell)
  std::string name;                   // ONNX node name; may be empty
  std::vector<ValueId> inputs;        // an invalid id is an absent optional operand
  std::vector<ValueId> outputs;       // likewise
  std::vector<Attribute> attributes;  // sorted by name
};

struct Graph {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Value> values;
  std::vector<Node> nodes;  // topological order
  std::vector<ValueId> inputs, outputs;
  // Constants in a form that a variant of their reader's mathematics wants, by constant and
  // variant. Made anew by whoever needs them: no part of the text, nor of what makes graphs equal.
  std::map<std::pair<ValueId, std::string>, ValueId> forms;

  const Value& operator[](ValueId id) const { return values[id.index]; }
  Value& operator[](ValueId id) { return values[id.index]; }
  const Node& operator[](NodeId id) const { return nodes[id.index]; }
  Node& operator[](NodeId id) { return nodes[id.index]; }
};

// Questions. An attribute of another type than asked for counts as absent (Verify reports it).
const Attribute* FindAttribute(const Node& node, std::string_view name);
int64_t IntAttr(const Node& node, std::string_view name, int64_t otherwise);
float FloatAttr(const Node& node, std::string_view name, float otherwise);
std::string StringAttr(const Node& node, std::string_view name, std::string_view otherwise);
std::vector<int64_t> IntsAttr(const Node& node, std::string_view name);  // empty if absent
void SetAttribute(Node& node, std::string name, AttributeValue value);   // keeps them sorted
// The input at `i`, or an invalid id if it is absent or beyond the list.
ValueId InputAt(const Node& node, size_t i);
// The constant integers of input `i` (axes, shapes, sizes), if it is a constant.
std::optional<std::vector<int64_t>> IntsOf(const Tensor& tensor);  // its elements, if integers
std::optional<std::vector<int64_t>> ConstantInts(const Graph& graph, const Node& node, size_t i);
// Extents as integers, if all are constant.
std::optional<Shape> StaticShape(const Value& value);
ValueId FindValue(const Graph& graph, std::string_view name);
std::vector<std::vector<NodeId>> Consumers(const Graph& graph);  // by value, each in node order
// "node "/conv1/Conv" (Conv)", or by its first output when it has no name: for messages.
std::string Describe(const Graph& graph, NodeId node);
// The ONNX name of a node, or ShortName where it has none.
std::string NodeName(const Graph& graph, NodeId node);
// A short identifier ([a-z0-9_]+) for a node, unique if the caller keeps a set; names kernels.
std::string ShortName(const Graph& graph, NodeId node);

// The noun's four verbs. Blobs hold the constants that are too big to print.
std::string Print(const Graph& graph, BlobStore& blobs);
Result<Graph> ParseGraph(std::string_view text, const std::string& file, const BlobStore& blobs);
Status Verify(const Graph& graph);
bool Equal(const Graph& a, const Graph& b);

}  // namespace weft::graph
