#include <fmt/format.h>

#include <array>
#include <span>

#include "tc_lang/parser.h"

namespace weft::tc {
namespace {

constexpr int32_t kMostNesting = 500;  // also of what the binder and the printer recurse over

constexpr std::string_view kOr[] = {"||"}, kAnd[] = {"&&"},
                           kCompare[] = {"<", ">", "<=", ">=", "==", "!="}, kSum[] = {"+", "-"},
                           kProduct[] = {"*", "/", "%"};
constexpr std::array<std::span<const std::string_view>, 5> kLevels = {kOr, kAnd, kCompare, kSum,
                                                                      kProduct};

// What is never a name; `size`, `max` and `strides` are words only where the grammar has them.
bool IsKeyword(std::string_view word) {
  return word == "def" || word == "where" || word == "in" || word == "exists" ||
         ParseTypeWord(word);
}

}  // namespace

const TcToken& Cursor::Peek(size_t ahead) const {
  return list_.tokens[std::min(next_ + ahead, list_.tokens.size() - 1)];
}

TcToken Cursor::Next() {
  const TcToken token = Peek();
  if (next_ + 1 < list_.tokens.size()) ++next_;
  return token;
}

bool Cursor::Accept(std::string_view text) {
  if (!Is(text)) return false;
  Next();
  return true;
}

bool Cursor::Expect(std::string_view text) {
  return Accept(text) || Fail(fmt::format("'{}'", text), {std::string(text)});
}

bool Cursor::ExpectName(std::string& name, std::string_view what) {
  if (Peek().kind != TcTokenKind::kName || IsKeyword(Peek().text)) return Fail(what);
  name = Next().text;
  return true;
}

bool Cursor::Fail(std::string_view expected, const std::vector<std::string>& words,
                  std::string_view name) {
  const TcToken& token = Peek();
  const std::string found = token.kind == TcTokenKind::kEnd
                                ? "the end of the text"
                                : fmt::format("'{}'", token.text.substr(0, 40));
  return FailAt(Problem::kSyntax, token.at,
                fmt::format("found {}, expected {}{}", found, expected,
                            Suggestion(name.empty() ? token.text : name, words)));
}

bool Cursor::FailAt(Problem problem, Location at, std::string what) {
  diagnostics_.Add(problem, at, std::move(what));
  return false;
}

std::string Cursor::Comment() const {
  if (next_ == 0) return "";
  const auto it = list_.comments.find(list_.tokens[next_ - 1].at.line);
  return it == list_.comments.end() ? "" : it->second;
}

bool Cursor::StartsLine() const {
  return next_ == 0 || list_.tokens[next_ - 1].at.line != Peek().at.line;
}

SyntaxExprPtr ExprParser::Make(SyntaxKind kind, Location at, std::string text) {
  auto e = std::make_unique<SyntaxExpr>();
  e->kind = kind;
  e->at = at;
  e->text = std::move(text);
  return e;
}

bool ExprParser::Adopt(SyntaxExpr& parent, SyntaxExprPtr child) {
  if (child == nullptr) return false;
  parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMostNesting) {
    return cursor_.FailAt(Problem::kNesting, parent.at,
                          fmt::format("the expression is nested more than {} deep", kMostNesting));
  }
  parent.args.push_back(std::move(child));
  return true;
}

SyntaxExprPtr ExprParser::Parse() {
  if (depth_ >= kMostNesting) {
    cursor_.FailAt(Problem::kNesting, cursor_.Peek().at,
                   fmt::format("the expression is nested more than {} deep", kMostNesting));
    return nullptr;
  }
  ++depth_;
  SyntaxExprPtr result = Binary(0);
  if (result != nullptr && cursor_.Is("?")) {
    SyntaxExprPtr select = Make(SyntaxKind::kSelect, cursor_.Next().at, "?:");
    const bool fine = Adopt(*select, std::move(result)) && Adopt(*select, Parse()) &&
                      cursor_.Expect(":") && Adopt(*select, Parse());
    result = fine ? std::move(select) : nullptr;
  }
  --depth_;
  return result;
}

