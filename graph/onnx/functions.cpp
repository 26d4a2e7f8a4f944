// Functions: bodies of nodes that stand for a node. A call is expanded into the calling graph.

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "graph/onnx/builder.h"

namespace weft::graph {
namespace {

struct Builtin {
  std::string_view name;
  int64_t since;
  std::string_view body;  // base64
};

constexpr Builtin kBuiltins[] = {
#define WEFT_FUNCTION(name, since, body) {name, since, body},
#include "graph/onnx/function_bodies.def"
#undef WEFT_FUNCTION
};

std::string FromBase64(std::string_view text) {
  std::string out;
  uint32_t bits = 0, count = 0;
  for (char c : text) {
    const uint32_t digit = c >= 'A' && c <= 'Z'   ? static_cast<uint32_t>(c - 'A')
                           : c >= 'a' && c <= 'z' ? static_cast<uint32_t>(c - 'a') + 26
                           : c >= '0' && c <= '9' ? static_cast<uint32_t>(c - '0') + 52
                           : c == '+'             ? 62
                                                  : 63;
    if (c == '=') break;
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return out;
}

std::string KeyOf(const std::string& domain, const std::string& name, const std::string& overload) {
  return DomainOf(domain) + '\0' + name + '\0' + overload;
}

// What bodies and calls ask a function for, once for all of them.
Result<Function> FunctionFrom(onnx::FunctionProto& proto) {
  Function function{.proto = &proto};
  WEFT_TRY(function.opsets, OpsetsOf(proto.opset_import()));
  std::vector<std::pair<std::string, onnx::AttributeProto*>> declared;
  for (const std::string& name : proto.attribute()) declared.emplace_back(name, nullptr);
  for (auto& otherwise : *proto.mutable_attribute_proto()) {
    if (!otherwise.ref_attr_name().empty())
      return Invalid(fmt::format("the default of attribute {} refers to another attribute",
                                 PrintString(otherwise.name())));
    declared.emplace_back(otherwise.name(), &otherwise);
  }
  for (auto& [name, otherwise] : declared) {
    if (!function.attributes.emplace(name, otherwise).second)
      return Invalid(fmt::format("attribute {} is declared twice", PrintString(name)));
  }
  const auto add = [&](const auto& names) {
    for (const std::string& name : names) function.bytes += sizeof(std::string) + name.size();
  };
  add(proto.input());
  add(proto.output());
  for (const auto& node : proto.node()) add(node.output());
  return function;
}

}  // namespace

Status Builder::IndexFunctions() {
  for (auto& proto : *model_.mutable_functions()) {
    const std::string where = fmt::format("function {}", PrintString(proto.name()));
    if (proto.name().empty()) return Invalid("a function has no name");
    auto function = FunctionFrom(proto);
    if (!function.ok()) return std::move(function.status()).At(where);
    const std::string key = KeyOf(proto.domain(), proto.name(), proto.overload());
    if (!functions_.emplace(key, *std::move(function)).second)
      return Invalid("the function is defined twice").At(where);
  }
  return {};
}

const Function* Builder::FunctionOf(const onnx::NodeProto& proto, const Scope& scope) {
  const auto found = functions_.find(KeyOf(proto.domain(), proto.op_type(), proto.overload()));
  if (found != functions_.end()) return &found->second;
  const auto opset = scope.opsets->find("");
  if (!DomainOf(proto.domain()).empty() || opset == scope.opsets->end()) return nullptr;
  const auto builtin = std::ranges::find(kBuiltins, proto.op_type(), &Builtin::name);
  if (builtin == std::end(kBuiltins) || opset->second < builtin->since) return nullptr;
  if (const auto known = builtin_.find(proto.op_type()); known != builtin_.end())
    return &known->second;
  auto body = std::make_unique<onnx::FunctionProto>();
  body->ParseFromString(FromBase64(builtin->body));
  auto function = FunctionFrom(*body);
  WEFT_CHECK(function.ok(), "{}", function.status().ToString());
  function->own = std::move(body);
  return &builtin_.emplace(proto.op_type(), *std::move(function)).first->second;
}

Status Builder::Defaults(Scope& body, std::map<std::string, AttributeValue>& bound) {
  // A graph may refer to the other attributes.
  for (const bool graphs : {false, true}) {
    for (auto& otherwise : *body.function->proto->mutable_attribute_proto()) {
      if (otherwise.has_g() != graphs || bound.contains(otherwise.name())) continue;
      WEFT_TRY(auto value, OneAttribute(otherwise, body));
      WEFT_TRY(Charge(body, BytesOf(value)));
      bound.emplace(otherwise.name(), std::move(value));
    }
  }
  return {};
}

Status Builder::Expand(const Function& callee, onnx::NodeProto& call, Scope& scope) {
  onnx::FunctionProto& function = *callee.proto;
  if (std::ranges::find(active_, &callee) != active_.end()) {
    return Invalid(fmt::format("function {} calls itself", PrintString(function.name())));
  }
  if (scope.depth >= limits_.max_depth)
    return Limit(fmt::format("functions nest deeper than {}", limits_.max_depth));
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
    return Invalid(fmt::format("found {} inputs and {} outputs, function {} has {} and {}",
                               call.input_size(), call.output_size(), PrintString(function.name()),
                               function.input_size(), function.output_size()));
  }
  Draft& draft = *scope.draft;
  Node attributes;
  WEFT_TRY(Attributes(call, attributes, scope));
  std::map<std::string, AttributeValue> bound;
  for (auto& given : attributes.attributes) {
    if (!callee.attributes.contains(given.name))
      return Invalid(fmt::format("function {} has no attribute {}", PrintString(function.name()),
                                 PrintString(given.name)));
    bound.emplace(given.name, std::move(given.value));
  }

