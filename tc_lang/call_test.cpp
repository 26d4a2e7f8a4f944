// Calls between defs: inlined, hygienic, checked at the call with both locations.
#include <fmt/format.h>

#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

constexpr const char* kLibrary = R"(
def fc(float(B, K) x, float(K, N) w, float(N) b) -> (y) {
  t(i, n) +=! x(i, k) * w(k, n)
  y(i, n) = t(i, n) + b(n)
}
def extremes(float(N) v) -> (lo, hi) {
  lo min=! v(i)
  hi max=! v(i)
}
def gelu(float x) -> (y) {
  half_x = 0.5 * x
  y = half_x * (1.0 + erf(x * 0.70710678))
}
def scaled(float(N) v, float s, size M) -> (float(N) y) { y(i) = v(i) * s + float(M) }
)";

Result<Program> BindLast(const std::string& text, const std::map<std::string, int64_t>& sizes = {},
                         const std::vector<std::string>& params = {}) {
  WEFT_TRY(const std::vector<Def> defs, ParseDefs(kLibrary + text, "t.tc"));
  return Bind(defs.back(), Sizes{sizes, params}, defs);
}

std::string WhyNot(const std::string& text, const std::map<std::string, int64_t>& sizes = {}) {
  const Result<Program> program = BindLast(text, sizes);
  return program.ok() ? "no error" : program.status().ToString();
}

// As RunText: it verifies, and reads back as itself.
std::vector<double> RunLast(const std::string& text, const std::map<std::string, int64_t>& sizes,
                            const std::vector<Tensor>& inputs) {
  const Result<Program> program = BindLast(text, sizes);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return {};
  EXPECT_TRUE(Verify(*program).ok()) << Verify(*program).ToString() << Print(*program);
  const Result<Program> again = Parse(Print(*program), "printed");
  EXPECT_TRUE(again.ok()) << again.status().ToString() << Print(*program);
  EXPECT_TRUE(again.ok() && Equal(*program, *again)) << Print(*program);
  const auto out = Interpret(*program, inputs);
  EXPECT_TRUE(out.ok()) << out.status().ToString();
  return out.ok() ? Values(out->back()) : std::vector<double>();
}

// The types of the recurrence are open until after the calls between its statements.
TEST(Calls, StandBetweenStatementsOfARecurrence) {
  EXPECT_EQ(RunLast("def copy(int16(4) x) -> (y) { y(i) = x(i) }\n"
                    "def f(int16(4) x) -> (h) {\n"
                    "  p(t) = t > 0 ? r(t - 1) : x(t) where t in 0:4\n"
                    "  z = copy(x)\n"
                    "  q(t) = t > 0 ? h(t - 1) : z(t) where t in 0:4\n"
                    "  w = copy(z)\n"
                    "  r(t) = p(t) + q(t) * w(t)\n"
                    "  h(t) = max(r(t), q(t)) * int16(3000)\n}",
                    {}, {Make(Dtype::kI16, {4}, {1, 2, 3, 4})}),
            (std::vector<double>{6000, 26736, -8064, 31216}));
}

TEST(Calls, AStatementFillsWholeTensors) {
  const Result<Program> program = BindLast(
      "def net(float(2, 3) x, float(3, 4) w, float(4) b) -> (o) { h = fc(x, w, b)\n"
      "  o(i, j) = max(h(i, j), 0.0) }");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(Print(*program),
            "def net(float(2, 3) x, float(3, 4) w, float(4) b) -> (float(2, 4) o) {\n"
            "  @contraction fc_t(i, n) +=! x(i, k) * w(k, n) where i in 0:2, n in 0:4, k in 0:3\n"
            "  @pointwise h(i, n) = fc_t(i, n) + b(n) where i in 0:2, n in 0:4\n"
            "  @pointwise o(i, j) = max(h(i, j), 0.0) where i in 0:2, j in 0:4\n}\n");
  EXPECT_EQ(RunLast("def net(float(2, 2) x, float(2, 1) w, float(1) b) -> (o) { o = fc(x, w, b) }",
                    {}, {Floats({2, 2}, {1, 2, 3, 4}), Floats({2, 1}, {5, 6}), Floats({1}, {1})}),
            (std::vector<double>{18, 40}));
  EXPECT_EQ(RunLast("def f(float(3) v) -> (r) { (a, b) = extremes(v); r = b - a }", {},
                    {Floats({3}, {4, -1, 2})}),
            (std::vector<double>{5}));
}

TEST(Calls, InsideExpressions) {
  EXPECT_EQ(
      RunLast("def f(float(2, 2) x, float(2, 2) w, float(2) b) -> (o) {\n"
              "  o(i) +=! fc(fc(x, w, b), w, b)(i, j) + 1.0 }",
              {},
              {Floats({2, 2}, {1, 2, 3, 4}), Floats({2, 2}, {1, 0, 1, 1}), Floats({2}, {0, 1})}),
      (std::vector<double>{12, 20}));
  EXPECT_EQ(RunLast("def top(float(N) v) -> (m) { m max=! v(i) }\n"
                    "def f(float(3) v) -> (o) { o(i) = v(i) / top(v) }",
                    {}, {Floats({3}, {2, 4, 1})}),
            (std::vector<double>{0.5, 1, 0.25}));
}

