// Functions: bodies of nodes that stand for a node. A call is expanded into the calling graph.

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

Status Builder::IndexFunctions() {
  for (auto& function : *model_.mutable_functions()) {
    const std::string where = fmt::format("function {}", PrintString(function.name()));
    if (function.name().empty()) return Invalid("a function has no name");
    if (!functions_
             .emplace(KeyOf(function.domain(), function.name(), function.overload()), &function)
             .second) {
      return Invalid("the function is defined twice").At(where);
    }
    auto opsets = OpsetsOf(function.opset_import());
    if (!opsets.ok()) return std::move(opsets.status()).At(where);
    function_opsets_.emplace(&function, *std::move(opsets));
  }
  return {};
}

onnx::FunctionProto* Builder::FunctionOf(const onnx::NodeProto& proto, const Scope& scope) {
  const auto found = functions_.find(KeyOf(proto.domain(), proto.op_type(), proto.overload()));
  if (found != functions_.end()) return found->second;
  const auto opset = scope.opsets->find("");
  if (!DomainOf(proto.domain()).empty() || opset == scope.opsets->end()) return nullptr;
  const auto builtin = std::ranges::find(kBuiltins, proto.op_type(), &Builtin::name);
  if (builtin == std::end(kBuiltins) || opset->second < builtin->since) return nullptr;
  auto& body = builtin_[proto.op_type()];
  if (!body) {
    body = std::make_unique<onnx::FunctionProto>();
    body->ParseFromString(FromBase64(builtin->body));
    auto opsets = OpsetsOf(body->opset_import());
    if (opsets.ok()) function_opsets_.emplace(body.get(), *std::move(opsets));
  }
  return body.get();
}

Status Builder::Expand(onnx::FunctionProto& function, onnx::NodeProto& call, Scope& scope) {
  if (std::ranges::find(active_, &function) != active_.end()) {
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
    const bool known =
        std::ranges::find(function.attribute(), given.name) != function.attribute().end() ||
        std::ranges::any_of(function.attribute_proto(),
                            [&](const auto& a) { return a.name() == given.name; });
    if (!known)
      return Invalid(fmt::format("function {} has no attribute {}", PrintString(function.name()),
                                 PrintString(given.name)));
    bound.emplace(given.name, std::move(given.value));
  }
  for (auto& otherwise : *function.mutable_attribute_proto()) {
    if (bound.contains(otherwise.name())) continue;
    WEFT_TRY(auto value, OneAttribute(otherwise, scope));
    bound.emplace(otherwise.name(), std::move(value));
  }

  const std::string prefix = fmt::format("{}{}_{}/", scope.prefix, function.name(), ++calls_);
  Scope body{.draft = &draft,
             .opsets = &function_opsets_.at(&function),
             .prefix = prefix,
             .bound = &bound,
             .depth = scope.depth + 1};
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
  active_.push_back(&function);
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
