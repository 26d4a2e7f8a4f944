#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/utf8.h"

namespace weft {
namespace {

constexpr size_t kMaxTextBytes = 64 << 20;
constexpr size_t kHashDigits = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c) || c == '.'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }

// Longest first, so that the first match is the token.
constexpr auto kPuncts =
    std::to_array<std::string_view>({"->", "==", "!=", "<=", ">=", "&&", "||", "+=", "*=", ".."});

// Characters that move the cursor, hide text or turn its direction are never printed as they are.
bool IsHarmless(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  const bool direction = code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
                         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f);
  return !direction && code != 0xfeff;
}

// Words that a form reads as something other than a name; a value that is called so is quoted.
bool IsReserved(std::string_view word) {
  constexpr auto kWords = std::to_array<std::string_view>({
#define WEFT_KEYWORD(word) #word,
#include "base/keywords.def"
#undef WEFT_KEYWORD
  });
  return word == "_" || std::ranges::find(kWords, word) != kWords.end();
}

// Scans tokens one after the other; the lexer keeps them.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<Token> Scan() {
    SkipSpaceAndComments();
    token_ = Token{.line = line_, .column = Column()};
    if (at_ >= text_.size()) return token_;
    const char c = text_[at_];
    if (c == '"') return String();
    if (const size_t length = HashLength()) return Take(TokenKind::kName, length);
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) {
      size_t length = 1;
      while (at_ + length < text_.size() && IsNamePart(text_[at_ + length])) ++length;
      return Take(TokenKind::kName, length);
    }
    if (c > ' ' && c <= '~') return Punct();
    return Stray();
  }

 private:
  int32_t Column() const { return static_cast<int32_t>(at_ - line_start_) + 1; }

  Status Error(std::string what) const {
    return Invalid(std::move(what)).At(fmt::format("{}:{}:{}", file_, line_, Column()));
  }

  Token Take(TokenKind kind, size_t length) {
    token_.kind = kind;
    token_.text = text_.substr(at_, length);
    at_ += length;
    return std::move(token_);
  }

  void SkipSpaceAndComments() {
    bool comment = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
        comment = false;
      } else if (c == '#') {
        comment = true;
      } else if (!comment && c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  // A hash is a name, even if it starts with a digit.
  size_t HashLength() const {
    size_t length = 0;
    while (at_ + length < text_.size() && IsHexDigit(text_[at_ + length])) ++length;
    const bool ends = at_ + length == text_.size() || !IsNamePart(text_[at_ + length]);
    return length == kHashDigits && ends ? length : 0;
  }

  Result<Token> Number() {
    size_t length = Digits(0);
    const size_t whole = length;
    if (Byte(length) == '.' && IsDigit(Byte(length + 1))) length += 1 + Digits(length + 1);
    if (Byte(length) == 'e' || Byte(length) == 'E') {
      const size_t sign = Byte(length + 1) == '+' || Byte(length + 1) == '-' ? 1 : 0;
      if (const size_t digits = Digits(length + 1 + sign)) length += 1 + sign + digits;
    }
    const char *begin = text_.data() + at_, *end = begin + length;
    if (std::from_chars(begin, end, token_.real).ec != std::errc()) {
      return Error("the number is too large or too small for a float");
    }
    // An integer beyond int64 is left to ExpectFloat and ExpectUint.
    const bool fits =
        length == whole && std::from_chars(begin, end, token_.integer).ec == std::errc();
    return Take(fits ? TokenKind::kInt : TokenKind::kFloat, length);
  }

  char Byte(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  size_t Digits(size_t ahead) const {
    size_t count = 0;
    while (IsDigit(Byte(ahead + count))) ++count;
    return count;
  }

  Token Punct() {
    for (std::string_view punct : kPuncts) {
      if (text_.substr(at_).starts_with(punct)) return Take(TokenKind::kPunct, punct.size());
    }
    return Take(TokenKind::kPunct, 1);
  }

  Result<Token> String() {
    token_.kind = TokenKind::kString;
    for (++at_; at_ < text_.size() && text_[at_] != '\n';) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return std::move(token_);
      }
      if (c == '\\') {
        WEFT_TRY(Escape());
        continue;
      }
      uint32_t code = 0;
      const size_t length = DecodeUtf8(text_.substr(at_), code);
      if (length == 0 || (code < ' ' && code != '\t') || code == 0x7f) return Stray();
      token_.text += text_.substr(at_, length);
      at_ += length;
    }
    return Error("the string does not end on its line");
  }

  // \n \t \r \" \\ and \xNN, one byte.
  Status Escape() {
    constexpr std::string_view kNames = "ntr\"\\", kBytes = "\n\t\r\"\\";
    const char c = Byte(1);
    if (const size_t i = kNames.find(c); i != kNames.npos && c != '\0') {
      token_.text += kBytes[i];
      at_ += 2;
      return {};
    }
    uint8_t byte = 0;
    const char* digits = text_.data() + at_ + 2;
    if (c != 'x' || at_ + 4 > text_.size() ||
        std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      return Error("unknown escape, expected one of \\n \\t \\r \\\" \\\\ \\xNN");
    }
    token_.text += static_cast<char>(byte);
    at_ += 4;
    return {};
  }

  // A byte that no token holds.
  Status Stray() const {
    uint32_t code = 0;
    if (DecodeUtf8(text_.substr(at_), code) == 0) {
      return Error(fmt::format("byte 0x{:02x} is not UTF-8", static_cast<uint8_t>(text_[at_])));
    }
    return Error(fmt::format("unexpected character U+{:04X}", code));
  }

  std::string_view text_;
  const std::string& file_;
  Token token_;
  size_t at_ = 0, line_start_ = 0;
  int32_t line_ = 1;
};

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kString:
      return "the string " + PrintString(token.text.substr(0, 60));
    default:
      break;
  }
  constexpr size_t kLongest = 60;
  if (token.text.size() <= kLongest) return "`" + token.text + "`";
  return "`" + token.text.substr(0, kLongest) + "...`";
}

}  // namespace

