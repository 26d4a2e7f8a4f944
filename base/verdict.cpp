#include "base/verdict.h"

#include <fmt/format.h>

#include <array>

namespace weft {
namespace {

struct Row {
  std::string_view enumerator, text;
};

constexpr auto kRows = std::to_array<Row>({
#define WEFT_REASON(name, text) {#name, text},
#include "base/reasons.def"
#undef WEFT_REASON
});

std::array<std::string, kRows.size()> MakeNames() {
  std::array<std::string, kRows.size()> names;
  for (size_t i = 0; i < kRows.size(); ++i) {
    for (char c : kRows[i].enumerator) {
      const bool upper = c >= 'A' && c <= 'Z';
      if (upper && !names[i].empty()) names[i] += '_';
      names[i] += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return names;
}

const std::array<std::string, kRows.size()>& Names() {
  static const auto names = MakeNames();
  return names;
}

}  // namespace

std::string_view ReasonName(Reason reason) { return Names()[static_cast<size_t>(reason)]; }
std::string_view ReasonText(Reason reason) { return kRows[static_cast<size_t>(reason)].text; }

std::optional<Reason> ParseReason(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (Names()[i] == name) return static_cast<Reason>(i);
  }
  return std::nullopt;
}

Status ToStatus(const Refusal& refusal, Code code) {
  const bool spent = refusal.reason == Reason::kIslQuota || refusal.reason == Reason::kIslTimeout;
  return {spent ? Code::kLimit : code,
          fmt::format("{}: {}", ReasonName(refusal.reason), refusal.detail)};
}

}  // namespace weft