// The names of a callee are its own: indices, temporaries, lets and sizes that the caller has, too.
TEST(Calls, NamesAreNotCaptured) {
  const std::string callee =
      "def inner(float(N) a) -> (o) { t(i) = a(i) + k where k = 1.0\n"
      "  o(i) = t(i) * float(N) }\n";
  EXPECT_EQ(RunLast(callee + "def f(float(N) t, float(3) o) -> (i) {\n"
                             "  a(k) = t(k) * 10.0\n"
                             "  inner_t(k) = o(k)\n"
                             "  b = inner(o)\n"
                             "  i(k) = a(k) + b(0) + inner_t(1) }",
                    {{"N", 2}}, {Floats({2}, {1, 2}), Floats({3}, {4, 5, 6})}),
            (std::vector<double>{30, 40}));
  // Nor does what names are made of become a builtin.
  EXPECT_EQ(RunLast("def bit(float(N) a) -> (o) { and(i) = a(i) + 1.0\n  o(i) = and(i) }\n"
                    "def f(float(1) x) -> (y) { a = bit(x); y(i) = a(i) + float(bit_and(i, 2)) }",
                    {}, {Floats({1}, {1})}),
            (std::vector<double>{2}));
  // A function sees neither the caller's tensors nor its indices.
  EXPECT_NE(WhyNot("def leak(float x) -> (y) { y = x + i }\n"
                   "def f(float(3) v) -> (o) { o(i) = leak(v(i)) }")
                .find("'i' is no scalar that 'leak' has defined"),
            std::string::npos);
  EXPECT_NE(WhyNot("def leak(float x) -> (y) { y = x + v(0) }\n"
                   "def f(float(3) v) -> (o) { o(i) = leak(v(i)) }")
                .find("'v' is neither a tensor"),
            std::string::npos);
}

TEST(Calls, FunctionsOfScalarsTakeExpressions) {
  const Result<Program> program = BindLast(
      "def sq(float x) -> (y) { y = x * x }\n"
      "def f(float(3) x) -> (o) { o(i) = sq(sq(x(i)) + sq(2.0)) }");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(program->statements.size(), 1);
  EXPECT_EQ(RunLast("def sq(float x) -> (y) { t = x; y = t * x }\n"
                    "def f(float(3) x) -> (o) { o(i) = sq(sq(x(i)) + sq(2)) }",
                    {}, {Floats({3}, {0, 1, 2})}),
            (std::vector<double>{16, 25, 64}));
  // What it stores in 16 bits is rounded there, as a statement would.
  EXPECT_EQ(RunLast("def third(float x) -> (float16 y) { y = float16(x / 3.0) }\n"
                    "def f(float(1) x) -> (o) { o(i) = float(third(x(i))) * 3.0 - x(i) }",
                    {}, {Floats({1}, {1})}),
            (std::vector<double>{-0.000244140625}));
  EXPECT_NE(WhyNot("def f(double(3) x) -> (o) { o(i) = gelu(x(i)) }")
                .find("found double for 'x', expected float (declared at 10:16)"),
            std::string::npos);
}

TEST(Calls, ScalarsAndSizesAreArguments) {
  EXPECT_EQ(RunLast("def f(float(2) v, float(3) u) -> (o) { s +=! u(i)\n"
                    "  o = scaled(v, s + 1.0, 2 * 5) }",
                    {}, {Floats({2}, {1, 2}), Floats({3}, {1, 1, 1})}),
            (std::vector<double>{14, 18}));
  EXPECT_NE(WhyNot("def f(float(2) v) -> (o) { o(i) = scaled(v, v(i), 1)(i) }")
                .find("found the index 'i' in the argument for 's'"),
            std::string::npos);
}

