#include "graph/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/dtypes.h"
#include "graph/widen.h"

namespace weft::graph {
namespace {

struct Row {
  std::string_view name;
  int64_t since;
  bool deprecated;
  int32_t min_inputs, max_inputs, min_outputs, max_outputs;
  std::string_view inputs, outputs, types, attributes;
};

constexpr Row kRows[] = {
#define WEFT_SCHEMA(name, since, deprecated, a, b, c, d, inputs, outputs, types, attributes) \
  {name, since, deprecated, a, b, c, d, inputs, outputs, types, attributes},
#include "graph/schema.def"
#undef WEFT_SCHEMA
};

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

DtypeSet ParseSet(std::string_view text) {
  DtypeSet set = 0;
  for (std::string_view name : SplitAt(text, '|')) {
    if (name == "any") {
      for (Dtype dtype : kDtypes)
        if (!SharesBytes(dtype) && !IsCode(dtype)) set |= SetOf(dtype);
    } else if (auto dtype = ParseDtype(name)) {
      set |= SetOf(*dtype);
    } else {
      set |= kOtherTypes;
    }
  }
  return set;
}

using TypeSets = std::unordered_map<std::string_view, DtypeSet>;

std::vector<SchemaOperand> ParseOperands(std::string_view text, const TypeSets& sets) {
  std::vector<SchemaOperand> operands;
  for (std::string_view part : SplitAt(text, ' ')) {
    SchemaOperand operand;
    const size_t colon = part.find(':');
    std::string_view name = part.substr(0, colon), kind = part.substr(colon + 1);
    operand.optional = name.ends_with('?');
    operand.variadic = name.ends_with('*');
    operand.mixed = kind.ends_with('~');
    operand.name = name.substr(0, name.size() - (operand.optional || operand.variadic));
    if (kind.starts_with('=')) {
      operand.dtypes = ParseSet(kind.substr(1));
    } else {
      operand.variable = kind.substr(0, kind.size() - operand.mixed);
      operand.dtypes = sets.at(operand.variable);
    }
    operands.push_back(operand);
  }
  return operands;
}

Schema ParseRow(const Row& row) {
  Schema schema{row.name,       row.since,       row.deprecated, row.min_inputs,
                row.max_inputs, row.min_outputs, row.max_outputs};
  TypeSets sets;
  for (std::string_view part : SplitAt(row.types, ' ')) {
    const size_t equal = part.find('=');
    sets[part.substr(0, equal)] = ParseSet(part.substr(equal + 1));
  }
  schema.inputs = ParseOperands(row.inputs, sets);
  schema.outputs = ParseOperands(row.outputs, sets);
  for (std::string_view part : SplitAt(row.attributes, ' ')) {
    const size_t colon = part.find(':');
    const bool required = part[colon - 1] == '!';
    schema.attributes.push_back({part.substr(0, colon - required), part.back(), required});
  }
  return schema;
}

using Table = std::unordered_map<std::string_view, std::vector<Schema>>;

const Table& SchemaTable() {
  static const Table* table = [] {
    auto* t = new Table;  // lives as long as the process: views into it are handed out
    for (const Row& row : kRows) (*t)[row.name].push_back(ParseRow(row));  // ascending by `since`
    return t;
  }();
  return *table;
}

const SchemaOperand* OperandAt(const std::vector<SchemaOperand>& operands, size_t i) {
  if (i < operands.size()) return &operands[i];
  return !operands.empty() && operands.back().variadic ? &operands.back() : nullptr;
}

char KindOfAttribute(const AttributeValue& value) { return "ifsIFStg"[value.index()]; }

std::string_view KindText(char kind) {
  switch (kind) {
    case 'i':
      return "an integer";
    case 'f':
      return "a float";
    case 's':
      return "a string";
    case 't':
      return "a tensor";
    case 'g':
      return "a graph";
    case 'I':
      return "integers";
    case 'F':
      return "floats";
    case 'S':
      return "strings";
    default:
      return "something that a graph can't hold";
  }
}

std::string Expected(int32_t min, int32_t max) {
  if (max < 0) return fmt::format("at least {}", min);
  if (min == max) return fmt::format("{}", min);
  return fmt::format("{} to {}", min, max);
}

// An optional operand may be left out by an empty name, a required one may not; a variadic one
// only at the end, where it says nothing.
Status CheckOperands(std::string_view what, std::span<const ValueId> ids, int32_t min, int32_t max,
                     const std::vector<SchemaOperand>& operands) {
  const auto count = static_cast<int64_t>(ids.size());
  if (count < min || (max >= 0 && count > max)) {
    return Invalid(fmt::format("found {} {}s, expected {}", count, what, Expected(min, max)));
  }
  size_t end = ids.size();  // of those that say something
  while (end > 0 && !ids[end - 1].valid()) --end;
  for (size_t i = 0; i < ids.size(); ++i) {
    const SchemaOperand* operand = OperandAt(operands, i);
    const bool may_lack = !operand || operand->optional || (operand->variadic && i >= end);
    if (what == "input" && !ids[i].valid() && !may_lack) {
      return Invalid(fmt::format("required input {} ({}) is absent", i, operand->name));
    }
  }
  return {};
}

// At least, and at most so many.
std::pair<int32_t, int32_t> CountsOf(const std::vector<SchemaOperand>& operands) {
  int32_t least = 0, most = 0;
  for (const SchemaOperand& operand : operands) {
    ++most;
    if (!operand.optional && !operand.variadic) least = most;
  }
  if (!operands.empty() && operands.back().variadic) most = -1;
  return {least, most};
}

}  // namespace

std::string PrintDtypes(DtypeSet set) {
  std::string out;
  auto add = [&](Dtype dtype) {
    if (set & SetOf(dtype)) out += fmt::format("{}{}", out.empty() ? "" : ", ", DtypeName(dtype));
  };
#define WEFT_DTYPE(name, text, bits, kind, onnx) add(Dtype::k##name);
#include "base/dtype.def"
#undef WEFT_DTYPE
  return out;
}

const SchemaOperand* Schema::Input(size_t i) const { return OperandAt(inputs, i); }
const SchemaOperand* Schema::Output(size_t i) const { return OperandAt(outputs, i); }

const Schema* FindSchema(std::string_view name, int64_t opset) {
  const auto found = SchemaTable().find(name);
  if (found == SchemaTable().end()) return nullptr;
  const Schema* best = nullptr;
  for (const Schema& schema : found->second) {
    if (schema.since <= opset) best = &schema;
  }
  return best;
}

Schema ParseSchema(std::string_view inputs, std::string_view outputs, std::string_view types,
                   std::string_view attributes) {
  Schema schema = ParseRow({"", 1, false, 0, 0, 0, 0, inputs, outputs, types, attributes});
  std::tie(schema.min_inputs, schema.max_inputs) = CountsOf(schema.inputs);
  std::tie(schema.min_outputs, schema.max_outputs) = CountsOf(schema.outputs);
  return schema;
}

Status CheckAgainst(const Schema& schema, const Node& node) {
  WEFT_TRY(
      CheckOperands("input", node.inputs, schema.min_inputs, schema.max_inputs, schema.inputs));
  WEFT_TRY(CheckOperands("output", node.outputs, schema.min_outputs, schema.max_outputs,
                         schema.outputs));
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == kSumType) continue;  // of no schema: inference knows
    const auto known = std::ranges::find(schema.attributes, attribute.name, &SchemaAttribute::name);
    if (known == schema.attributes.end()) {
      return Invalid(fmt::format("unknown attribute \"{}\"", attribute.name));
    }
    const char found = KindOfAttribute(attribute.value);
    if (found != known->kind) {
      return Invalid(fmt::format("attribute \"{}\" is {}, expected {}", attribute.name,
                                 KindText(found), KindText(known->kind)));
    }
  }
  for (const SchemaAttribute& attribute : schema.attributes) {
    if (attribute.required && !FindAttribute(node, attribute.name)) {
      return Invalid(fmt::format("required attribute \"{}\" is absent", attribute.name));
    }
  }
  return {};
}

}  // namespace weft::graph
