// The parser's own pieces: a cursor over tokens, expressions, and what is made of them.
#pragma once

#include <string>

#include "tc_lang/tokens.h"

namespace weft::tc {

// Where the parser is. A failed function returns null or false, having said why once; nobody else
// says it again.
class Cursor {
 public:
  Cursor(const TokenList& list, Diagnostics& diagnostics)
      : list_(list), diagnostics_(diagnostics) {}

  const TcToken& Peek(size_t ahead = 0) const;
  TcToken Next();
  bool Is(std::string_view text) const {
    return Peek().text == text && Peek().kind != TcTokenKind::kEnd;
  }
  bool Accept(std::string_view text);
  bool Expect(std::string_view text);
  bool ExpectName(std::string& name, std::string_view what);
  // Reports "found X, expected <what>" at the next token, with the closest of the words that `name`
  // (if empty, the token) may be a misspelling of; returns false.
  bool Fail(std::string_view expected, const std::vector<std::string>& words = {},
            std::string_view name = "");
  bool FailAt(Problem problem, Location at, std::string what);
  // The comment on the line of the last token taken.
  std::string Comment() const;
  size_t position() const { return next_; }
  // True if the next token is the first of its line.
  bool StartsLine() const;
  bool full() const { return diagnostics_.full(); }

 private:
  const TokenList& list_;
  Diagnostics& diagnostics_;
  size_t next_ = 0;
};

// expr ::= a ? b : c | binary; see docs/language.md, "Expressions".
class ExprParser {
 public:
  explicit ExprParser(Cursor& cursor) : cursor_(cursor) {}
  SyntaxExprPtr Parse();
  SyntaxExprPtr ParseBound();                        // no `?:`, since a range has a `:` of its own
  bool ParseArgs(std::vector<SyntaxExprPtr>& args);  // after `(`, up to and with `)`

 private:
  SyntaxExprPtr Binary(int32_t level);
  SyntaxExprPtr Unary();
  SyntaxExprPtr Primary();
  SyntaxExprPtr Make(SyntaxKind kind, Location at, std::string text);
  bool Adopt(SyntaxExpr& parent, SyntaxExprPtr child);  // false if the tree becomes too deep

  Cursor& cursor_;
  int32_t depth_ = 0;
};

}  // namespace weft::tc