TEST(Calls, CheckedWithBothLocations) {
  EXPECT_NE(WhyNot("def f(float(2, 3) x, float(4, 5) w, float(5) b) -> (o) { o = fc(x, w, b) }")
                .find("t.tc:15:68: the size 'K' of 'fc' is 3 by extent 1 of 'x' and 4 by extent 0 "
                      "of 'w' (declared at 2:29)"),
            std::string::npos)
      << WhyNot("def f(float(2, 3) x, float(4, 5) w, float(5) b) -> (o) { o = fc(x, w, b) }");
  EXPECT_NE(WhyNot("def f(float(3) x, float(4, 5) w, float(5) b) -> (o) { o = fc(x, w, b) }")
                .find("found float of rank 1 for 'x' of 'fc', expected float of rank 2 (declared "
                      "at 2:20)"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(double(3) v) -> (o, p) { (o, p) = extremes(v) }")
                .find("found double of rank 1 for 'v' of 'extremes', expected float"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o = extremes(v) }")
                .find("found 1 targets for 'extremes', which gives 2 (declared at 6:5)"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o(i) = v(i) + extremes(v) }")
                .find("'extremes' gives 2 tensors"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o = scaled(v) }")
                .find("found 1 arguments for 'scaled', expected 3"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (int8(3) o) { o = scaled(v, 1.0, 1) }")
                .find("'scaled' gives float (declared at 14:54), expected int8 for 'o'"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o = scaled(w, 1.0, 1) }")
                .find("found 'w' for 'v', expected a tensor"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o = scaled(v(i) + 1.0, 1.0, 1) }")
                .find("found an expression for 'v', which has rank 1"),
            std::string::npos);
  EXPECT_NE(WhyNot("def f(float(3) v) -> (o) { o(i) = v(i)\n o = scaled(v, 1.0, 1) }")
                .find("'o' holds something already"),
            std::string::npos);
  // An error inside names the call that led there.
  EXPECT_NE(WhyNot("def bad(float(N) a) -> (o) { o(i) = a(i + 2) where i in 0:N }\n"
                   "def f(float(3) v) -> (o) { o = bad(v) }")
                .find("outside of 0:3 (in the call of 'bad' at 16:32)"),
            std::string::npos);
}

TEST(Calls, NoneRecurs) {
  EXPECT_NE(
      WhyNot("def f(float(N) x) -> (float(N) y) { y = f(x) }", {{"N", 2}}).find("'f' calls itself"),
      std::string::npos);
  const auto defs = ParseDefs(
      "def f(float(N) x) -> (y) { y = g(x) }\ndef g(float(N) x) -> (y) { y = f(x) }", "t.tc");
  ASSERT_TRUE(defs.ok());
  const auto program = Bind(defs->at(0), {{{"N", 2}}, {}}, *defs);
  EXPECT_NE(program.status().ToString().find("'g' stands below 'f'"), std::string::npos);
  EXPECT_NE(
      WhyNot("def h(float x) -> (y) { y = h(x) }\ndef f(float(2) x) -> (o) { o(i) = h(x(i)) }")
          .find("'h' calls itself"),
      std::string::npos);
}

// Each def calls the one above twice: what that would write out ends in an error, soon.
TEST(Calls, GrowthIsBounded) {
  for (const auto& [first, call] :
       {std::pair("def f0(float x) -> (y) { y = x + 1.0 }\n",
                  "def f{}(float x) -> (y) {{ y = f{}(x) + f{}(x) }}\n"),
        {"def f0(float x) -> (y) { y = z }\n",
         "def f{}(float x) -> (y) {{ y = f{}(x) + f{}(x) }}\n"},
        {"def f0(float(2) x) -> (y) { y(i) = x(i) }\n",
         "def f{}(float(2) x) -> (y) {{ a = f{}(x); b = f{}(a); y(i) = b(i) }}\n"}}) {
    std::string text = first;
    for (int k = 1; k < 60; ++k) text += fmt::format(fmt::runtime(call), k, k - 1, k - 1);
    text += text.find("(2)") != text.npos ? "def g(float(2) x) -> (o) { o = f59(x) }"
                                          : "def g(float(2) x) -> (o) { o(i) = f59(x(i)) }";
    EXPECT_NE(WhyNot(text), "no error");
  }
}

TEST(Calls, OpenSizesPassThrough) {
  const Result<Program> program = BindLast(
      "def f(float(N, 2) x, float(2, 3) w, float(3) b) -> (o) { o = fc(x, w, b) }", {}, {"N"});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ((*program)[Outputs(*program)[0]].extents[0], Affine::OfVar(0));
  EXPECT_TRUE(Verify(*program).ok());
}

// x() is the scalar x where a function has it, as it is elsewhere.
TEST(Calls, FunctionsMayWriteScalarsWithParentheses) {
  EXPECT_EQ(RunLast("def twice(float x) -> (float y) { h() = x() + x  y = h() }\n"
                    "def f(float(3) v) -> (o) { o(i) = twice(v(i)) }",
                    {}, {Floats({3}, {1, 2, 3})}),
            (std::vector<double>{2, 4, 6}));
  EXPECT_NE(WhyNot("def late(float x) -> (float y) { y = h() + x  h = x }\n"
                   "def f(float(3) v) -> (o) { o(i) = late(v(i)) }")
                .find("'h' is no scalar that 'late' has defined"),
            std::string::npos);
}

// A callee's own coordinates end with it; its recurrences stay loops.
TEST(Calls, CoordinatesAndRecurrencesStayInside) {
  EXPECT_EQ(RunLast("def tail(float(N) a) -> (o) { o(i) = a(i) where i in 1:N }\n"
                    "def sums(float(N) a) -> (s) { s(t) = a(t) + (t > 0 ? s(t - 1) : 0.0) }\n"
                    "def f(float(4) v) -> (o) { a = tail(v); b = sums(a); o(i) = b(i) }",
                    {}, {Floats({4}, {1, 2, 3, 4})}),
            (std::vector<double>{2, 5, 9}));
}

}  // namespace
}  // namespace weft::tc
