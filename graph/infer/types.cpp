#include "graph/infer/types.h"

#include <fmt/format.h>

#include <bit>

#include "graph/widen.h"

namespace weft::graph::infer {
namespace {

// The type that some input gives to a variable.
std::optional<Dtype> TypeOfVariable(Context& c, const Schema& schema, std::string_view variable) {
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const SchemaOperand* operand = schema.Input(i);
    if (operand && operand->variable == variable && !operand->mixed && c.Type(i)) return c.Type(i);
  }
  return std::nullopt;
}

// Products of bfloat16 may say that their sums stay float32, and with them all but the factors.
bool KeepsSums(const Context& c) { return FindAttribute(c.node, kSumType) != nullptr; }

Status CheckKeptSums(Context& c) {
  const bool multiplies =
      c.node.op == Op::kConv || c.node.op == Op::kMatMul || c.node.op == Op::kGemm;
  if (!multiplies || c.Int(kSumType, 0) != DtypeToOnnx(Dtype::kF32))
    return Invalid(fmt::format("attribute \"{}\" is for products, and says float32", kSumType));
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const Dtype wanted = i < 2 ? Dtype::kBF16 : Dtype::kF32;
    if (c.Type(i).value_or(wanted) != wanted)
      return Invalid(fmt::format("input {} is {}, expected {} beside \"{}\"", i,
                                 DtypeName(*c.Type(i)), DtypeName(wanted), kSumType));
  }
  return {};
}

}  // namespace

Status CheckTypes(Context& c, const Schema& schema) {
  if (KeepsSums(c)) return CheckKeptSums(c);
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const SchemaOperand* operand = schema.Input(i);
    const auto dtype = c.Type(i);
    if (!operand || !dtype) continue;
    if (!(operand->dtypes & SetOf(*dtype))) {
      return Invalid(fmt::format("input {} ({}) is {}, expected {}", i, operand->name,
                                 DtypeName(*dtype), PrintDtypes(operand->dtypes)));
    }
    if (operand->variable.empty() || operand->mixed) continue;
    const auto first = TypeOfVariable(c, schema, operand->variable);
    if (first != dtype) {
      return Invalid(fmt::format("input {} ({}) is {}, expected {} as in the operands before it", i,
                                 operand->name, DtypeName(*dtype), DtypeName(*first)));
    }
  }
  return {};
}

Status SetTypes(Context& c, const Schema& schema) {
  if (KeepsSums(c)) {
    c.OutType(0, Dtype::kF32);
    return {};
  }
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const SchemaOperand* operand = schema.Output(i);
    if (!operand || !c.node.outputs[i].valid() || operand->mixed) continue;
    if (operand->variable.empty() || std::has_single_bit(operand->dtypes)) {
      if (!std::has_single_bit(operand->dtypes) || (operand->dtypes & kOtherTypes)) continue;
      c.OutType(i, static_cast<Dtype>(std::countr_zero(operand->dtypes)));
    } else if (const auto dtype = TypeOfVariable(c, schema, operand->variable)) {
      c.OutType(i, *dtype);
    }
  }
  return {};
}

Status CheckSizes(Context& c) {
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const Extents* extents = c.OutShape(i);
    if (!extents) continue;
    if (extents->size() > 64)
      return Limit(fmt::format("output {} has rank {}, the limit is 64", i, extents->size()));
    Shape shape;
    for (const Extent& extent : *extents) {
      if (extent.IsConstant()) shape.push_back(extent.value());
    }
    const auto elems = CountElems(shape);
    int64_t bytes = 0;
    if (!elems.ok() || __builtin_mul_overflow(*elems, int64_t{8}, &bytes)) {
      return Limit(
          fmt::format("output {} has the shape {}, too large to address", i, c.Text(*extents)));
    }
  }
  return {};
}

}  // namespace weft::graph::infer
