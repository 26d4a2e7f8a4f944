// The parser of quasi-affine expressions:
//
//   sum     ::= product { ("+" | "-") product }
//   product ::= unary { "*" unary | ("/" | "%" | "mod") unary }     one side of * and what divides:
//   constants unary   ::= "-" unary | integer | name | "(" sum ")" | "floor" "(" unary { "*" unary
//   } "/" unary ")"
//
// `/` is a floor division everywhere. Inside floor(...) it must stand once and last, so that nobody
// reads floor(a + b/2) as something else than it says.
#include <fmt/format.h>

#include "base/text.h"

namespace weft {
namespace {

class AffineParser {
 public:
  AffineParser(Lexer& lexer, const std::function<Result<Var>(std::string_view)>& lookup)
      : lexer_(lexer), lookup_(lookup) {}

  Result<Affine> Sum(int depth) {
    WEFT_TRY(Affine sum, Product(depth));
    while (lexer_.Is("+") || lexer_.Is("-")) {
      const Token op = lexer_.Next();
      WEFT_TRY(Affine operand, Product(depth));
      WEFT_TRY(sum, Checked(op, AddScaled(sum, operand, op.text == "+" ? 1 : -1)));
    }
    return sum;
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr int kMaxOperands = 1024;  // of one expression as written
  static constexpr int kMaxAtoms = 512;      // and in its normal form, where remainders repeat

  Result<Affine> Product(int depth) {
    WEFT_TRY(Affine product, Unary(depth));
    while (lexer_.Is("*") || IsDivision()) {
      const Token op = lexer_.Next();
      WEFT_TRY(const Affine operand, Unary(depth));
      WEFT_TRY(product, Apply(op, product, operand));
    }
    return product;
  }

  Result<Affine> Floor(int depth) {
    WEFT_TRY(lexer_.Expect("("));
    WEFT_TRY(Affine product, Unary(depth));
    while (lexer_.Is("*")) {
      const Token op = lexer_.Next();
      WEFT_TRY(const Affine operand, Unary(depth));
      WEFT_TRY(product, Apply(op, product, operand));
    }
    const Token op = lexer_.Peek();
    WEFT_TRY(lexer_.Expect("/"));
    WEFT_TRY(const Affine divisor, Unary(depth));
    WEFT_TRY(product, Apply(op, product, divisor));
    WEFT_TRY(lexer_.Expect(")"));
    return product;
  }

  Result<Affine> Unary(int depth) {
    if (depth >= kMaxDepth) {
      return lexer_.Error(fmt::format("the expression is nested more than {} deep", kMaxDepth));
    }
    if (++operands_ > kMaxOperands) {
      return lexer_.Error(fmt::format("the expression has more than {} operands", kMaxOperands));
    }
    const Token token = lexer_.Peek();
    if (token.kind == TokenKind::kInt || token.kind == TokenKind::kFloat) {
      WEFT_TRY(const int64_t value, lexer_.ExpectInt());
      return Affine(value);
    }
    if (lexer_.Accept("-")) {
      // The sign belongs to the digits, so that -2^63 can be written.
      if (lexer_.Peek().kind == TokenKind::kFloat) return NegativeInt(token);
      WEFT_TRY(const Affine operand, Unary(depth + 1));
      return Checked(token, AddScaled(0, operand, -1));
    }
    if (lexer_.Accept("(")) {
      WEFT_TRY(Affine sum, Sum(depth + 1));
      WEFT_TRY(lexer_.Expect(")"));
      return sum;
    }
    if (lexer_.Is("floor") && IsPunct(lexer_.Peek(1), "(")) {
      lexer_.Next();
      return Floor(depth + 1);
    }
    WEFT_TRY(const std::string name, lexer_.ExpectName());
    Result<Var> var = lookup_(name);
    if (!var.ok()) return std::move(var.status()).At(lexer_.Where(token));
    return Affine::OfVar(*var);
  }

  Result<Affine> NegativeInt(const Token& sign) {
    const std::string text = lexer_.Peek().text;
    if (text != "9223372036854775808") {
      return lexer_.ErrorAt(sign, fmt::format("-`{}` is no integer of 64 bits", text));
    }
    lexer_.Next();
    return Affine(INT64_MIN);
  }

  Result<Affine> Apply(const Token& op, const Affine& a, const Affine& b) {
    if (op.text == "*") {
      if (a.IsConstant()) return Checked(op, AddScaled(0, b, a.constant()));
      if (b.IsConstant()) return Checked(op, AddScaled(0, a, b.constant()));
      return lexer_.ErrorAt(op, "a product of two variables is not affine");
    }
    if (!b.IsConstant() || b.constant() <= 0) {
      return lexer_.ErrorAt(op, fmt::format("expected a positive integer after `{}`", op.text));
    }
    const Affine quotient = FloorDiv(a, b.constant());
    if (op.text == "/") return Checked(op, quotient);
    return Checked(op, AddScaled(a, quotient, -b.constant()));
  }

  Result<Affine> Checked(const Token& at, std::optional<Affine> e) {
    if (!e) return lexer_.ErrorAt(at, "the expression leaves 64 bits");
    int budget = kMaxAtoms;
    if (!CountAtoms(*e, budget)) {
      return lexer_.ErrorAt(at, fmt::format("the expression has more than {} terms", kMaxAtoms));
    }
    return *std::move(e);
  }

  static bool CountAtoms(const Affine& e, int& budget) {
    for (const Affine::Term& t : e.terms()) {
      --budget;
      if (budget < 0 || (t.dividend && !CountAtoms(*t.dividend, budget))) return false;
    }
    return true;
  }

  bool IsDivision() const { return lexer_.Is("/") || lexer_.Is("%") || lexer_.Is("mod"); }
  static bool IsPunct(const Token& token, std::string_view punct) {
    return token.kind == TokenKind::kPunct && token.text == punct;
  }

  Lexer& lexer_;
  const std::function<Result<Var>(std::string_view)>& lookup_;
  int operands_ = 0;
};

}  // namespace

Result<Affine> Lexer::ExpectAffine(const std::function<Result<Var>(std::string_view)>& lookup) {
  return AffineParser(*this, lookup).Sum(0);
}

}  // namespace weft