Result<Lexer> Lexer::Open(std::string_view text, std::string file) {
  if (text.size() > kMaxTextBytes) {
    return Limit(fmt::format("the text has {} bytes, more than {}", text.size(), kMaxTextBytes))
        .At(file);
  }
  Lexer lexer;
  lexer.file_ = std::move(file);
  Scanner scanner(text, lexer.file_);
  do {
    WEFT_TRY(Token token, scanner.Scan());
    lexer.tokens_.push_back(std::move(token));
  } while (lexer.tokens_.back().kind != TokenKind::kEnd);
  return lexer;
}

const Token& Lexer::Peek(size_t ahead) const {
  return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
}

Token Lexer::Next() {
  const Token& token = Peek();
  if (token.kind != TokenKind::kEnd) ++next_;
  return token;
}

bool Lexer::Is(std::string_view punct_or_name) const {
  const Token& token = Peek();
  return (token.kind == TokenKind::kPunct || token.kind == TokenKind::kName) &&
         token.text == punct_or_name;
}

bool Lexer::Accept(std::string_view punct_or_name) {
  const bool is = Is(punct_or_name);
  if (is) ++next_;
  return is;
}

Status Lexer::Expect(std::string_view punct_or_name) {
  if (Accept(punct_or_name)) return {};
  return Error(fmt::format("found {}, expected `{}`", Describe(Peek()), punct_or_name));
}

Result<std::string> Lexer::ExpectName() {
  const TokenKind kind = Peek().kind;
  if (kind == TokenKind::kName || kind == TokenKind::kString) return Next().text;
  return Error(fmt::format("found {}, expected a name", Describe(Peek())));
}

Result<std::string> Lexer::ExpectString() {
  if (Peek().kind == TokenKind::kString) return Next().text;
  return Error(fmt::format("found {}, expected a string", Describe(Peek())));
}

Result<int64_t> Lexer::ExpectInt() {
  const Token start = Peek();
  const std::string sign = Accept("-") ? "-" : "";
  if (sign.empty()) Accept("+");
  const Token& digits = Peek();
  if (!std::ranges::all_of(digits.text, IsDigit) ||
      (digits.kind != TokenKind::kInt && digits.kind != TokenKind::kFloat)) {
    return Error(fmt::format("found {}, expected an integer", Describe(digits)));
  }
  const std::string text = sign + digits.text;
  int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return ErrorAt(start, fmt::format("{}{} does not fit 64 bits", sign, Describe(digits)));
  }
  ++next_;
  return value;
}