  const std::string prefix = fmt::format("{}{}_{}/", scope.prefix, function.name(), ++calls_);
  Scope body{.draft = &draft,
             .opsets = &callee.opsets,
             .prefix = prefix,
             .function = &callee,
             .bound = &bound,
             .depth = scope.depth + 1};
  WEFT_TRY(Charge(body, callee.bytes + 2 * prefix.size()));
  for (int i = 0; i < function.input_size(); ++i) {
    ValueId id;
    if (i < call.input_size() && !call.input(i).empty()) {
      WEFT_TRY(id, Resolve(scope, call.input(i)));
    }
    if (function.input(i).empty() || !body.names.emplace(function.input(i), id).second) {
      return Invalid(fmt::format("function {} has an input without a name or twice",
                                 PrintString(function.name())));
    }
  }
  WEFT_TRY(Defaults(body, bound));
  // The caller's outputs exist before the body, whose nodes then produce them under their names.
  std::vector<std::pair<std::string, ValueId>> passed;
  std::unordered_set<std::string> outputs;
  for (int i = 0; i < function.output_size(); ++i) {
    const std::string& formal = function.output(i);
    if (!outputs.insert(formal).second)
      return Invalid(fmt::format("function {} has an output twice", PrintString(function.name())));
    if (i >= call.output_size() || call.output(i).empty()) continue;
    WEFT_TRY(const ValueId id, NewOutput(scope, call.output(i)));
    if (body.names.contains(formal)) {
      passed.emplace_back(formal, id);  // an input of the function is its output
    } else {
      body.names.emplace(formal, id);
    }
  }
  active_.push_back(&callee);
  for (const auto& node : function.node())
    body.later.insert(node.output().begin(), node.output().end());
  for (auto& node : *function.mutable_node()) {
    auto status = AnyNode(node, body);
    if (!status.ok())
      return std::move(status).Because(fmt::format("in function {}", PrintString(function.name())));
    for (const std::string& output : node.output()) body.later.erase(output);
  }
  active_.pop_back();
  for (const auto& [formal, id] : passed) {
    const ValueId from = body.names.at(formal);
    if (!from.valid())
      return Invalid(fmt::format("output {} of function {} is an absent input", PrintString(formal),
                                 PrintString(function.name())));
    WEFT_TRY(
        Append(Node{.op = Op::kIdentity, .op_name = "Identity", .inputs = {from}, .outputs = {id}},
               scope, kNewestOpset));
  }
  for (int i = 0; i < function.output_size() && i < call.output_size(); ++i) {
    if (call.output(i).empty()) continue;
    if (!draft.graph[scope.names.at(call.output(i))].producer.valid()) {
      return Invalid(fmt::format("output {} of function {} is produced by nobody",
                                 PrintString(function.output(i)), PrintString(function.name())));
    }
  }
  return {};
}

}  // namespace weft::graph
