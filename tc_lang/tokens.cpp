#include "tc_lang/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace weft::tc {
namespace {

constexpr size_t kLongestName = 255;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Longest first. `min=` and `max=` are made of a name and punctuation by the parser, since
// `min = 3` in a let must stay apart from them only by white space.
constexpr std::array<std::string_view, 29> kPunctuation = {
    "+=!", "*=!", "+=", "*=", "->", "<=", ">=", "==", "!=", "&&", "||", "+", "-", "*", "/",
    "(",   ")",   "{",  "}",  "?",  ":",  ",",  "=",  "<",  ">",  "!",  "%", "@", ";"};

class Scanner {
 public:
  Scanner(std::string_view text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  TokenList Run() {
    while (SkipSpace()) {
      if (diagnostics_.full()) break;
      ScanToken();
    }
    out_.tokens.push_back({TcTokenKind::kEnd, text_.substr(text_.size()), Here()});
    return std::move(out_);
  }

 private:
  Location Here() const { return {line_, static_cast<int32_t>(at_ - line_start_) + 1}; }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // False at the end of the text.
  bool SkipSpace() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string comment(text_.substr(at_ + 1, end - at_ - 1));
        std::ranges::replace_if(
            comment, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
        const size_t first = comment.find_first_not_of(" #"), last = comment.find_last_not_of(' ');
        comment = first == comment.npos ? "" : comment.substr(first, last - first + 1);
        out_.comments[line_] = std::move(comment);
        at_ = end;
      } else {
        return true;
      }
    }
    return false;
  }

  void Push(TcTokenKind kind, size_t length) {
    out_.tokens.push_back({kind, text_.substr(at_, length), Here()});
    at_ += length;
  }

  void ScanToken() {
    const char c = Peek();
    if (IsLetter(c)) {
      size_t n = 1;
      while (IsLetter(Peek(n)) || IsDigit(Peek(n))) ++n;
      if (n > kLongestName) {
        diagnostics_.Add(
            Problem::kNesting, Here(),
            fmt::format("found a name of {} letters, at most {} are taken", n, kLongestName));
      }
      // `max=!` and its like are one operator; `max == x` is not.
      const std::string_view name = text_.substr(at_, n);
      if ((name == "min" || name == "max") && Peek(n) == '=' && Peek(n + 1) != '=') {
        return Push(TcTokenKind::kPunct, Peek(n + 1) == '!' ? n + 2 : n + 1);
      }
      return Push(TcTokenKind::kName, n);
    }
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return ScanNumber();
    for (std::string_view p : kPunctuation) {
      if (text_.substr(at_, p.size()) != p) continue;
      // `a+=!b` reads as `+=!`; `x ==!y` as `==` and `!`, since `=` `=!` never follow each other.
      return Push(TcTokenKind::kPunct, p.size());
    }
    BadByte();
  }

  void ScanNumber() {
    size_t n = 0;
    bool real = false;
    while (IsDigit(Peek(n))) ++n;
    if (Peek(n) == '.') {
      real = true;
      ++n;
      while (IsDigit(Peek(n))) ++n;
    }
    if (Peek(n) == 'e' || Peek(n) == 'E') {
      const size_t sign = Peek(n + 1) == '+' || Peek(n + 1) == '-';
      if (IsDigit(Peek(n + 1 + sign))) {
        real = true;
        n += 2 + sign;
        while (IsDigit(Peek(n))) ++n;
      }
    }
    if (IsLetter(Peek(n)) || (Peek(n) == '.' && real)) {
      diagnostics_.Add(
          Problem::kNumber, Here(),
          fmt::format("found '{}' joined to a number, expected a space or an operator", Peek(n)));
      while (IsLetter(Peek(n)) || IsDigit(Peek(n)) || Peek(n) == '.') ++n;
    }
    Push(real ? TcTokenKind::kFloat : TcTokenKind::kInt, n);
  }

  void BadByte() {
    const auto byte = static_cast<unsigned char>(Peek());
    const bool shown = byte > ' ' && byte <= '~';
    diagnostics_.Add(
        Problem::kByte, Here(),
        shown ? fmt::format("found the character '{}', which no token starts with", Peek())
              : fmt::format("found the byte 0x{:02x} outside a comment", byte));
    ++at_;
    while ((static_cast<unsigned char>(Peek()) & 0xC0) == 0x80)
      ++at_;  // the rest of a UTF-8 sequence
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  TokenList out_;
  size_t at_ = 0, line_start_ = 0;
  int32_t line_ = 1;
};

}  // namespace

TokenList Tokenize(std::string_view text, Diagnostics& diagnostics) {
  return Scanner(text, diagnostics).Run();
}

}  // namespace weft::tc