SyntaxExprPtr ExprParser::ParseBound() { return Binary(0); }

SyntaxExprPtr ExprParser::Binary(int32_t level) {
  if (level == static_cast<int32_t>(kLevels.size())) return Unary();
  SyntaxExprPtr left = Binary(level + 1);
  while (left != nullptr) {
    bool found = false;
    for (std::string_view op : kLevels[static_cast<size_t>(level)]) {
      found = found || (cursor_.Peek().kind == TcTokenKind::kPunct && cursor_.Is(op));
    }
    if (!found) return left;
    const TcToken op = cursor_.Next();
    SyntaxExprPtr parent = Make(SyntaxKind::kBinary, op.at, std::string(op.text));
    if (!Adopt(*parent, std::move(left)) || !Adopt(*parent, Binary(level + 1))) return nullptr;
    left = std::move(parent);
  }
  return nullptr;
}

SyntaxExprPtr ExprParser::Unary() {
  if (!cursor_.Is("-") && !cursor_.Is("!")) return Primary();
  if (depth_ >= kMostNesting) {
    cursor_.FailAt(Problem::kNesting, cursor_.Peek().at,
                   fmt::format("the expression is nested more than {} deep", kMostNesting));
    return nullptr;
  }
  ++depth_;
  const TcToken op = cursor_.Next();
  SyntaxExprPtr e = Make(SyntaxKind::kUnary, op.at, std::string(op.text));
  const bool fine = Adopt(*e, Unary());
  --depth_;
  return fine ? std::move(e) : nullptr;
}

bool ExprParser::ParseArgs(std::vector<SyntaxExprPtr>& args) {
  if (cursor_.Accept(")")) return true;
  do {
    SyntaxExprPtr arg = Parse();
    if (arg == nullptr) return false;
    args.push_back(std::move(arg));
  } while (cursor_.Accept(","));
  return cursor_.Accept(")") || cursor_.Fail("',' or ')'");
}

SyntaxExprPtr ExprParser::Primary() {
  const TcToken token = cursor_.Peek();
  if (token.kind == TcTokenKind::kInt || token.kind == TcTokenKind::kFloat) {
    cursor_.Next();
    return Make(token.kind == TcTokenKind::kInt ? SyntaxKind::kInt : SyntaxKind::kFloat, token.at,
                std::string(token.text));
  }
  if (cursor_.Accept("(")) {
    SyntaxExprPtr inner = Parse();
    return inner != nullptr && cursor_.Expect(")") ? std::move(inner) : nullptr;
  }
  const std::optional<Dtype> cast = ParseTypeWord(token.text);
  if (token.kind != TcTokenKind::kName || (!cast && IsKeyword(token.text))) {
    cursor_.Fail("an expression");
    return nullptr;
  }
  cursor_.Next();
  SyntaxExprPtr e =
      Make(cast ? SyntaxKind::kCast : SyntaxKind::kName, token.at, std::string(token.text));
  e->cast = cast;
  if (cast)
    return cursor_.Expect("(") && Adopt(*e, Parse()) && cursor_.Expect(")") ? std::move(e)
                                                                            : nullptr;
  if (!cursor_.Accept("(")) return e;
  e->kind = SyntaxKind::kApply;
  std::vector<SyntaxExprPtr> args;
  if (!ParseArgs(args)) return nullptr;
  for (SyntaxExprPtr& arg : args) {
    if (!Adopt(*e, std::move(arg))) return nullptr;
  }
  if (!cursor_.Accept("(")) return e;
  SyntaxExprPtr element = Make(SyntaxKind::kElement, e->at, e->text);
  args.clear();
  if (!Adopt(*element, std::move(e)) || !ParseArgs(args)) return nullptr;
  for (SyntaxExprPtr& arg : args) {
    if (!Adopt(*element, std::move(arg))) return nullptr;
  }
  return element;
}

}  // namespace weft::tc
