// What ONNX says of each operator: operands, element types and attributes, for every opset that the
// importer takes. The table graph/schema.def is made from the onnx package by a script.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

// A set of element types, one bit each; bit 31 stands for all that weft has no name for (sequences,
// optionals).
using DtypeSet = uint32_t;
inline constexpr DtypeSet kOtherTypes = 1u << 31;
inline DtypeSet SetOf(Dtype dtype) { return 1u << static_cast<uint32_t>(dtype); }
std::string PrintDtypes(DtypeSet set);  // "f16, f32"

struct SchemaOperand {
  std::string_view name;
  std::string_view variable;  // operands of one variable have one type; empty: a fixed type
  DtypeSet dtypes = 0;
  bool optional = false, variadic = false, mixed = false;  // mixed: a variadic of unlike types
};

struct SchemaAttribute {
  std::string_view name;
  char kind = 'i';  // i f s t g: one; I F S G: a list; y p: never in a Graph
  bool required = false;
};

struct Schema {
  std::string_view name;
  int64_t since = 1;
  bool deprecated = false;
  int32_t min_inputs = 0, max_inputs = 0, min_outputs = 0, max_outputs = 0;  // -1: no limit
  std::vector<SchemaOperand> inputs, outputs;
  std::vector<SchemaAttribute> attributes;

  // The operand at position i; a variadic one, which is the last, stands for all that follow.
  const SchemaOperand* Input(size_t i) const;
  const SchemaOperand* Output(size_t i) const;
};

// The schema of ai.onnx's `name` that holds in `opset`, or null.
const Schema* FindSchema(std::string_view name, int64_t opset = kNewestOpset);

// A schema in the manner of schema.def, whose lists reach at least to the last operand required.
Schema ParseSchema(std::string_view inputs, std::string_view outputs, std::string_view types,
                   std::string_view attributes);

// Operand counts, required operands, and attributes: known, of the right kind, present if required.
Status CheckAgainst(const Schema& schema, const Node& node);

}  // namespace weft::graph
