// Scalar operations, one by one, as base/scalar.def says.
#include <fmt/format.h>

#include "base/check.h"
#include "base/nibbles.h"
#include "codegen/cuda/value.h"

namespace weft::codegen::cuda {
namespace {

std::string Call(std::string_view function, std::span<const std::string> args) {
  return fmt::format("{}({})", function, fmt::join(args, ", "));
}

std::string Infix(std::string_view op, std::span<const std::string> args) {
  return fmt::format("({} {} {})", args[0], op, args[1]);
}

std::string RoundTo16(Helpers& helpers, Dtype dtype, const std::string& value) {
  return fmt::format(
      "{}({})", helpers.Use(dtype == Dtype::kF16 ? "weft_round_f16" : "weft_round_bf16"), value);
}

// Min and max of each kind keep a NaN's or a zero's place among the operands, so they are ours.
std::string_view MinMaxHelper(ScalarOp op) {
  switch (op) {
    case ScalarOp::kMin:
      return "weft_min";
    case ScalarOp::kMax:
      return "weft_max";
    case ScalarOp::kFMin:
      return "weft_fmin";
    default:
      return "weft_fmax";
  }
}

std::string FloatOp(Helpers& helpers, ScalarOp op, Dtype dtype, std::span<const std::string> args) {
  const std::string_view f = dtype == Dtype::kF64 ? "" : "f";
  const auto named = [&](std::string_view name) {
    return Call(fmt::format("{}{}", name, f), args);
  };
  std::string text;
  switch (op) {  // the first group gives a value that 16 bits can hold if they held the operands
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
      return Call(helpers.Use(MinMaxHelper(op)), args);
    case ScalarOp::kNeg:
      return fmt::format("(-{})", args[0]);
    case ScalarOp::kAbs:
      return named("fabs");
    case ScalarOp::kFloor:
      return named("floor");
    case ScalarOp::kCeil:
      return named("ceil");
    case ScalarOp::kTrunc:
      return named("trunc");
    case ScalarOp::kRound:
      return named("rint");
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
      text = Infix(ScalarName(op), args);
      break;
    case ScalarOp::kTruncDiv:
      text = fmt::format("trunc{}({})", f, Infix("/", args));
      break;
    case ScalarOp::kRem:
      text = named("fmod");
      break;
    case ScalarOp::kMod:
      text = fmt::format("{}({}, {})", helpers.Use("weft_float_mod"), named("fmod"), args[1]);
      break;
    case ScalarOp::kSqrt:
      text = named("sqrt");
      break;
    case ScalarOp::kFma:
      text = named("fma");
      break;
    case ScalarOp::kLdexp:
      return Call(helpers.Use(dtype == Dtype::kF64 ? "weft_ldexp" : "weft_ldexpf"), args);
    default:
      WEFT_UNREACHABLE();
  }
  return IsHalf(dtype) ? RoundTo16(helpers, dtype, text) : text;
}

std::string IntOp(Helpers& helpers, ScalarOp op, Dtype dtype, std::span<const std::string> args) {
  const std::string_view type = RegisterType(dtype), wrap = WrapType(dtype);
  const auto wrapped = [&](std::string_view symbol) {
    return fmt::format("({})(({}){} {} ({}){})", type, wrap, args[0], symbol, wrap, args[1]);
  };
  const auto helper = [&](std::string_view name) {
    return fmt::format("{}<{}>({})", helpers.Use(name), type, fmt::join(args, ", "));
  };
  const auto paren = [](const std::string& text) { return "(" + text + ")"; };
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
      return paren(wrapped(ScalarName(op)));
    case ScalarOp::kFma:
      return fmt::format("(({})(({}){} * ({}){} + ({}){}))", type, wrap, args[0], wrap, args[1],
                         wrap, args[2]);
    case ScalarOp::kDiv:
      return helper("weft_div");
    case ScalarOp::kMod:
      return helper("weft_mod");
    case ScalarOp::kTruncDiv:
      return helper("weft_trunc_div");
    case ScalarOp::kRem:
      return helper("weft_rem");
    case ScalarOp::kMin:
    case ScalarOp::kFMin:
      return fmt::format("({} < {} ? {} : {})", args[0], args[1], args[0], args[1]);
    case ScalarOp::kMax:
    case ScalarOp::kFMax:
      return fmt::format("({} > {} ? {} : {})", args[0], args[1], args[0], args[1]);
    case ScalarOp::kNeg:
      return helper("weft_neg");
    case ScalarOp::kAbs:
      if (KindOf(dtype) != DtypeKind::kSigned) return args[0];
      return fmt::format("({} < 0 ? {} : {})", args[0], helper("weft_neg"), args[0]);
    case ScalarOp::kBitAnd:
      return fmt::format("(({})({} & {}))", type, args[0], args[1]);
    case ScalarOp::kBitOr:
      return fmt::format("(({})({} | {}))", type, args[0], args[1]);
    case ScalarOp::kBitXor:
      return fmt::format("(({})({} ^ {}))", type, args[0], args[1]);
    case ScalarOp::kBitNot:
      return fmt::format("(({})~{})", type, args[0]);
    case ScalarOp::kShl:
      return helper("weft_shl");
    case ScalarOp::kShr:
      return helper("weft_shr");
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRound:
      return args[0];
    default:
      WEFT_UNREACHABLE();
  }
}

std::string BitcastText(Helpers& helpers, Dtype from, Dtype to, std::string value) {
  if (from == Dtype::kF16) value = fmt::format("{}({})", helpers.Use("weft_to_f16"), value);
  if (from == Dtype::kBF16) value = fmt::format("{}({})", helpers.Use("weft_to_bf16"), value);
  if (to == Dtype::kF16) return fmt::format("{}({})", helpers.Use("weft_from_f16"), value);
  if (to == Dtype::kBF16) return fmt::format("{}({})", helpers.Use("weft_from_bf16"), value);
  value = fmt::format("{}<{}>({})", helpers.Use("weft_bits"), RegisterType(to), value);
  return SharesBytes(to) ? WrapFour(to, value) : value;
}

}  // namespace

