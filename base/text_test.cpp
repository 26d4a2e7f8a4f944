#include "base/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace weft {
namespace {

Lexer Open(std::string_view text) {
  Result<Lexer> lexer = Lexer::Open(text, "t");
  EXPECT_TRUE(lexer.ok()) << lexer.status().ToString();
  return *std::move(lexer);
}

std::string ErrorOf(std::string_view text) {
  const Result<Lexer> lexer = Lexer::Open(text, "t");
  return lexer.ok() ? "ok" : lexer.status().ToString();
}

std::string Tokens(std::string_view text) {
  std::string out;
  for (Lexer lexer = Open(text); !lexer.AtEnd();) {
    const Token token = lexer.Next();
    out += "nifsp"[static_cast<int>(token.kind)] + token.text + " ";
  }
  return out;
}

TEST(Lexer, Tokens) {
  EXPECT_EQ(Tokens("conv1: f32[1, 16]"), "nconv1 p: nf32 p[ i1 p, i16 p] ");
  EXPECT_EQ(Tokens("a->b += 0..1 # c -> d\n x.y==6x16"),
            "na p-> nb p+= i0 p.. i1 nx.y p== i6 nx16 ");
  EXPECT_EQ(Tokens("1.5e-3 2e5 1e 3.x ."), "f1.5e-3 f2e5 i1 ne i3 p. nx p. ");
  EXPECT_EQ(Tokens(R"("a\n\"\\\x41é")"), "sa\n\"\\Aé ");
  EXPECT_EQ(Tokens(""), "");
  const std::string hash(64, '7');
  EXPECT_EQ(Tokens("blob(" + hash + ", 5 bytes)"), "nblob p( n" + hash + " p, i5 nbytes p) ");
  EXPECT_EQ(Tokens("99999999999999999999"), "f99999999999999999999 ");
}

TEST(Lexer, Locations) {
  Lexer lexer = Open("a\n  b # é\n\tc");
  lexer.Next();
  EXPECT_EQ(lexer.Where(lexer.Peek()), "t:2:3");
  lexer.Next();
  EXPECT_EQ(lexer.Where(lexer.Peek()), "t:3:2");
  lexer.Next();
  EXPECT_EQ(lexer.Error("x").ToString(), "t:3:3: x");
  EXPECT_EQ(lexer.Peek(100).kind, TokenKind::kEnd);
  EXPECT_EQ(lexer.Next().kind, TokenKind::kEnd);
}

TEST(Lexer, HostileBytes) {
  using namespace std::string_view_literals;
  EXPECT_EQ(ErrorOf("a\n \0"sv), "t:2:2: unexpected character U+0000");
  EXPECT_EQ(ErrorOf("a \x01"), "t:1:3: unexpected character U+0001");
  EXPECT_EQ(ErrorOf("a\xff"), "t:1:2: byte 0xff is not UTF-8");
  EXPECT_EQ(ErrorOf("\"ab\xc3\""), "t:1:4: byte 0xc3 is not UTF-8");
  EXPECT_EQ(ErrorOf("\"\xc0\x80\""), "t:1:2: byte 0xc0 is not UTF-8");          // overlong
  EXPECT_EQ(ErrorOf("\"\xed\xa0\x80\""), "t:1:2: byte 0xed is not UTF-8");      // surrogate
  EXPECT_EQ(ErrorOf("\"\xf4\x90\x80\x80\""), "t:1:2: byte 0xf4 is not UTF-8");  // above 10FFFF
  EXPECT_EQ(ErrorOf("\"a\0\""sv), "t:1:3: unexpected character U+0000");
  EXPECT_EQ(ErrorOf("é"), "t:1:1: unexpected character U+00E9");
  EXPECT_EQ(ErrorOf("# \xff\0 anything\na"sv), "ok");
  EXPECT_EQ(ErrorOf("\"open"), "t:1:6: the string does not end on its line");
  EXPECT_EQ(ErrorOf("\"open\n\""), "t:1:6: the string does not end on its line");
  EXPECT_EQ(ErrorOf("\"a\\"), "t:1:3: unknown escape, expected one of \\n \\t \\r \\\" \\\\ \\xNN");
  EXPECT_NE(ErrorOf("\"\\xg1\""), "ok");
  EXPECT_NE(ErrorOf("\"\\x+1\""), "ok");
  EXPECT_NE(ErrorOf("\"\\x1"), "ok");
  EXPECT_EQ(ErrorOf("1e999"), "t:1:1: the number is too large or too small for a float");
}

TEST(Lexer, RandomBytesNeverCrash) {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "ab09.eE+-\"\\x#\n \t\xc3\xa9\xff_[](),=>";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t length = random() % 40; text.size() < length;) {
      text +=
          random() % 8 == 0 ? static_cast<char>(random()) : kAlphabet[random() % kAlphabet.size()];
    }
    const Result<Lexer> lexer = Lexer::Open(text, "t");
    EXPECT_TRUE(lexer.ok() || lexer.status().where().starts_with("t:"));
  }
}

