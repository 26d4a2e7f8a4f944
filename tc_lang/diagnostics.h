// Several errors of one text, each with its number, its line and a caret, in one Status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tc_lang/syntax.h"

namespace weft::tc {

enum class Problem : uint16_t {
#define WEFT_TC_PROBLEM(number, name) k##name = number,
#include "tc_lang/problems.def"
#undef WEFT_TC_PROBLEM
};

class Diagnostics {
 public:
  Diagnostics(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  // Keeps the first few; one per location.
  void Add(Problem problem, Location at, std::string what, std::string hint = "",
           Code code = Code::kInvalid);
  // What is added to each message from here on, such as the call that led to it; the one before.
  std::string SetContext(std::string context) {
    return std::exchange(context_, std::move(context));
  }
  bool ok() const { return errors_.empty(); }
  bool full() const;
  // Ok when nothing was added. `where` is the first error's; further errors follow in the text, one
  // block of lines each.
  Status ToStatus() const;

 private:
  struct Error {
    Problem problem;
    Location at;
    std::string what, hint;
    Code code;
  };
  std::string Snippet(Location at) const;

  std::string_view text_;
  std::string file_, context_;
  std::vector<Error> errors_;
};

std::string LineColumn(Location at);  // "3:14"

// The closest of `candidates` if it is close enough to be a typing error, as ", did you mean 'x'?".
std::string Suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace weft::tc