std::string WrapFour(Dtype dtype, const std::string& value) {
  if (dtype == Dtype::kU4) return fmt::format("((unsigned char)({} & 15))", value);
  return fmt::format("((signed char)((({} & 15) ^ 8) - 8))", value);
}

std::string CastText(Helpers& helpers, Dtype from, Dtype to, const std::string& value) {
  if (from == to) return value;
  const auto plain = [&](const std::string& v) {
    return fmt::format("(({}){})", RegisterType(to), v);
  };
  if (to == Dtype::kBool) return fmt::format("({} != 0)", value);
  if (IsFloat(from) && SharesBytes(to)) {
    const std::string byte = CastText(helpers, from, WidenedType(to), value);
    const std::string_view type = RegisterType(to);
    return to == Dtype::kU4 ? fmt::format("min({}, ({})15)", byte, type)
                            : fmt::format("max(min({}, ({})7), ({})-8)", byte, type, type);
  }
  if (SharesBytes(to)) return WrapFour(to, value);
  if (IsFloat(from) && !IsFloat(to)) {
    return fmt::format("{}<{}>({})", helpers.Use("weft_to_int"), RegisterType(to), value);
  }
  if (!IsHalf(to)) return plain(value);
  // Into 16 bits with one rounding: from f64 and wide integers by way of rounding to odd.
  const bool exact = SizeBytes(from) <= 2 || from == Dtype::kF32;
  if (exact) return RoundTo16(helpers, to, fmt::format("(float){}", value));
  return RoundTo16(helpers, to,
                   fmt::format("{}((double){})", helpers.Use("weft_round_to_odd"), value));
}

std::string OpText(Helpers& helpers, ScalarOp op, Dtype operand, Dtype result,
                   std::span<const std::string> args) {
  switch (op) {
    case ScalarOp::kSelect:
      return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
    case ScalarOp::kCast:
      return CastText(helpers, operand, result, args[0]);
    case ScalarOp::kBitcast:
      return BitcastText(helpers, operand, result, args[0]);
    case ScalarOp::kIsNan:
      return fmt::format("({} != {})", args[0], args[0]);
    case ScalarOp::kPick:
      return Call(helpers.Use("weft_pick"), args);
    case ScalarOp::kNot:
      return fmt::format("(!{})", args[0]);
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
      return Infix(ScalarName(op), args);
    default:
      break;
  }
  if (IsCompare(op)) return Infix(ScalarName(op), args);
  if (operand == Dtype::kBool) {  // only min and max, which are and and or
    return Infix(op == ScalarOp::kMin ? "&&" : "||", args);
  }
  return IsFloat(operand) ? FloatOp(helpers, op, operand, args) : IntOp(helpers, op, operand, args);
}

}  // namespace weft::codegen::cuda
