// The importer's middle: from a parsed ModelProto to a Graph.
//
// A scope maps the names of one graph or function body to values. The body of a function is
// expanded into the graph that calls it, so its scope shares that graph but not its names. A
// subgraph is a graph of its own; a name that it does not define is looked for around it and
// becomes a captured value in every graph on the way, so that each graph only needs its immediate
// neighbour.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/status.h"
#include "graph/edit.h"
#include "graph/graph.h"
#include "graph/infer/engine.h"
#include "graph/onnx/external.h"
#include "graph/onnx/import.h"
#include "graph/onnx/proto/onnx-ml.pb.h"
#include "graph/schema.h"

namespace weft::graph {

using Opsets = std::map<std::string, int64_t>;  // by domain; ai.onnx is ""

// "ai.onnx" is another spelling of "".
std::string DomainOf(const std::string& domain);
Result<Opsets> OpsetsOf(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

// What a copy takes: the elements of a tensor and the nodes of a graph are shared.
size_t BytesOf(const AttributeValue& value);

// A graph under construction.
class Draft {
 public:
  // Only models older than opset 13 need all types, for rewrites whose new form depends on a rank
  // or an element type; others have them from the first question on.
  explicit Draft(Graph& g, int64_t opset, Draft* around = nullptr);
  bool HasTypes() const { return types_ != nullptr; }

  NodeId Append(Node node);
  // What the graph around calls so. It may have two names there: formal and actual operand of a
  // function.
  ValueId Capture(const std::string& name);
  // A value with what can be inferred of it so far.
  const Value& Known(ValueId id);
  // Null unless it is one, here or around.
  const Tensor* ConstantOf(ValueId id) const;
  // Types are found anew when the graph is whole.
  void ForgetTypes();

  Graph& graph;
  Names names;  // of values of the graph and of those around it
  Names symbols;
  std::unordered_map<std::string, SymbolId> dims;  // usable names of dimensions

 private:
  ValueId Find(const std::string& name);
  ValueId Around(ValueId id) const;  // what is captured; invalid if nothing is
  void TakeType(ValueId captured);
  void InferType(NodeId id);

  Draft* around_;
  std::unordered_map<std::string, ValueId> captured_;
  std::unordered_map<std::string, ValueId> by_name_;  // of the first `found_` values
  size_t found_ = 0;
  std::map<SymbolId, SymbolId> brought_;  // by the symbol around
  std::unique_ptr<infer::Engine> types_;
};

// A function of the model or of ONNX.
struct Function {
  onnx::FunctionProto* proto = nullptr;
  std::unique_ptr<onnx::FunctionProto> own;  // of ONNX
  Opsets opsets;
  std::unordered_map<std::string, onnx::AttributeProto*> attributes;  // to the default, or null
  size_t bytes = 0;  // of the names that each call puts into a scope
};

struct Scope {
  Draft* draft = nullptr;
  Scope* outer = nullptr;  // around a subgraph; null around a model and a function
  std::unordered_map<std::string, ValueId>
      names;                              // an invalid id is an absent operand of a function
  std::unordered_set<std::string> later;  // outputs of nodes that have not been reached yet
  const Opsets* opsets = nullptr;
  std::string prefix;  // of names made in a function body
  // In a function body: which one, and its attributes as the call gives them. Null elsewhere.
  const Function* function = nullptr;
  const std::map<std::string, AttributeValue>* bound = nullptr;
  int depth = 0;  // of subgraphs and functions together
};

class Builder {
 public:
  Builder(onnx::ModelProto& model, std::string folder, const ImportLimits& limits)
      : model_(model), files_(std::move(folder)), limits_(limits) {}
  Result<Graph> Build();

 private:
  // builder.cpp
  Status CheckModel();
  Status GraphBody(onnx::GraphProto& proto, Scope& scope);
  Status Inputs(const onnx::GraphProto& proto, Scope& scope);
  Status Initializers(onnx::GraphProto& proto, Scope& scope);
  Status Outputs(const onnx::GraphProto& proto, Scope& scope);
  Status InputType(const onnx::ValueInfoProto& info, Draft& draft, Value& value);
  Extent DimExtent(const onnx::TensorShapeProto::Dimension& dim, const std::string& input, int axis,
                   Draft& draft);
  Status AnyNode(onnx::NodeProto& proto, Scope& scope);
  Status PlainNode(onnx::NodeProto& proto, Scope& scope);
  Status ConstantNode(const Node& node, const onnx::NodeProto& proto, Scope& scope);
  Status Append(Node node, Scope& scope, int64_t opset);
  Result<ValueId> Resolve(Scope& scope, const std::string& name);
  Result<ValueId> Lookup(Scope& scope, const std::string& name);  // invalid if nobody has it
  // The value that the graph around knows by this name.
  Result<ValueId> Capture(Scope& scope, const std::string& name);
  // A graph that a call gives and the body uses in a graph of its own: what it captures comes in.
  Status CarryIn(Scope& scope, const Graph& given);
  Status Define(Scope& scope, const std::string& name, ValueId id);
  Result<ValueId> NewOutput(Scope& scope, const std::string& name);
  // A name of the graph for what a body calls so.
  Result<std::string> NewName(Scope& scope, const std::string& name);
  Status CountNode();
  // A body says once what each of its calls makes anew, so these bytes are not the file's.
  Status Charge(const Scope& scope, size_t bytes);

  // attributes.cpp
  Status Attributes(onnx::NodeProto& proto, Node& node, Scope& scope);
  Result<AttributeValue> OneAttribute(onnx::AttributeProto& proto, Scope& scope);
  // The attribute of the call that this one of a body refers to; null if the call leaves it out.
  Result<const AttributeValue*> Referred(const onnx::AttributeProto& proto, const Scope& scope);
  // All calls of a function share its constants.
  Result<Tensor> TensorAt(const onnx::TensorProto& proto, const Scope& scope);
  Result<Tensor> DenseOf(const onnx::SparseTensorProto& proto);

  // functions.cpp
  Status IndexFunctions();
  // The body of a node's function, if the model or ONNX has one that weft expands.
  const Function* FunctionOf(const onnx::NodeProto& proto, const Scope& scope);
  Status Expand(const Function& function, onnx::NodeProto& call, Scope& scope);
  // The attributes of a call, as the body sees them: given, or by default.
  Status Defaults(Scope& body, std::map<std::string, AttributeValue>& bound);

  onnx::ModelProto& model_;
  ExternalFiles files_;
  ImportLimits limits_;
  int64_t nodes_ = 0;  // so far, calls of functions included
  int64_t calls_ = 0;
  int64_t streams_ = 0;                        // of random numbers
  size_t expanded_ = 0;                        // bytes, see Charge
  int64_t dense_ = 0;                          // bytes of sparse tensors
  std::map<std::string, Function> functions_;  // "domain\0name\0overload"
  std::map<std::string, Function> builtin_;
  std::vector<const Function*> active_;  // being expanded: recursion is refused
  std::unordered_map<const onnx::TensorProto*, Tensor> shared_;  // of function bodies
};

// upgrade.cpp: brings a node of this opset to the newest form and appends it, with what it needs
// around it, to the draft. Its outputs are values already.
Status AppendUpgraded(Draft& draft, Node node, int64_t opset);
// scan8.cpp: gives a Scan of opset 8 the form of later ones.
Status ScanBatches(Node& node);

}  // namespace weft::graph