Result<uint64_t> Lexer::ExpectUint() {
  const Token& digits = Peek();
  if (!std::ranges::all_of(digits.text, IsDigit) ||
      (digits.kind != TokenKind::kInt && digits.kind != TokenKind::kFloat)) {
    return Error(fmt::format("found {}, expected a non-negative integer", Describe(digits)));
  }
  uint64_t value = 0;
  const char* begin = digits.text.data();
  if (std::from_chars(begin, begin + digits.text.size(), value).ec != std::errc()) {
    return Error(fmt::format("{} does not fit 64 bits", Describe(digits)));
  }
  ++next_;
  return value;
}

Result<double> Lexer::ExpectFloat() {
  const bool negative = Accept("-");
  if (!negative) Accept("+");
  double value = 0;
  if (Accept("nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (Accept("inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (Peek().kind == TokenKind::kInt || Peek().kind == TokenKind::kFloat) {
    value = Next().real;
  } else {
    return Error(fmt::format("found {}, expected a number", Describe(Peek())));
  }
  return negative ? -value : value;
}

Result<Dtype> Lexer::ExpectDtype() {
  if (Peek().kind == TokenKind::kName) {
    if (const std::optional<Dtype> dtype = ParseDtype(Peek().text)) return ++next_, *dtype;
  }
  return Error(fmt::format("found {}, expected an element type such as f32", Describe(Peek())));
}

Result<Shape> Lexer::ExpectShape() {
  WEFT_TRY(Expect("["));
  Shape shape;
  while (!Is("]")) {
    if (!shape.empty()) WEFT_TRY(Expect(","));
    const Token start = Peek();
    WEFT_TRY(const int64_t extent, ExpectInt());
    if (extent < 0) return ErrorAt(start, fmt::format("extent {} is negative", extent));
    shape.push_back(extent);
  }
  WEFT_TRY(Expect("]"));
  return shape;
}

Status Lexer::ErrorAt(const Token& token, std::string what) const {
  return Invalid(std::move(what)).At(Where(token));
}

std::string Lexer::Where(const Token& token) const {
  return fmt::format("{}:{}:{}", file_, token.line, token.column);
}

std::string PrintName(std::string_view name) {
  const bool word = !name.empty() && IsNameStart(name[0]) && std::ranges::all_of(name, IsNamePart);
  const bool hash = name.size() == kHashDigits && std::ranges::all_of(name, IsHexDigit);
  return (word && !IsReserved(name)) || hash ? std::string(name) : PrintString(name);
}

namespace {

// `escaped` are the characters that get a backslash, `names` their letters behind it.
std::string Escape(std::string_view text, std::string_view escaped, std::string_view names) {
  std::string out;
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = DecodeUtf8(text, code);
    const std::string_view bytes = text.substr(0, std::max<size_t>(length, 1));
    if (const size_t i = escaped.find(text[0]); i != escaped.npos) {
      out += '\\';
      out += names[i];
    } else if (length > 0 && IsHarmless(code)) {
      out += bytes;
    } else {
      for (char c : bytes) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace

std::string PrintString(std::string_view text) {
  return '"' + Escape(text, "\n\t\r\"\\", "ntr\"\\") + '"';
}

std::string Printable(std::string_view text) { return Escape(text, "\n\t\r", "ntr"); }

namespace {

template <typename F>
std::string PrintShortest(F value) {
  if (value != value) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == text.npos) text += ".0";  // "inf" has an n
  return text;
}

}  // namespace

std::string PrintFloat(double value) { return PrintShortest(value); }

// A reader goes through double, which in rare cases rounds to another float than the text would.
std::string PrintFloat(float value) {
  const std::string text = PrintShortest(value);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return static_cast<float>(read) == value || value != value ? text : PrintFloat(double{value});
}

}  // namespace weft
