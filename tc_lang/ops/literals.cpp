// Literals and small sums as the language writes them.
#include <cmath>

#include "base/text.h"
#include "tc_lang/ops/writer.h"
#include "tc_lang/syntax.h"

namespace weft::tc::ops {

std::string Cast(Dtype dtype, std::string_view expr) {
  if (dtype == Dtype::kBool) return fmt::format("({} != 0)", expr);
  return fmt::format("{}({})", TypeWord(dtype), expr);
}

std::string Cast(Dtype to, Dtype from, std::string expr) {
  return to == from ? std::move(expr) : Cast(to, expr);
}

std::string Lit(Dtype dtype, double value) {
  if (!IsFloat(dtype)) return LitInt(dtype, static_cast<int64_t>(value));
  const auto narrow = static_cast<float>(value);
  const double magnitude = std::fabs(value);
  std::string text;
  if (std::isnan(value))
    text = "nan()";
  else if (std::isinf(value))
    text = "infinity()";
  else
    text = dtype == Dtype::kF64 ? PrintFloat(magnitude) : PrintFloat(std::fabs(narrow));
  if (text.find_first_of(".e(") == std::string::npos) text += ".0";
  const bool negative = std::signbit(value) && !std::isnan(value);
  if (negative) text = "-" + text;
  const bool fits = (dtype == Dtype::kF16 && HalfToFloat(FloatToHalf(narrow)) == narrow) ||
                    (dtype == Dtype::kBF16 && BfloatToFloat(FloatToBfloat(narrow)) == narrow);
  if (dtype == Dtype::kF64 || fits) return Cast(dtype, text);
  return negative ? "(" + text + ")" : text;
}

std::string LitInt(Dtype dtype, int64_t value) {
  if (IsFloat(dtype)) return Lit(dtype, static_cast<double>(value));
  if (dtype == Dtype::kBool) return fmt::format("bool({})", value != 0 ? 1 : 0);
  if (value == INT64_MIN) return "(int64(-9223372036854775807) - 1)";
  if ((dtype == Dtype::kI32 || dtype == Dtype::kI64) && value > INT32_MIN && value <= INT32_MAX) {
    return value < 0 ? fmt::format("({})", value) : std::to_string(value);
  }
  return fmt::format("{}({})", TypeWord(dtype), value);
}

std::string Lowest(Dtype dtype) {
  switch (dtype) {
    case Dtype::kI4:
      return LitInt(dtype, -8);
    case Dtype::kI8:
      return LitInt(dtype, INT8_MIN);
    case Dtype::kI16:
      return LitInt(dtype, INT16_MIN);
    case Dtype::kI32:
      return LitInt(dtype, INT32_MIN);
    case Dtype::kI64:
      return LitInt(dtype, INT64_MIN);
    default:
      return IsFloat(dtype) ? Lit(dtype, -INFINITY) : LitInt(dtype, 0);
  }
}

std::string Highest(Dtype dtype) {
  if (IsFloat(dtype)) return Lit(dtype, INFINITY);
  if (dtype == Dtype::kU64) return "bit_not(uint64(0))";
  const int64_t bits = Bits(dtype) - (KindOf(dtype) == DtypeKind::kSigned ? 1 : 0);
  if (dtype == Dtype::kBool) return LitInt(dtype, 1);
  return LitInt(dtype, bits == 63 ? INT64_MAX : (int64_t{1} << bits) - 1);
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string Sum(const std::vector<std::pair<int64_t, std::string>>& terms, int64_t constant) {
  std::string out;
  const auto add = [&out](int64_t factor, const std::string& text) {
    if (out.empty())
      out = factor < 0 ? "-" + text : text;
    else
      out += (factor < 0 ? " - " : " + ") + text;
  };
  for (const auto& [factor, name] : terms) {
    if (factor == 0) continue;
    const int64_t size = std::abs(factor);
    add(factor, size == 1 ? name : fmt::format("{}*{}", size, name));
  }
  if (constant != 0 || out.empty()) add(constant, std::to_string(std::abs(constant)));
  return out;
}

std::string FromEnd(const std::string& index, int64_t extent) {
  return fmt::format("({0} < 0 && {0} >= {1} ? {0} + {2} : {0})", index, -extent, extent);
}

Subs Concat(Subs a, const Subs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int64_t Product(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (int64_t e : extents) product *= e;
  return product;
}

}  // namespace weft::tc::ops
