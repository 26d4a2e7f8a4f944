#include "graph/onnx/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ranges>

#include "base/text.h"
#include "graph/onnx/expansion.h"
#include "graph/onnx/tensors.h"

namespace weft::graph {
namespace {

constexpr int64_t kOldestIr = 3, kNewestIr = 14;

std::string NodeWhere(const onnx::NodeProto& proto) {
  std::string op;
  for (char c : proto.op_type()) op += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  if (!proto.name().empty()) return fmt::format("node {} ({})", PrintString(proto.name()), op);
  for (const std::string& output : proto.output()) {
    if (!output.empty()) return fmt::format("node of {} ({})", PrintString(output), op);
  }
  return fmt::format("node ({})", op);
}

// The output of a function is a value of its caller before a node of the body produces it.
bool Waits(const Draft& draft, ValueId id) {
  if (!id.valid()) return false;
  const Value& value = draft.graph[id];
  return value.kind == ValueKind::kComputed && !value.producer.valid();
}

// A name that says which size it is, not merely that there is one.
bool UsableDimName(const std::string& name) {
  static constexpr std::string_view kEmptyWords[] = {"none", "null", "unk", "unknown", "dynamic"};
  if (name.empty() || name.size() > 256 || name.find('?') != std::string::npos) return false;
  if (!std::isalpha(static_cast<unsigned char>(name[0])) && name[0] != '_') return false;
  std::string lower;
  for (char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(kEmptyWords, lower) == std::end(kEmptyWords);
}

}  // namespace

std::string DomainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

Result<Opsets> OpsetsOf(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = DomainOf(import.domain());
    const std::string shown = domain.empty() ? "ai.onnx" : domain;
    // Converters of scikit-learn's estimators say the same thing twice.
    const auto [known, isnew] = opsets.emplace(domain, import.version());
    if (!isnew && known->second != import.version()) {
      return Invalid(fmt::format("domain {} is imported twice, with opsets {} and {}",
                                 PrintString(shown), known->second, import.version()));
    }
    if (import.version() < 1) {
      return Invalid(fmt::format("domain {} has opset {}, expected 1 or more", PrintString(shown),
                                 import.version()));
    }
  }
  const auto onnx = opsets.find("");
  if (onnx != opsets.end() && (onnx->second < kOldestOpset || onnx->second > kNewestOpset)) {
    return Unsupported(
        fmt::format("found opset {}, expected {} to {}", onnx->second, kOldestOpset, kNewestOpset));
  }
  return opsets;
}

Draft::Draft(Graph& g, int64_t opset, Draft* around)
    : graph(g), names(g, around ? &around->names : nullptr), symbols(Graph{}), around_(around) {
  if (opset < 13) types_ = std::make_unique<infer::Engine>(g);
}

NodeId Draft::Append(Node node) {
  const NodeId id = AddNode(graph, std::move(node));
  if (types_) InferType(id);
  return id;
}

void Draft::InferType(NodeId id) {
  const Status status = types_->Infer(id);
  (void)status;  // wrong models are reported when shapes are inferred in earnest
}

ValueId Draft::Capture(const std::string& name) {
  const auto [known, is_new] = captured_.emplace(name, graph.values.size());
  if (!is_new) return known->second;
  graph.values.push_back(Value{.name = name, .kind = ValueKind::kCaptured});
  if (types_) TakeType(known->second);
  return known->second;
}

ValueId Draft::Find(const std::string& name) {
  for (; found_ < graph.values.size(); ++found_)
    by_name_.emplace(graph.values[found_].name, found_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? ValueId() : found->second;
}

ValueId Draft::Around(ValueId id) const {
  const Value& value = graph[id];
  return around_ && value.kind == ValueKind::kCaptured ? around_->Find(value.name) : ValueId();
}

void Draft::TakeType(ValueId id) {
  const ValueId outer = Around(id);
  if (!outer.valid()) return;
  const Value& from = around_->Known(outer);
  graph[id].dtype = from.dtype;
  if (!from.shape) return;
  std::vector<Extent> shape = *from.shape;
  for (Extent& extent : shape) {
    if (extent.IsConstant()) continue;
    const auto [known, is_new] = brought_.emplace(extent.symbol(), SymbolId());
    const Symbol& symbol = around_->graph.symbols[static_cast<size_t>(extent.symbol().index)];
    if (is_new)
      known->second = AddSymbol(graph, symbols.Fresh(symbol.name), symbol.min, symbol.max);
    extent = known->second;
  }
  graph[id].shape = std::move(shape);
}

const Value& Draft::Known(ValueId id) {
  if (!types_) {
    for (const auto& [name, captured] : captured_) TakeType(captured);
    types_ = std::make_unique<infer::Engine>(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) InferType(NodeId(n));
  }
  return graph[id];
}

const Tensor* Draft::ConstantOf(ValueId id) const {
  if (!id.valid()) return nullptr;
  if (graph[id].kind == ValueKind::kConstant) return &graph[id].constant;
  const ValueId outer = Around(id);
  return outer.valid() ? around_->ConstantOf(outer) : nullptr;
}

void Draft::ForgetTypes() {
  if (types_) infer::ResetTypes(graph);
}

Status Builder::CheckModel() {
  if (model_.ir_version() < kOldestIr || model_.ir_version() > kNewestIr) {
    return Unsupported(fmt::format("found IR version {}, expected {} to {}", model_.ir_version(),
                                   kOldestIr, kNewestIr));
  }
  if (!model_.has_graph()) return Invalid("the model has no graph");
  return {};
}

Result<Graph> Builder::Build() {
  WEFT_TRY(CheckModel());
  WEFT_TRY(const Opsets opsets, OpsetsOf(model_.opset_import()));
  if (opsets.empty()) return Invalid("the model imports no opset").Try("add an opset_import");
  WEFT_TRY(IndexFunctions());
  Graph graph;
  graph.name = model_.graph().name();
  int64_t oldest = opsets.contains("") ? opsets.at("") : kNewestOpset;
  for (const auto& function : model_.functions()) {
    for (const auto& import : function.opset_import()) {
      if (DomainOf(import.domain()).empty()) oldest = std::min(oldest, import.version());
    }
  }
  Draft draft(graph, oldest);
  Scope scope{.draft = &draft, .opsets = &opsets};
  WEFT_TRY(GraphBody(*model_.mutable_graph(), scope));
  draft.ForgetTypes();
  return graph;
}

Status Builder::GraphBody(onnx::GraphProto& proto, Scope& scope) {
  if (scope.depth > limits_.max_depth)
    return Limit(fmt::format("subgraphs nest deeper than {}", limits_.max_depth));
  WEFT_TRY(Initializers(proto, scope));
  WEFT_TRY(Inputs(proto, scope));
  for (const auto& node : proto.node())
    scope.later.insert(node.output().begin(), node.output().end());
  for (auto& node : *proto.mutable_node()) {
    auto status = AnyNode(node, scope);
    if (!status.ok()) return std::move(status).At(NodeWhere(node));
    for (const std::string& output : node.output()) scope.later.erase(output);
  }
  return Outputs(proto, scope);
}

Status Builder::Define(Scope& scope, const std::string& name, ValueId id) {
  if (name.empty()) return Invalid("a value has no name");
  for (const Scope* around = scope.outer; around; around = around->outer) {
    if (around->names.contains(name))
      return Invalid(
          fmt::format("value {} is already defined around this graph", PrintString(name)));
  }
  if (!scope.names.emplace(name, id).second)
    return Invalid(fmt::format("value {} is defined twice", PrintString(name)));
  return Charge(scope, sizeof(Value) + name.size());
}

Status Builder::Initializers(onnx::GraphProto& proto, Scope& scope) {
  Draft& draft = *scope.draft;
  for (auto& initializer : *proto.mutable_initializer()) {
    const std::string where = fmt::format("initializer {}", PrintString(initializer.name()));
    auto tensor = TensorAt(initializer, scope);
    if (!tensor.ok()) return std::move(tensor.status()).At(where);
    if (!scope.function) initializer.clear_raw_data();  // a function may be expanded again
    auto status = Define(scope, initializer.name(), ValueId(draft.graph.values.size()));
    if (!status.ok()) return std::move(status).At(where);
    AddConstant(draft.graph, draft.names.Fresh(initializer.name()), *std::move(tensor));
  }
  for (const auto& initializer : proto.sparse_initializer()) {
    const std::string& name = initializer.values().name();
    const std::string where = fmt::format("sparse initializer {}", PrintString(name));
    auto tensor = DenseOf(initializer);
    if (!tensor.ok()) return std::move(tensor.status()).At(where);
    auto status = Define(scope, name, ValueId(draft.graph.values.size()));
    if (!status.ok()) return std::move(status).At(where);
    AddConstant(draft.graph, draft.names.Fresh(name), *std::move(tensor));
  }
  return {};
}

Status Builder::Inputs(const onnx::GraphProto& proto, Scope& scope) {
  Draft& draft = *scope.draft;
  std::unordered_set<std::string> seen;
  for (const auto& info : proto.input()) {
    const std::string where = fmt::format("input {}", PrintString(info.name()));
    if (!seen.insert(info.name()).second) return Invalid("the input is given twice").At(where);
    Value value{.name = info.name(), .kind = ValueKind::kInput};
    auto status = InputType(info, draft, value);
    const auto initializer = scope.names.find(info.name());
    if (status.ok() && initializer != scope.names.end()) {  // a default: it holds, the input goes
      const Value& constant = draft.graph[initializer->second];
      if (value.dtype && value.dtype != constant.dtype) {
        status = Invalid(fmt::format("its initializer is {}, expected {}",
                                     DtypeName(*constant.dtype), DtypeName(*value.dtype)));
      }
      if (status.ok()) continue;
    }
    if (status.ok()) status = Define(scope, info.name(), ValueId(draft.graph.values.size()));
    if (!status.ok()) return std::move(status).At(where);
    value.name = draft.names.Fresh(value.name);
    draft.graph.inputs.push_back(ValueId(draft.graph.values.size()));
    draft.graph.values.push_back(std::move(value));
  }
  return {};
}

Status Builder::InputType(const onnx::ValueInfoProto& info, Draft& draft, Value& value) {
  if (!info.type().has_tensor_type()) return {};  // a sequence, an optional, or nothing said
  const auto& type = info.type().tensor_type();
  const bool subgraph = type.elem_type() == 0;  // inputs of a loop's body may leave it open
  if (!subgraph) {
    WEFT_TRY(value.dtype, DtypeOf(type.elem_type()));
  }
  if (!type.has_shape()) return {};
  if (type.shape().dim_size() > kMaxRank)
    return Limit(fmt::format("rank {} is above {}", type.shape().dim_size(), kMaxRank));
  value.shape.emplace();
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    value.shape->push_back(DimExtent(type.shape().dim(i), info.name(), i, draft));
  }
  if (const auto shape = StaticShape(value)) WEFT_TRY(CountElems(*shape));
  return {};
}

Extent Builder::DimExtent(const onnx::TensorShapeProto::Dimension& dim, const std::string& input,
                          int axis, Draft& draft) {
  if (dim.has_dim_value() && dim.dim_value() >= 0) return dim.dim_value();
  const std::string& name = dim.dim_param();
  const bool usable = dim.has_dim_param() && UsableDimName(name);
  if (usable) {
    if (const auto found = draft.dims.find(name); found != draft.dims.end()) return found->second;
  }
  const std::string chosen = draft.symbols.Fresh(usable ? name : fmt::format("{}_{}", input, axis));
  const SymbolId id = AddSymbol(draft.graph, chosen);
  if (usable) draft.dims.emplace(name, id);
  return id;
}

Result<ValueId> Builder::Lookup(Scope& scope, const std::string& name) {
  if (const auto found = scope.names.find(name); found != scope.names.end())
    return Waits(*scope.draft, found->second) ? ValueId() : found->second;
  if (!scope.outer) return ValueId();
  WEFT_TRY(const ValueId around, Lookup(*scope.outer, name));
  if (!around.valid()) return ValueId();
  WEFT_TRY(const ValueId id, Capture(scope, scope.outer->draft->graph[around].name));
  scope.names.emplace(name, id);
  return id;
}

Result<ValueId> Builder::Capture(Scope& scope, const std::string& name) {
  WEFT_TRY(Charge(scope, sizeof(Value) + name.size()));
  return scope.draft->Capture(name);
}

Status Builder::CarryIn(Scope& scope, const Graph& given) {
  std::vector<Scope*> between;  // the innermost first
  for (Scope* around = &scope; around->outer; around = around->outer) between.push_back(around);
  for (const Value& value : given.values) {
    if (value.kind != ValueKind::kCaptured) continue;
    for (Scope* inner : between | std::views::reverse) WEFT_TRY(Capture(*inner, value.name));
  }
  return {};
}

Result<ValueId> Builder::Resolve(Scope& scope, const std::string& name) {
  WEFT_TRY(const ValueId id, Lookup(scope, name));
  if (id.valid()) return id;
  for (const Scope* around = &scope; around; around = around->outer) {
    if (!around->later.contains(name)) continue;
    return Invalid(
               fmt::format("value {} is used before the node that defines it", PrintString(name)))
        .Try("sort the nodes topologically; if that is impossible they form a cycle");
  }
  for (const Scope* around = &scope; around; around = around->outer) {
    const auto absent = around->names.find(name);
    if (absent != around->names.end() && !absent->second.valid()) return ValueId();
  }
  return Invalid(fmt::format("value {} is produced by nobody", PrintString(name)));
}

Status Builder::CountNode() {
  if (++nodes_ > limits_.max_nodes)
    return Limit(fmt::format("more than {} nodes after expanding functions", limits_.max_nodes));
  return {};
}

Status Builder::Charge(const Scope& scope, size_t bytes) {
  if (!scope.function) return {};
  expanded_ += bytes;
  if (expanded_ <= limits_.max_expanded) return {};
  return Limit(fmt::format("functions expand to more than {} bytes, at last {}",
                           limits_.max_expanded, PrintString(scope.function->proto->name())));
}

Result<std::string> Builder::NewName(Scope& scope, const std::string& name) {
  WEFT_TRY(Charge(scope, 2 * (scope.prefix.size() + name.size())));  // a value's, and a taken one
  return scope.draft->names.Fresh(scope.prefix + name);
}

Status Builder::AnyNode(onnx::NodeProto& proto, Scope& scope) {
  WEFT_TRY(CountNode());
  if (proto.op_type().empty()) return Invalid("the node has no operator");
  const std::unordered_set<std::string_view> inputs(proto.input().begin(), proto.input().end());
  for (const std::string& output : proto.output()) {
    if (!output.empty() && inputs.contains(output) && !scope.names.contains(output))
      return Invalid(fmt::format("the node consumes its own output {}", PrintString(output)));
  }
  if (!scope.opsets->contains(DomainOf(proto.domain()))) {
    const std::string shown = proto.domain().empty() ? "ai.onnx" : proto.domain();
    return Invalid(fmt::format("domain {} is not imported", PrintString(shown)));
  }
  if (const Function* function = FunctionOf(proto, scope)) return Expand(*function, proto, scope);
  return PlainNode(proto, scope);
}

Result<ValueId> Builder::NewOutput(Scope& scope, const std::string& name) {
  Graph& graph = scope.draft->graph;
  const auto known = scope.names.find(name);
  // The output of a function body may be a value of the caller that waits for its producer.
  if (scope.bound && known != scope.names.end() && Waits(*scope.draft, known->second))
    return known->second;
  const ValueId id(graph.values.size());
  WEFT_TRY(Define(scope, name, id));
  WEFT_TRY(std::string unique, NewName(scope, name));
  AddComputed(graph, std::move(unique));
  return id;
}

Status Builder::PlainNode(onnx::NodeProto& proto, Scope& scope) {
  const std::string domain = DomainOf(proto.domain());
  const auto import = scope.opsets->find(domain);
  if (domain.find(':') != std::string::npos)  // which ends it where operators are named
    return Invalid(fmt::format("domain {} holds a colon", PrintString(domain)));
  WEFT_TRY(Charge(scope, sizeof(Node) + domain.size() + proto.op_type().size() +
                             proto.name().size() + sizeof(ValueId) * proto.input().size()));
  Node node{.domain = domain, .op_name = proto.op_type(), .name = proto.name()};
  const Schema* schema = domain.empty() ? FindSchema(proto.op_type(), import->second) : nullptr;
  if (domain.empty() && !schema && FindSchema(proto.op_type()) &&
      !FindExperimental(proto.op_type(), import->second)) {
    return Invalid(fmt::format("operator {} is not in opset {}", proto.op_type(), import->second));
  }
  if (schema && schema->deprecated &&
      FindSchema(proto.op_type())->deprecated) {  // not merely replaced later
    return Invalid(
        fmt::format("operator {} is gone since opset {}", proto.op_type(), schema->since));
  }
  for (const std::string& name : proto.input()) {
    ValueId id;
    if (!name.empty()) {
      WEFT_TRY(id, Resolve(scope, name));
    }
    node.inputs.push_back(id);
  }
  if (const auto op = ParseOp(domain, proto.op_type()); op && schema) node.op = *op;
  WEFT_TRY(Attributes(proto, node, scope));
  node.outputs.assign(static_cast<size_t>(proto.output_size()), ValueId());
  const bool constant = schema && proto.op_type() == "Constant";
  if (schema && !constant) WEFT_TRY(CheckAgainst(*schema, node));
  if (node.outputs.empty()) return Invalid("found 0 outputs, expected 1 at least");
  if (constant) return ConstantNode(node, proto, scope);
  std::unordered_set<ValueId> given;
  for (int i = 0; i < proto.output_size(); ++i) {
    const std::string& name = proto.output(i);
    if (name.empty()) continue;
    WEFT_TRY(const ValueId id, NewOutput(scope, name));
    if (!given.insert(id).second)
      return Invalid(fmt::format("value {} is defined twice", PrintString(name)));
    node.outputs[static_cast<size_t>(i)] = id;
  }
  // Trailing absent operands say nothing, but that a Loop without one has its condition, and into
  // how many parts a Split goes.
  const size_t least = schema ? static_cast<size_t>(schema->min_inputs) : 0;
  while (node.inputs.size() > least && !node.inputs.back().valid()) node.inputs.pop_back();
  const bool counts = schema && !schema->outputs.empty() && schema->outputs.back().variadic;
  while (!counts && node.outputs.size() > 1 && !node.outputs.back().valid())
    node.outputs.pop_back();
  return Append(std::move(node), scope, import->second);
}

Status Builder::Append(Node node, Scope& scope, int64_t opset) {
  if (const Expander expand = FindExpansion(node.domain, node.op_name, opset)) {
    if (node.domain.empty() && FindRandom(node.op_name)) SetAttribute(node, "stream", streams_++);
    Expansion expansion(*scope.draft, std::move(node), opset);
    return expand(expansion);
  }
  if (node.domain.empty()) return AppendUpgraded(*scope.draft, std::move(node), opset);
  AddNode(scope.draft->graph, std::move(node));
  return {};
}

Status Builder::ConstantNode(const Node& node, const onnx::NodeProto& proto, Scope& scope) {
  if (proto.output_size() != 1 || proto.input_size() != 0)
    return Invalid("a Constant has no inputs and one output");
  if (node.attributes.size() != 1)
    return Invalid(fmt::format("found {} attributes, expected 1", node.attributes.size()));
  const Attribute& attribute = node.attributes[0];
  Tensor tensor;
  if (const auto* t = std::get_if<Tensor>(&attribute.value);
      t && (attribute.name == "value" || attribute.name == "sparse_value")) {
    tensor = *t;
  } else if (const auto* i = std::get_if<int64_t>(&attribute.value);
             i && attribute.name == "value_int") {
    tensor = Tensor(Dtype::kI64, {});
    SetElemInt(tensor, 0, *i);
  } else if (const auto* f = std::get_if<float>(&attribute.value);
             f && attribute.name == "value_float") {
    tensor = Tensor(Dtype::kF32, {});
    *tensor.mutable_as<float>() = *f;
  } else if (const auto* s = std::get_if<std::string>(&attribute.value);
             s && attribute.name == "value_string") {
    tensor = Tensor(Dtype::kString, {});
    tensor.strings() = {*s};
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&attribute.value);
             is && attribute.name == "value_ints") {
    tensor = TensorOfInts(*is);
  } else if (const auto* fs = std::get_if<std::vector<float>>(&attribute.value);
             fs && attribute.name == "value_floats") {
    tensor = Tensor(Dtype::kF32, {static_cast<int64_t>(fs->size())});
    if (!fs->empty()) std::ranges::copy(*fs, tensor.mutable_as<float>());
  } else if (const auto* ss = std::get_if<std::vector<std::string>>(&attribute.value);
             ss && attribute.name == "value_strings") {
    tensor = Tensor(Dtype::kString, {static_cast<int64_t>(ss->size())});
    tensor.strings() = *ss;
  } else {
    return Invalid(
        fmt::format("attribute \"{}\" is not a Constant's, or of another type", attribute.name));
  }
  Draft& draft = *scope.draft;
  const std::string& name = proto.output(0);
  const auto known = scope.names.find(name);
  WEFT_TRY(std::string unique, NewName(scope, name));
  if (scope.bound && known != scope.names.end() && known->second.valid()) {  // a function's output
    const ValueId id = AddConstant(draft.graph, std::move(unique), std::move(tensor));
    Node identity{
        .op = Op::kIdentity, .op_name = "Identity", .inputs = {id}, .outputs = {known->second}};
    return Append(std::move(identity), scope, kNewestOpset);
  }
  WEFT_TRY(Define(scope, name, ValueId(draft.graph.values.size())));
  AddConstant(draft.graph, std::move(unique), std::move(tensor));
  return {};
}

Status Builder::Outputs(const onnx::GraphProto& proto, Scope& scope) {
  Draft& draft = *scope.draft;
  std::unordered_set<std::string> seen;
  for (const auto& info : proto.output()) {
    const std::string where = fmt::format("output {}", PrintString(info.name()));
    const bool inner = scope.outer != nullptr, again = !seen.insert(info.name()).second;
    if (again && !inner) return Invalid("the output is given twice").At(where);
    auto id = Resolve(scope, info.name());
    if (!id.ok()) return std::move(id.status()).At(where);
    const Value& value = draft.graph[*id];
    const bool passed =
        again || value.kind == ValueKind::kCaptured || (inner && value.kind == ValueKind::kInput);
    if (passed) {  // of a body: a value of its own, which may live in memory of its own
      const ValueId copy =
          AddNode(draft.graph, Op::kIdentity, {*id}, draft.names.Fresh(value.name + "_out"));
      draft.graph.outputs.push_back(copy);
    } else {
      draft.graph.outputs.push_back(*id);
    }
  }
  return {};
}

}  // namespace weft::graph
