#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/onnx/builder.h"
#include "graph/onnx/tensors.h"
#include "graph/widen.h"

namespace weft::graph {
namespace {

using onnx::AttributeProto;

// Files of IR 1 and some writers leave the type out; then the one field that is set tells.
AttributeProto::AttributeType TypeOf(const AttributeProto& proto) {
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.has_t()) return AttributeProto::TENSOR;
  if (proto.has_g()) return AttributeProto::GRAPH;
  if (proto.has_sparse_tensor()) return AttributeProto::SPARSE_TENSOR;
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

// Whether a field holds something that the type does not ask for. Some writers set f and i to zero
// beside the field that counts.
bool HoldsOther(const AttributeProto& p, AttributeProto::AttributeType type) {
  return (p.f() != 0 && type != AttributeProto::FLOAT) ||
         (p.i() != 0 && type != AttributeProto::INT) ||
         (!p.s().empty() && type != AttributeProto::STRING) ||
         (p.has_t() && type != AttributeProto::TENSOR) ||
         (p.has_g() && type != AttributeProto::GRAPH) ||
         (p.has_sparse_tensor() && type != AttributeProto::SPARSE_TENSOR) ||
         (p.floats_size() > 0 && type != AttributeProto::FLOATS) ||
         (p.ints_size() > 0 && type != AttributeProto::INTS) ||
         (p.strings_size() > 0 && type != AttributeProto::STRINGS);
}

AttributeProto::AttributeType TypeOf(const AttributeValue& value) {
  constexpr AttributeProto::AttributeType kTypes[] = {
      AttributeProto::INT,    AttributeProto::FLOAT,  AttributeProto::STRING,
      AttributeProto::INTS,   AttributeProto::FLOATS, AttributeProto::STRINGS,
      AttributeProto::TENSOR, AttributeProto::GRAPH};
  static_assert(std::size(kTypes) == std::variant_size_v<AttributeValue>);
  return kTypes[value.index()];
}

size_t BytesOf(const std::vector<std::string>& strings) {
  size_t bytes = sizeof(std::string) * strings.size();
  for (const std::string& s : strings) bytes += s.size();
  return bytes;
}

}  // namespace

size_t BytesOf(const AttributeValue& value) {
  size_t bytes = sizeof(Attribute);
  if (const auto* s = std::get_if<std::string>(&value)) bytes += s->size();
  if (const auto* is = std::get_if<std::vector<int64_t>>(&value))
    bytes += sizeof(int64_t) * is->size();
  if (const auto* fs = std::get_if<std::vector<float>>(&value)) bytes += sizeof(float) * fs->size();
  if (const auto* ss = std::get_if<std::vector<std::string>>(&value)) bytes += BytesOf(*ss);
  if (const auto* t = std::get_if<Tensor>(&value)) bytes += BytesOf(t->strings());
  return bytes;
}

Status Builder::Attributes(onnx::NodeProto& proto, Node& node, Scope& scope) {
  std::unordered_set<std::string_view> seen;
  for (AttributeProto& attribute : *proto.mutable_attribute()) {
    const std::string& name = attribute.name();
    if (name.empty()) return Invalid("an attribute has no name");
    if (!seen.insert(name).second)
      return Invalid(fmt::format("attribute {} is given twice", PrintString(name)));
    const std::string& op = proto.op_type();
    if (name == kSumType && (op == "Conv" || op == "MatMul" || op == "Gemm"))  // no file says that
      return Invalid(fmt::format("unknown attribute {}", PrintString(name)));
    const auto in_attribute = [&](Status status) {
      return std::move(status).Because(fmt::format("in attribute {}", PrintString(name)));
    };
    if (!attribute.ref_attr_name().empty()) {
      auto referred = Referred(attribute, scope);
      if (!referred.ok()) return in_attribute(std::move(referred.status()));
      if (*referred == nullptr) continue;  // left out by the call: left out here
      WEFT_TRY(Charge(scope, name.size() + BytesOf(**referred)));
      if (const auto* given = std::get_if<std::shared_ptr<Graph>>(*referred))
        WEFT_TRY(CarryIn(scope, **given));
      node.attributes.push_back({name, **referred});
      continue;
    }
    // The type of an empty optional or sequence says nothing of what may be done with it.
    if (TypeOf(attribute) == AttributeProto::TYPE_PROTO && proto.op_type() == "Optional") continue;
    const bool is_sparse = TypeOf(attribute) == AttributeProto::SPARSE_TENSOR;
    if (proto.op_type() == "Constant" && is_sparse != (name == "sparse_value"))
      return in_attribute(Invalid(is_sparse ? "it is a sparse tensor" : "it is no sparse tensor"));
    auto value = OneAttribute(attribute, scope);
    if (!value.ok()) return in_attribute(std::move(value.status()));
    WEFT_TRY(Charge(scope, name.size() + BytesOf(*value)));
    node.attributes.push_back({name, *std::move(value)});
  }
  std::ranges::sort(node.attributes, {}, &Attribute::name);
  return {};
}

Result<const AttributeValue*> Builder::Referred(const AttributeProto& proto, const Scope& scope) {
  const std::string& name = proto.ref_attr_name();
  if (!scope.function) return Invalid("it refers to a function's attribute outside of one");
  if (HoldsOther(proto, AttributeProto::UNDEFINED))
    return Invalid(fmt::format("it refers to {} and has a value of its own", PrintString(name)));
  if (!scope.function->attributes.contains(name))
    return Invalid(fmt::format("it refers to {}, which function {} does not declare",
                               PrintString(name), PrintString(scope.function->proto->name())));
  const auto found = scope.bound->find(name);
  if (found == scope.bound->end()) return nullptr;
  const auto type = TypeOf(found->second);
  if (proto.type() != AttributeProto::UNDEFINED && proto.type() != type) {
    return Invalid(fmt::format("it refers to {}, which is {}, expected {}", PrintString(name),
                               AttributeProto::AttributeType_Name(type),
                               AttributeProto::AttributeType_Name(proto.type())));
  }
  return &found->second;
}

Result<Tensor> Builder::TensorAt(const onnx::TensorProto& proto, const Scope& scope) {
  if (!scope.function) return TensorOf(proto, files_);
  const auto found = shared_.find(&proto);
  if (found != shared_.end()) return found->second;
  WEFT_TRY(Tensor tensor, TensorOf(proto, files_));
  return shared_.emplace(&proto, std::move(tensor)).first->second;
}

Result<Tensor> Builder::DenseOf(const onnx::SparseTensorProto& proto) {
  WEFT_TRY(Tensor tensor, TensorOf(proto, files_, limits_.max_dense - dense_));
  const bool is_text = tensor.dtype() == Dtype::kString;
  dense_ += is_text ? tensor.elems() * int64_t{sizeof(std::string)} : tensor.bytes();
  return tensor;
}

Result<AttributeValue> Builder::OneAttribute(AttributeProto& proto, Scope& scope) {
  const auto type = TypeOf(proto);
  if (HoldsOther(proto, type)) return Invalid("the attribute holds more than its type says");
  switch (type) {
    case AttributeProto::FLOAT:
      return AttributeValue(proto.f());
    case AttributeProto::INT:
      return AttributeValue(proto.i());
    case AttributeProto::STRING:
      return AttributeValue(proto.s());
    case AttributeProto::FLOATS:
      return AttributeValue(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case AttributeProto::INTS:
      return AttributeValue(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case AttributeProto::STRINGS:
      return AttributeValue(
          std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case AttributeProto::TENSOR: {
      if (!proto.has_t()) return Invalid("the tensor is missing");
      WEFT_TRY(auto tensor, TensorAt(proto.t(), scope));
      return AttributeValue(std::move(tensor));
    }
    case AttributeProto::SPARSE_TENSOR: {
      WEFT_TRY(auto tensor, DenseOf(proto.sparse_tensor()));
      return AttributeValue(std::move(tensor));
    }
    case AttributeProto::GRAPH: {
      if (!proto.has_g()) return Invalid("the graph is missing");
      auto graph = std::make_shared<Graph>();
      graph->name = proto.g().name();
      Draft draft(*graph, scope.draft->HasTypes() ? kOldestOpset : kNewestOpset, scope.draft);
      Scope inner{.draft = &draft,
                  .outer = &scope,
                  .opsets = scope.opsets,
                  .prefix = scope.prefix,
                  .function = scope.function,
                  .bound = scope.bound,
                  .depth = scope.depth + 1};
      WEFT_TRY(GraphBody(*proto.mutable_g(), inner));
      draft.ForgetTypes();
      return AttributeValue(std::move(graph));
    }
    case AttributeProto::UNDEFINED:
      return Invalid("the attribute has no type");
    default:
      if (!AttributeProto::AttributeType_IsValid(type))
        return Invalid(fmt::format("unknown attribute type {}", static_cast<int>(type)));
      return Unsupported(fmt::format("attributes of type {} are not supported",
                                     AttributeProto::AttributeType_Name(type)));
  }
}

}  // namespace weft::graph
