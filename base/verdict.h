// "No" from a heuristic, with its reason. Never an error and never logged as one; `weft explain`
// shows it. Every reason stands in reasons.def and has a test.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace weft {

enum class Reason {
#define WEFT_REASON(name, text) k##name,
#include "base/reasons.def"
#undef WEFT_REASON
};

std::string_view ReasonName(Reason reason);  // "halo_redundancy", as printed in text forms
std::string_view ReasonText(Reason reason);  // one sentence for people
std::optional<Reason> ParseReason(std::string_view name);

struct Refusal {
  Reason reason;
  std::string detail;  // the figures: "2.25 > 2.00"
  bool operator==(const Refusal&) const = default;
};

// Where what was refused is all that there is: an error of this code, or kLimit if isl was given no
// more operations or time to tell.
Status ToStatus(const Refusal& refusal, Code code);

// A value, or the reason why a heuristic declines to give one.
template <typename T>
class [[nodiscard]] Verdict {
 public:
  Verdict(T value) : value_(std::move(value)) {}              // NOLINT: implicit on purpose
  Verdict(Refusal refusal) : refusal_(std::move(refusal)) {}  // NOLINT: implicit on purpose

  bool yes() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Refusal& refusal() const { return *refusal_; }

 private:
  std::optional<T> value_;
  std::optional<Refusal> refusal_;
};

}  // namespace weft
