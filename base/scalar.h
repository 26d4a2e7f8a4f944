// Operations on scalars and their exact meaning for each element type.
//
// Both interpreters evaluate through EvalScalar, and code generators match it bit for bit on
// primitives. Arithmetic happens in the operand type: f32 rounds after each operation. Integers
// wrap. Nothing traps: division by zero, INT_MIN / -1, shifts and casts all have stated results
// (scalar.def).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace weft {

enum class ScalarOp : uint8_t {
#define WEFT_SCALAR(name, text, arity, kind) k##name,
#include "base/scalar.def"
#undef WEFT_SCALAR
};

std::string_view ScalarName(ScalarOp op);
std::optional<ScalarOp> ParseScalarFunction(std::string_view name);  // those with a word for a name
int32_t ScalarArity(ScalarOp op);
inline constexpr int32_t kMostArity = 17;
bool IsMath(ScalarOp op);     // expanded into primitives before loops are final
bool IsCompare(ScalarOp op);  // gives bool

// A value of any element type up to 64 bits. Floats of 16 bits are held as f32 values that their
// type can represent.
union Scalar {
  double f64;
  float f32;
  int64_t i = 0;  // integers and bool, sign- or zero-extended
};

// operand: the type of the (last) arguments; result: the node's type. For kSelect the first
// argument is bool, for kFmaFlush the first two are bf16. 16-bit floats compute in f32 and round
// once at the end.
Scalar EvalScalar(ScalarOp op, Dtype operand, Dtype result, std::span<const Scalar> args);
Scalar LoadScalar(Dtype dtype, const void* data, int64_t index);
void StoreScalar(Dtype dtype, void* data, int64_t index, Scalar value);
double AsDouble(Dtype dtype, Scalar value);
Scalar ScalarOf(Dtype dtype, double value);      // rounds
Scalar ScalarOfInt(Dtype dtype, int64_t value);  // wraps or rounds

}  // namespace weft
