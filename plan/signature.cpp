#include "plan/signature.h"

#include <fmt/format.h>

#include "base/text.h"

namespace weft::plan {
namespace {

constexpr int64_t kOperandAlign = 64;  // what the executor gives every operand

// Up to the brace that opens the body: nests are long, and their heads are all that is wanted.
std::string_view Head(std::string_view text) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      in_string = !in_string;
    else if (text[i] == '{' && !in_string)
      return text.substr(0, i);
  }
  return text;
}

class Reader {
 public:
  explicit Reader(Lexer lexer) : lexer_(std::move(lexer)) {}

  Result<Signature> Run() {
    Signature s;
    WEFT_TRY(lexer_.Expect("loops"));
    WEFT_TRY(s.name, lexer_.ExpectName());
    if (lexer_.Accept("<")) {
      do {
        WEFT_TRY(std::string param, lexer_.ExpectName());
        ++s.params;
      } while (lexer_.Accept(","));
      WEFT_TRY(lexer_.Expect(">"));
    }
    WEFT_TRY(lexer_.Expect("("));
    while (!lexer_.Accept(")")) {
      if (!s.operands.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(Operand operand, OneOperand());
      s.operands.push_back(std::move(operand));
    }
    return s;
  }

 private:
  Result<Operand> OneOperand() {
    Operand o;
    WEFT_TRY(o.name, lexer_.ExpectName());
    WEFT_TRY(lexer_.Expect(":"));
    o.is_written = !lexer_.Accept("in");
    if (o.is_written && !lexer_.Accept("out")) WEFT_TRY(lexer_.Expect("inout"));
    WEFT_TRY(o.dtype, lexer_.ExpectDtype());
    WEFT_TRY(lexer_.Expect("["));
    while (!lexer_.Accept("]")) {
      if (!o.shape.empty()) WEFT_TRY(lexer_.Expect(","));
      WEFT_TRY(int64_t extent, Extent());
      o.shape.push_back(extent);
    }
    if (o.shape.size() > Layout::kMaxRank)
      return lexer_.Error(fmt::format("a rank of {}", o.shape.size()));
    o.layout = Layout::Plain(o.shape.size());
    if (lexer_.Accept("layout")) {
      WEFT_TRY(std::string text, lexer_.ExpectString());
      WEFT_TRY(o.layout, ParseLayout(text));
    }
    WEFT_TRY(Rest(o));
    return o;
  }

  // An integer, or -1 for an expression over parameters.
  Result<int64_t> Extent() {
    const Token& after = lexer_.Peek(1);
    if (lexer_.Peek().kind == TokenKind::kInt && (after.text == "," || after.text == "]"))
      return lexer_.ExpectInt();
    for (int depth = 0; depth > 0 || !(lexer_.Is(",") || lexer_.Is("]"));) {
      if (lexer_.AtEnd()) return lexer_.Error("found the end of the text, expected an extent");
      depth += lexer_.Is("(") - lexer_.Is(")");
      lexer_.Next();
    }
    return int64_t{-1};
  }

  Status Rest(Operand& o) {
    if (lexer_.Accept("align")) {
      WEFT_TRY(o.align_bytes, lexer_.ExpectInt());
      if (o.align_bytes > kOperandAlign)
        return lexer_.Error(
            fmt::format("an alignment of {} bytes, operands get {}", o.align_bytes, kOperandAlign));
    }
    if (lexer_.Accept("fold")) WEFT_TRY(lexer_.ExpectShape());
    return {};
  }

  Lexer lexer_;
};

}  // namespace

Result<Signature> ReadSignature(std::string_view loops, const std::string& file) {
  WEFT_TRY(Lexer lexer, Lexer::Open(Head(loops), file));
  return Reader(std::move(lexer)).Run();
}

}  // namespace weft::plan
