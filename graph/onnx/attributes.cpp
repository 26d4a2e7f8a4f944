#include <fmt/format.h>

#include "base/text.h"
#include "graph/onnx/builder.h"
#include "graph/onnx/tensors.h"

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
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

// How many fields hold something that the type does not ask for.
bool HoldsOther(const AttributeProto& p, AttributeProto::AttributeType type) {
  return (p.has_f() && type != AttributeProto::FLOAT) ||
         (p.has_i() && type != AttributeProto::INT) ||
         (p.has_s() && type != AttributeProto::STRING) ||
         (p.has_t() && type != AttributeProto::TENSOR) ||
         (p.has_g() && type != AttributeProto::GRAPH) ||
         (p.floats_size() > 0 && type != AttributeProto::FLOATS) ||
         (p.ints_size() > 0 && type != AttributeProto::INTS) ||
         (p.strings_size() > 0 && type != AttributeProto::STRINGS);
}

// Some writers set f and i to zero beside the field that counts.
bool OnlyZeros(const AttributeProto& p) {
  return (!p.has_f() || p.f() == 0) && (!p.has_i() || p.i() == 0) &&
         (!p.has_s() || p.s().empty()) && !p.has_t() && !p.has_g();
}

}  // namespace

Status Builder::Attributes(onnx::NodeProto& proto, Node& node, Scope& scope) {
  for (AttributeProto& attribute : *proto.mutable_attribute()) {
    const std::string& name = attribute.name();
    if (name.empty()) return Invalid("an attribute has no name");
    if (FindAttribute(node, name))
      return Invalid(fmt::format("attribute {} is given twice", PrintString(name)));
    if (!attribute.ref_attr_name().empty()) {
      if (!scope.bound)
        return Invalid(
            fmt::format("attribute {} refers to a function's outside of one", PrintString(name)));
      const auto found = scope.bound->find(attribute.ref_attr_name());
      if (found != scope.bound->end()) SetAttribute(node, name, found->second);
      continue;  // left out by the call: left out here
    }
    // The type of an empty optional or sequence says nothing of what may be done with it.
    if (TypeOf(attribute) == AttributeProto::TYPE_PROTO && proto.op_type() == "Optional") continue;
    auto value = OneAttribute(attribute, scope);
    if (!value.ok())
      return std::move(value.status()).Because(fmt::format("in attribute {}", PrintString(name)));
    SetAttribute(node, name, *std::move(value));
  }
  return {};
}

Result<AttributeValue> Builder::OneAttribute(AttributeProto& proto, Scope& scope) {
  const auto type = TypeOf(proto);
  if (HoldsOther(proto, type) && !OnlyZeros(proto))
    return Invalid("the attribute holds more than its type says");
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
      WEFT_TRY(auto tensor, TensorOf(proto.t(), files_));
      return AttributeValue(std::move(tensor));
    }
    case AttributeProto::GRAPH: {
      if (!proto.has_g()) return Invalid("the graph is missing");
      auto graph = std::make_shared<Graph>();
      graph->name = proto.g().name();
      Draft draft(*graph, scope.draft->types ? kOldestOpset : kNewestOpset);
      Scope inner{.draft = &draft,
                  .outer = &scope,
                  .opsets = scope.opsets,
                  .prefix = scope.prefix,
                  .bound = scope.bound,
                  .depth = scope.depth + 1};
      WEFT_TRY(GraphBody(*proto.mutable_g(), inner));
      if (draft.types) draft.types->Forget();
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
