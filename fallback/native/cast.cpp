// Cast and CastLike between all element types.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/text.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

// Conversions meet in four types, so that there are 13 + 4 * 13 loops instead of 13 * 13.
template <typename T>
using Middle =
    std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>,
                       std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;

bool Numbers(const In& from, const Out& to) {
  constexpr int64_t kChunk = 256;
  bool known = false;
  ByType<true>(from.dtype, [&]<typename F>() {
    std::array<Middle<F>, kChunk> chunk;
    for (int64_t start = 0; start < from.elems || !known; start += kChunk) {
      const int64_t count = std::min(kChunk, from.elems - start);
      for (int64_t i = 0; i < count; ++i)
        chunk[i] = static_cast<Middle<F>>(static_cast<Compute<F>>(from.as<F>()[start + i]));
      known = ByType<true>(to.dtype, [&]<typename T>() {
        for (int64_t i = 0; i < count; ++i) to.as<T>()[start + i] = To<T>(chunk[i]);
      });
      if (!known) return;
    }
  });
  return known;
}

// ONNX: "NaN", "INF" and "-INF" beside decimal and scientific notation.
Result<double> ParseNumber(const Args& args, const std::string& text) {
  std::string lower;
  for (char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const char* begin = lower.data() + (lower.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, lower.data() + lower.size(), value);
  if (error == std::errc() && end == lower.data() + lower.size()) return value;
  // Beyond all doubles, or nearer to zero than any: as IEEE 754 rounds it.
  if (error == std::errc::result_out_of_range && end == lower.data() + lower.size())
    return std::strtod(begin, nullptr);
  return args.Error("{} holds {}, which is no number", args.Name(0), PrintString(text));
}

// All 64 bits of an integer. Not for floats, whose zeros have signs.
template <typename T>
std::optional<T> ParseInteger(const std::string& text) {
  const auto parsed = [&]<typename Whole>() -> std::optional<T> {
    Whole whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return To<T>(whole);
  };
  if constexpr (std::is_floating_point_v<Compute<T>>) return std::nullopt;
  if (auto whole = parsed.template operator()<int64_t>()) return whole;
  if constexpr (std::is_same_v<T, uint64_t>) return parsed.template operator()<uint64_t>();
  return std::nullopt;
}

Status FromStrings(const Args& args, const Out& to) {
  Status status;
  const bool known = ByType<true>(to.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < to.elems && status.ok(); ++i) {
      const std::string& text = args[0].as<std::string>()[i];
      if (const auto whole = ParseInteger<T>(text)) {
        to.as<T>()[i] = *whole;
        continue;
      }
      auto value = ParseNumber(args, text);
      if (!value.ok()) {
        status = std::move(value.status());
      } else {
        to.as<T>()[i] = To<T>(*value);
      }
    }
  });
  return known ? status : NoSuchType(args, to.dtype);
}

std::string NumberText(double value, bool is_double) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  return is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

void ToStrings(const In& from, const Out& to) {
  ByType<true>(from.dtype, [&]<typename F>() {
    for (int64_t i = 0; i < from.elems; ++i) {
      const auto value = static_cast<Middle<F>>(static_cast<Compute<F>>(from.as<F>()[i]));
      if constexpr (std::is_floating_point_v<Middle<F>>) {
        to.as<std::string>()[i] = NumberText(value, std::is_same_v<F, double>);
      } else {
        to.as<std::string>()[i] = fmt::format("{}", value);
      }
    }
  });
}

}  // namespace

Status RunCast(const Args& args) {
  WEFT_TRY(args.Need(args.call.op == "CastLike" ? 2 : 1));
  std::optional<Dtype> to;
  if (args.call.op == "CastLike") {
    to = args[1].dtype;
  } else {
    const int64_t code = args.Int("to", -1);
    if (code >= 0 && code < 1000) to = DtypeFromOnnx(static_cast<int32_t>(code));
    if (!to)
      return Unsupported(fmt::format("Cast: to = {} is no element type that weft knows", code));
  }
  const In& from = args[0];
  WEFT_TRY(const Out out, args.Output(0, *to, from.shape));
  if (from.dtype == *to) {
    CopyElems(*to, out.data, 0, from.data, 0, from.elems);
  } else if (from.dtype == Dtype::kString) {
    return FromStrings(args, out);
  } else if (*to == Dtype::kString) {
    ToStrings(from, out);
  } else if (!Numbers(from, out)) {
    return NoSuchType(args, *to);
  }
  return {};
}

}  // namespace weft::fallback::native
