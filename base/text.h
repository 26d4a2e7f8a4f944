// One lexer and one layout of text for every form: see docs/text_forms.md.
//
// Tokens are names, integers, floats, strings and punctuation; `#` starts a comment that ends with
// the line; line breaks are white space. A name is [A-Za-z_][A-Za-z0-9_.]* or, for anything else
// that a model may call its values, a string in double quotes with escapes. Floats print so that
// they read back exactly (hexadecimal is not used); NaN and infinities are the names nan, inf, -inf
// where a parser expects a float. The 64 digits of a hash are a name too. Punctuation is one
// character, or one of -> == != <= >= && || += *= ..
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/affine.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/tensor.h"

namespace weft {

enum class TokenKind : uint8_t { kName, kInt, kFloat, kString, kPunct, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;              // names, numbers and punctuation as written; strings unescaped
  int64_t integer = 0;           // kInt; an integer of more than 63 bits is a kFloat
  double real = 0;               // kInt and kFloat
  int32_t line = 1, column = 1;  // 1-based, of the first character
};

// A recursive-descent parser's view of a text. Errors carry "file:line:col" and say found and
// expected.
class Lexer {
 public:
  // `text` must outlive the lexer. `file` is only for messages.
  static Result<Lexer> Open(std::string_view text, std::string file);

  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  // To read the same tokens once more: what Place gave, back at it.
  size_t Place() const { return next_; }
  void GoTo(size_t place) { next_ = place; }
  bool AtEnd() const { return Peek().kind == TokenKind::kEnd; }
  bool Is(std::string_view punct_or_name) const;  // the next token, unless it is a string
  bool Accept(std::string_view punct_or_name);    // consumes it if it is
  Status Expect(std::string_view punct_or_name);
  Result<std::string> ExpectName();  // a name, or a quoted one
  Result<int64_t> ExpectInt();       // with an optional sign
  Result<uint64_t> ExpectUint();     // all 64 bits, no sign
  Result<double> ExpectFloat();      // integers, nan, inf and signs too
  Result<std::string> ExpectString();
  Result<Dtype> ExpectDtype();  // f32
  Result<Shape> ExpectShape();  // [1, 3, 224, 224], all non-negative
  // "6*w0 + m + floor((a + 3)/8) - 1", also `%` and `mod`; lookup gives a name's variable or fails.
  Result<Affine> ExpectAffine(const std::function<Result<Var>(std::string_view)>& lookup);

  Status Error(std::string what) const { return ErrorAt(Peek(), std::move(what)); }
  Status ErrorAt(const Token& token, std::string what) const;
  std::string Where(const Token& token) const;  // "file:line:col"

 private:
  std::string file_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
};

// Quoted and escaped only if it must be: also if it is a keyword, see keywords.def.
std::string PrintName(std::string_view name);
std::string PrintString(std::string_view text);  // "..." with escapes; always valid UTF-8
// The same without quotes, for messages: one line of harmless UTF-8, whatever a file said.
std::string Printable(std::string_view text);
std::string PrintFloat(double value);  // shortest text that reads back as this double
std::string PrintFloat(float value);   // shortest text that reads back as this float

}  // namespace weft