TEST(Lexer, Expectations) {
  Lexer lexer = Open("x -5 +7 9 18446744073709551615 - inf nan -2.5 \"s\" f32 [1, 0] end");
  EXPECT_FALSE(lexer.Accept("y"));
  EXPECT_EQ(*lexer.ExpectName(), "x");
  EXPECT_EQ(*lexer.ExpectInt(), -5);
  EXPECT_EQ(*lexer.ExpectInt(), 7);
  EXPECT_EQ(*lexer.ExpectFloat(), 9.0);
  EXPECT_EQ(*lexer.ExpectUint(), UINT64_MAX);
  EXPECT_EQ(*lexer.ExpectFloat(), -INFINITY);
  EXPECT_TRUE(std::isnan(*lexer.ExpectFloat()));
  EXPECT_EQ(*lexer.ExpectFloat(), -2.5);
  EXPECT_FALSE(lexer.Is("s"));  // a quoted word is never a keyword
  EXPECT_EQ(*lexer.ExpectString(), "s");
  EXPECT_EQ(*lexer.ExpectDtype(), Dtype::kF32);
  EXPECT_EQ(*lexer.ExpectShape(), (Shape{1, 0}));
  EXPECT_EQ(lexer.ExpectInt().status().ToString(), "t:1:62: found `end`, expected an integer");
  EXPECT_EQ(lexer.Expect(")").ToString(), "t:1:62: found `end`, expected `)`");
  EXPECT_TRUE(lexer.Accept("end"));
  EXPECT_FALSE(lexer.ExpectName().ok());
  EXPECT_FALSE(lexer.ExpectShape().ok());
}

TEST(Lexer, IntegerLimits) {
  Lexer lexer = Open("-9223372036854775808 9223372036854775808 -1 18446744073709551616");
  EXPECT_EQ(*lexer.ExpectInt(), INT64_MIN);
  EXPECT_EQ(lexer.ExpectInt().status().what(), "`9223372036854775808` does not fit 64 bits");
  EXPECT_EQ(*lexer.ExpectUint(), uint64_t{1} << 63);
  EXPECT_FALSE(lexer.ExpectUint().ok());
  lexer.Next();
  lexer.Next();
  EXPECT_FALSE(lexer.ExpectUint().ok());
  Lexer shape = Open("[2, -1]");
  EXPECT_EQ(shape.ExpectShape().status().ToString(), "t:1:5: extent -1 is negative");
}

TEST(Text, StringsReadBack) {
  std::mt19937 random(2);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t length = random() % 20; text.size() < length;) {
      text +=
          random() % 2 ? static_cast<char>(random()) : static_cast<char>("aé\\\"\n"[random() % 6]);
    }
    const std::string printed = PrintString(text);
    EXPECT_EQ(*Open(printed).ExpectString(), text);
    EXPECT_EQ(*Open(PrintName(text)).ExpectName(), text);
  }
  EXPECT_EQ(PrintString("é\x7f\xff\u202e\xc2\x9b"), "\"é\\x7f\\xff\\xe2\\x80\\xae\\xc2\\x9b\"");
}

TEST(Text, Names) {
  EXPECT_EQ(PrintName("conv1.out"), "conv1.out");
  EXPECT_EQ(PrintName("/conv1/Conv"), "\"/conv1/Conv\"");
  EXPECT_EQ(PrintName(""), "\"\"");
  EXPECT_EQ(PrintName("mod"), "\"mod\"");
  EXPECT_EQ(PrintName("_"), "\"_\"");
  EXPECT_EQ(PrintName("_x"), "_x");
  EXPECT_EQ(PrintName("1x"), "\"1x\"");
  EXPECT_EQ(PrintName(std::string(64, '0')), std::string(64, '0'));
}

TEST(Text, FloatsReadBack) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t bits = random();
    const double d = std::bit_cast<double>(bits);
    const float f = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(d) || std::isnan(f)) continue;
    EXPECT_EQ(*Open(PrintFloat(d)).ExpectFloat(), d);
    EXPECT_EQ(static_cast<float>(*Open(PrintFloat(f)).ExpectFloat()), f);
  }
  EXPECT_EQ(PrintFloat(1.0), "1.0");
  EXPECT_EQ(PrintFloat(0.1f), "0.1");
  EXPECT_EQ(PrintFloat(-0.0), "-0.0");
  EXPECT_EQ(PrintFloat(1e30), "1e+30");
  EXPECT_EQ(PrintFloat(-INFINITY), "-inf");
  EXPECT_EQ(PrintFloat(-std::nan("")), "nan");
  EXPECT_TRUE(std::signbit(*Open("-0.0").ExpectFloat()));
  EXPECT_EQ(*Open("4.9406564584124654e-324").ExpectFloat(), 4.9406564584124654e-324);
}

}  // namespace
}  // namespace weft
