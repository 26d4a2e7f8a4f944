#include "graph/onnx/expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace weft::graph {

const Tensor* Expansion::ConstantIn(size_t i) const { return draft_.ConstantOf(In(i)); }

Status Expansion::Counts(size_t low, size_t high, size_t outputs) const {
  if (node_.inputs.size() > high)
    return Invalid(fmt::format("found {} inputs, expected at most {}", node_.inputs.size(), high));
  for (size_t i = 0; i < low; ++i) {
    if (!Has(i)) return Invalid(fmt::format("input {} is absent", i));
  }
  if (node_.outputs.empty() || node_.outputs.size() > outputs)
    return Invalid(
        fmt::format("found {} outputs, expected 1 to {}", node_.outputs.size(), outputs));
  return {};
}

void Expansion::DropUnused(std::initializer_list<std::string_view> features) {
  std::erase_if(node_.attributes, [&](const Attribute& a) {
    const auto* number = std::get_if<int64_t>(&a.value);
    const auto* word = std::get_if<std::string>(&a.value);
    const bool is_off = number ? *number == 0 : word && *word == "NONE";
    return is_off && std::ranges::find(features, a.name) != features.end();
  });
}

Status Expansion::Only(std::initializer_list<std::string_view> attributes) const {
  for (const Attribute& a : node_.attributes) {
    if (std::ranges::find(attributes, a.name) == attributes.end())
      return Unsupported(fmt::format("attribute {} is not supported", PrintString(a.name)));
  }
  return {};
}

Status Expansion::Obeys(std::string_view inputs, std::string_view outputs, std::string_view types,
                        std::string_view attributes) {
  const Schema schema = ParseSchema(inputs, outputs, types, attributes);
  WEFT_TRY(CheckAgainst(schema, node_));
  std::map<std::string_view, Dtype> bound;  // by variable
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    if (!Has(i)) continue;
    const auto dtype = Known(In(i)).dtype;
    if (!dtype) continue;
    const SchemaOperand& operand = *schema.Input(i);
    if ((operand.dtypes & SetOf(*dtype)) == 0)
      return Invalid(fmt::format("input {} ({}) is {}, expected {}", i, operand.name,
                                 DtypeName(*dtype), PrintDtypes(operand.dtypes)));
    if (operand.variable.empty() || operand.mixed) continue;
    const auto [known, fresh] = bound.emplace(operand.variable, *dtype);
    if (known->second != *dtype)
      return Invalid(fmt::format("input {} ({}) is {}, expected {} as before", i, operand.name,
                                 DtypeName(*dtype), DtypeName(known->second)));
  }
  return {};
}

Status Expansion::Absent(size_t input, std::string_view what) const {
  if (!Has(input)) return {};
  return Unsupported(fmt::format("input {}, {}, is not supported", input, what));
}

Status Expansion::Unused(size_t output, std::string_view what) const {
  if (!HasOut(output)) return {};
  return Unsupported(fmt::format("output {}, {}, is not supported", output, what));
}

std::string Expansion::Near(std::string_view what) const {
  for (ValueId id : node_.outputs) {
    if (id.valid()) return fmt::format("{}_{}", draft_.graph[id].name, what);
  }
  return std::string(what);
}

Result<std::vector<ValueId>> Expansion::MakeAll(Op op, std::vector<ValueId> inputs, size_t count,
                                                std::string_view what,
                                                std::vector<Attribute> attributes) {
  std::vector<ValueId> made;
  for (size_t i = 0; i < count; ++i)
    made.push_back(AddComputed(draft_.graph, draft_.names.Fresh(Near(what))));
  WEFT_TRY(FinishAll(op, std::move(inputs), made, std::move(attributes)));
  return made;
}

Result<ValueId> Expansion::Make(Op op, std::vector<ValueId> inputs, std::string_view what,
                                std::vector<Attribute> attributes) {
  WEFT_TRY(const auto made, MakeAll(op, std::move(inputs), 1, what, std::move(attributes)));
  return made.front();
}

Status Expansion::Finish(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes,
                         size_t i) {
  return FinishAll(op, std::move(inputs), {node_.outputs[i]}, std::move(attributes));
}

Status Expansion::FinishAll(Op op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                            std::vector<Attribute> attributes) {
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
  while (outputs.size() > 1 && !outputs.back().valid()) outputs.pop_back();
  Node node{.op = op,
            .op_name = std::string(OpName(op)),
            .name = node_.name,
            .inputs = std::move(inputs),
            .outputs = std::move(outputs)};
  for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
  return AppendUpgraded(draft_, std::move(node), kNewestOpset);
}

ValueId Expansion::Constant(std::string_view what, Tensor tensor) {
  return AddConstant(draft_.graph, draft_.names.Fresh(Near(what)), std::move(tensor));
}

ValueId Expansion::Ints(std::string_view what, std::vector<int64_t> list) {
  return Constant(what, TensorOfInts(list));
}

ValueId Expansion::Int(std::string_view what, int64_t value) {
  Tensor tensor(Dtype::kI64, {});
  SetElemInt(tensor, 0, value);
  return Constant(what, std::move(tensor));
}

Result<ValueId> Expansion::Number(std::string_view what, double value, ValueId like) {
  Tensor tensor(Dtype::kF32, {});
  SetElem(tensor, 0, value);
  return Make(Op::kCastLike, {Constant(what, std::move(tensor)), like}, what);
}

// Nodes that came before the first question are inferred then; AppendUpgraded does the later ones.
std::optional<std::vector<int64_t>> Expansion::ConstantInts(size_t i) const {
  const Tensor* tensor = ConstantIn(i);
  return tensor ? IntsOf(*tensor) : std::nullopt;
}

const Value& Expansion::Known(ValueId id) { return draft_.Known(id); }

std::optional<size_t> Expansion::RankOf(ValueId id) {
  const Value& value = Known(id);
  return value.shape ? std::optional(value.shape->size()) : std::nullopt;
}

ValueId Formula::Do(Op op, std::vector<ValueId> inputs, std::vector<Attribute> attributes) {
  if (!status_.ok()) return {};
  auto made = e_.Make(op, std::move(inputs), "part", std::move(attributes));
  if (made.ok()) return *made;
  status_ = std::move(made.status());
  return {};
}

ValueId Formula::Cast(ValueId a, Dtype to) {
  return Do(Op::kCast, {a}, {{"to", int64_t{DtypeToOnnx(to)}}});
}

ValueId Formula::Number(double value, ValueId like) {
  return Do(Op::kCastLike, {e_.Constant("number", TensorOfScalar(Dtype::kF32, value)), like});
}

Status Formula::Finish(ValueId value, size_t i) {
  if (!status_.ok() || !e_.HasOut(i)) return status_;
  return e_.Finish(Op::kIdentity, {value}, {}, i);
}

Expander FindExpansion(std::string_view domain, std::string_view op, int64_t opset) {
  // onnxruntime's own writers leave this one without a domain.
  if (domain == "com.microsoft" || op == "SimplifiedLayerNormalization") return FindContrib(op);
  if (domain.empty()) {
    if (const Expander expand = FindExperimental(op, opset)) return expand;
    return op == "TfIdfVectorizer" ? ExpandTfIdf : FindRandom(op);
  }
  if (domain == "ai.onnx.ml") return FindMl(op);
  if (domain == "ai.onnx.preview") return FindPreview(op);
  if (domain == "ai.onnx.preview.training") return FindTraining(op);
  return nullptr;
}

}  // namespace weft::graph
