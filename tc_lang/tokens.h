// The tokens of a comprehension's text. Its rules differ from base/text.h's: no strings, no dots in
// names, numbers that may not touch letters; see docs/language.md, "Lexing".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tc_lang/diagnostics.h"
#include "tc_lang/syntax.h"

namespace weft::tc {

enum class TcTokenKind : uint8_t { kName, kInt, kFloat, kPunct, kEnd };

struct TcToken {
  TcTokenKind kind = TcTokenKind::kEnd;
  std::string_view text;
  Location at;
};

struct TokenList {
  std::vector<TcToken> tokens;              // ends with kEnd
  std::map<int32_t, std::string> comments;  // by line, without `#` and outer spaces
};

// Errors go to `diagnostics`; what was understood comes back all the same.
TokenList Tokenize(std::string_view text, Diagnostics& diagnostics);

}  // namespace weft::tc
