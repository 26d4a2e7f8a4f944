#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tc_lang/syntax.h"

namespace weft::tc {
namespace {

// The tree with every pair of parentheses that it means.
std::string Tree(const SyntaxExpr& e) {
  if (e.args.empty()) return e.text;
  if (e.kind == SyntaxKind::kUnary) return fmt::format("({}{})", e.text, Tree(*e.args[0]));
  if (e.kind == SyntaxKind::kBinary)
    return fmt::format("({}{}{})", Tree(*e.args[0]), e.text, Tree(*e.args[1]));
  if (e.kind == SyntaxKind::kSelect) {
    return fmt::format("({}?{}:{})", Tree(*e.args[0]), Tree(*e.args[1]), Tree(*e.args[2]));
  }
  std::string args;
  for (const SyntaxExprPtr& arg : e.args) args += (args.empty() ? "" : ",") + Tree(*arg);
  return fmt::format("{}({})", e.text, args);
}

std::string TreeOf(const std::string& expression) {
  const auto defs = ParseDefs("def f(float(N) x) -> (y) { y(i) = " + expression + " }", "t");
  return defs.ok() ? Tree(*defs->at(0).statements.at(0).values.at(0)) : defs.status().ToString();
}

std::string ParseError(const std::string& text) {
  const auto defs = ParseDefs(text, "t.tc");
  return defs.ok() ? "no error" : defs.status().ToString();
}

TEST(Parser, Precedence) {
  EXPECT_EQ(TreeOf("-3%2+4*5+7-a"), "(((((-3)%2)+(4*5))+7)-a)");
  EXPECT_EQ(TreeOf("a ? b : c ? d : e"), "(a?b:(c?d:e))");
  EXPECT_EQ(TreeOf("a || b && c < d + e * -f"), "(a||(b&&(c<(d+(e*(-f))))))");
  EXPECT_EQ(TreeOf("!a && b == c != d"), "((!a)&&((b==c)!=d))");
  EXPECT_EQ(TreeOf("a - b - c / d / e"), "((a-b)-((c/d)/e))");
  EXPECT_EQ(TreeOf("min(max(x(i), 0.0), float(i))"), "min(max(x(i),0.0),float(i))");
}

TEST(Parser, NamesThatLookLikeNumbers) {
  EXPECT_EQ(TreeOf("inf + nan + info + e1 + infinity1"), "((((inf+nan)+info)+e1)+infinity1)");
  EXPECT_EQ(TreeOf("1.5e3 + .5 + 3E5 + 2."), "(((1.5e3+.5)+3E5)+2.)");
  EXPECT_EQ(TreeOf("0x10"),
            "t:1:35: found 'x' joined to a number, expected a space or an operator [E0103]\n"
            "    def f(float(N) x) -> (y) { y(i) = 0x10 }\n"
            "                                      ^");
  EXPECT_NE(TreeOf("1e").find("joined to a number"), std::string::npos);
  EXPECT_NE(TreeOf("1.2.3").find("joined to a number"), std::string::npos);
}

// An origin is one line without control characters, so that it reads back as it prints.
TEST(Parser, CommentsAreOneCleanLine) {
  const auto defs =
      ParseDefs("def f(float(2) x) -> (y) { y(i) = x(i)  # \x01# a\tb\x1b \r\n }", "f");
  ASSERT_TRUE(defs.ok()) << defs.status().ToString();
  EXPECT_EQ(defs->at(0).statements[0].origin, "a b");
}

TEST(Parser, StatementsNeedNoSeparatorButTuplesDo) {
  const auto defs = ParseDefs(
      "def f(float(N) x) -> (y, z, k) {\n"
      "  y(i) = x(i) where i in 0:N\n"
      "  y(i) = y(i) + 1.0;\n"
      "  (z, k) max=! (x(i), i)  # /argmax\n"
      "}\n",
      "t");
  ASSERT_TRUE(defs.ok()) << defs.status().ToString();
  ASSERT_EQ(defs->at(0).statements.size(), 3);
  EXPECT_EQ(defs->at(0).statements[2].targets.size(), 2);
  EXPECT_EQ(defs->at(0).statements[2].origin, "/argmax");
  EXPECT_TRUE(defs->at(0).statements[2].init);
  EXPECT_EQ(defs->at(0).statements[2].assign, "max=");
}

TEST(Parser, EveryClauseAndParameter) {
  const auto defs = ParseDefs(
      "def f(float(N, 3) x, size S, int8 flag, float16(size) size) -> (float(N) y, z) {\n"
      "  const float16 D(2) = {-1.0, 2}\n"
      "  float16(N) t\n"
      "  @pointwise t(i) = x(i, 0) where i in 0:N - 1, a = i + 1, exists x(a, 0)\n"
      "  y(i) min= t(i)\n"
      "}\ndef g() -> (a) { a = 1 }",
      "t");
  ASSERT_TRUE(defs.ok()) << defs.status().ToString();
  const Def& f = defs->at(0);
  EXPECT_EQ(defs->size(), 2);
  EXPECT_TRUE(f.params[1].is_size);
  EXPECT_EQ(f.params[2].dims.size(), 0);
  EXPECT_EQ(f.params[3].name, "size");
  EXPECT_EQ(f.constants.size(), 1);
  EXPECT_EQ(f.temporaries.size(), 1);
  EXPECT_EQ(f.statements[0].tag, "pointwise");
  EXPECT_EQ(f.statements[0].clauses[1].kind, SyntaxClause::kLet);
  EXPECT_EQ(f.statements[0].clauses[2].kind, SyntaxClause::kExists);
  EXPECT_EQ(f.statements[1].assign, "min=");
}

TEST(Parser, SeveralErrorsARunEachWithItsLineAndACaret) {
  EXPECT_EQ(ParseError("def f(float(N) x) -> (y, z) {\n"
                       "  y(i) = x(i\n"
                       "  z(i) += x(i) where i on 0:N\n"
                       "  y(i) = ) + 1\n"
                       "}\n"),
            "t.tc:3:3: found 'z', expected ',' or ')' [E0102]\n"
            "      z(i) += x(i) where i on 0:N\n"
            "      ^\n"
            "t.tc:3:24: found 'on', expected 'in' or '=', did you mean 'in'? [E0102]\n"
            "      z(i) += x(i) where i on 0:N\n"
            "                           ^\n"
            "t.tc:4:10: found ')', expected an expression [E0102]\n"
            "      y(i) = ) + 1\n"
            "             ^");
}

TEST(Parser, WhatIsMissingIsReportedAtWhatWasFound) {
  EXPECT_EQ(ParseError(""), "t.tc:1:1: the text holds no def [E0105]");
  EXPECT_EQ(ParseError("# nothing\n"),
            "t.tc:1:1: the text holds no def [E0105]\n    # nothing\n    ^");
  EXPECT_NE(ParseError("garbage").find("t.tc:1:1: found 'garbage', expected 'def'"),
            std::string::npos);
  EXPECT_NE(ParseError("def f(float(N) x) -> (y) { y(i) = x(i)").find("found the end of the text"),
            std::string::npos);
  EXPECT_NE(
      ParseError("def f(float(N+1) x) -> (y) { y = 1 }").find("expected a name or an integer"),
      std::string::npos);
  EXPECT_NE(ParseError("def f(x) -> (y) { y = 1 }").find("found 'x', expected an element type"),
            std::string::npos);
  EXPECT_NE(ParseError("def f() -> (y) { y = 1 }\ndef f() -> (y) { y = 1 }")
                .find("a def named 'f' stands above"),
            std::string::npos);
}

// A type is never a name, since its uses would read as casts, nor is a word that opens something.
TEST(Parser, KeywordsAreNoNames) {
  for (const char* text :
       {"def float() -> (y) { y = 1 }", "def f(float int8) -> (y) { y = 1 }",
        "def f() -> (y) { y +=! 1 where bool in 0:3 }",
        "def f() -> (y) { y +=! 1 where exists in 0:3 }", "def f(float in) -> (y) { y = in }",
        "def f(float def) -> (y) { y = 1 }"}) {
    EXPECT_NE(ParseError(text).find("expected"), std::string::npos) << text;
  }
}

TEST(Parser, BytesOutsideOfComments) {
  EXPECT_NE(ParseError(std::string("def f() -> (y) { y = 1 \0 }", 26)).find("found the byte 0x00"),
            std::string::npos);
  EXPECT_NE(ParseError("def f() -> (y) { y = \xC3\xA9 }").find("found the byte 0xc3"),
            std::string::npos);
  EXPECT_NE(ParseError("def f() -> (y) { y = $ }").find("found the character '$'"),
            std::string::npos);
  EXPECT_EQ(ParseError("def f() -> (y) { y = 1 } # \xC3\xA9t\xC3\xA9"), "no error");
}

TEST(Parser, DepthIsBounded) {
  const auto nested = [](const std::string& open, const std::string& close) {
    std::string text = "def f() -> (y) { y = ";
    for (int k = 0; k < 100000; ++k) text += open;
    text += "1";
    for (int k = 0; k < 100000; ++k) text += close;
    return ParseError(text + " }");
  };
  for (const auto& [open, close] : {std::pair("(", ")"),
                                    {"-", ""},
                                    {"1+", ""},
                                    {"1?1:", ""},
                                    {"exp(", ")"},
                                    {"!", ""},
                                    {"1<", ""}}) {
    EXPECT_NE(nested(open, close).find("nested more than 500 deep"), std::string::npos) << open;
  }
}

}  // namespace
}  // namespace weft::tc
