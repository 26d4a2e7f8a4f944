// Errors as a reader meets them: numbered, with the line, what may have been meant and what to try.
#include <fmt/format.h>

#include <set>

#include "tc_lang/diagnostics.h"
#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

std::string ErrorOfLast(const std::string& text) {
  const auto defs = ParseDefs(text, "t.tc");
  if (!defs.ok()) return defs.status().ToString();
  const auto program = Bind(defs->back(), {{{"N", 3}, {"Z", int64_t{1} << 50}}, {"P"}}, *defs);
  return program.ok() ? "no error" : program.status().ToString();
}

std::string Body(const std::string& statements, const std::string& outputs = "y") {
  return "def f(float(3) x, int32(3) k, float(P, 2) p, float(2, 2, 2) c) -> (" + outputs + ") { " +
         statements + " }";
}

struct Case {
  Problem problem;
  std::string text;
};

std::vector<Case> Cases() {
  const std::string g = "def g(float(2) a) -> (b) { b(i) = a(i) }\n";
  const std::string sq = "def sq(float a) -> (b) { b = a * a }\n";
  return {
      {Problem::kByte, "def f() -> (y) { y = $ }"},
      {Problem::kSyntax, "def f() -> (y) { y 1 }"},
      {Problem::kNumber, "def f() -> (y) { y = 0x1 }"},
      {Problem::kNumber, "def f() -> (y) { y = 99999999999999999999 }"},
      {Problem::kNesting, "def f() -> (y) { y = " + std::string(600, '(') + "1 }"},
      {Problem::kNesting, "def " + std::string(1 << 20, 'a') + "() -> (y) { y = 1 }"},
      {Problem::kNoDef, "# nothing"},
      {Problem::kUnknownName, Body("y(i) = z(i)")},
      {Problem::kTakenName, Body("y(x) = 1.0")},
      {Problem::kTakenName, g + g},
      {Problem::kNeverWritten, Body("y(i) = x(i)", "y, z")},
      {Problem::kReadOnly, Body("x(i) = 1.0 y(i) = x(i)")},
      {Problem::kUnknownTag, Body("@reduce y +=! x(i)")},
      {Problem::kSelfReference, Body("y(i) = a where a = a + 1, i in 0:3")},
      {Problem::kTypes, Body("y(i) = x(i) && x(i)")},
      {Problem::kNarrowing, Body("y(i) = x(i)", "int32(3) y")},
      {Problem::kWrongType, Body("y(i) = x(x(i))")},
      {Problem::kConstant, Body("const D(3) = {1.0} y(i) = D(i)")},
      {Problem::kOperands, Body("y(i) = exp(x(i), x(i))")},
      {Problem::kRank, Body("y(i) = x(i, i)")},
      {Problem::kOpenRange, Body("y(i, j) = x(i)")},
      {Problem::kBackwardRange, Body("y(i) = x(i) where i in 2:1")},
      {Problem::kNotZeroBased, Body("y(i) = x(i + 1)")},
      {Problem::kOutside, Body("y(i) = x(i) where i in 0:4")},
      {Problem::kBound, Body("y(i) = x(i) where i in 0:k(0)")},
      {Problem::kOpenSize, Body("y(i, j) = p(j, i)")},
      {Problem::kExtent, Body("y(i) = x(i)", "float(4) y")},
      {Problem::kUnknownSize, "def f(float(M) x) -> (y) { y(i) = x(i) }"},
      {Problem::kLeftSubscript, Body("y(i * i) +=! 1.0 where i in 0:2")},
      {Problem::kTwoRanges, Body("y(i) = x(i) where i in 0:1, i in 0:2")},
      {Problem::kTooLarge, "def f(float(Z) x) -> (y) { y(i) = x(i) }"},
      {Problem::kTooLarge, Body("y(i, j) = 1.0 where i in 0:3000000000, j in 0:3000000000")},
      {Problem::kNoReduction, Body("y = x(i)")},
      {Problem::kUndefined, Body("y += x(i)")},
      {Problem::kTuple, Body("y = 1.0; (a, b) +=! (x(i), i)")},
      {Problem::kCells, Body("y(2 * i) = x(i)")},
      {Problem::kCells, Body("y(i) = t(i) + x(i) t(i) = x(i)")},
      {Problem::kRecurrence, Body("y(i) = x(i) where i in 0:3 y(i) = y(2 - i) where i in 0:3")},
      {Problem::kSegment, Body("y(j) +=! x(j) where j in k(i):k(i + 1) max 2")},
      {Problem::kStrides, "def f(float(3) x strides(0 - 2)) -> (y) { y(i) = x(i) }"},
      {Problem::kArguments, g + "def f(float(2) x) -> (y) { y = g(x, x) }"},
      {Problem::kArgument, g + "def f(double(2) x) -> (y) { y = g(x) }"},
      {Problem::kRecursion, "def f(float(2) x) -> (y) { y = f(x) }"},
      {Problem::kTarget, g + "def f(float(2) x) -> (y) { y(i) = x(i); y = g(x) }"},
      {Problem::kFunction,
       "def h(float a) -> (b) { b = a + i }\n"
       "def f(float(2) x) -> (y) { y(i) = h(x(i)) }"},
      {Problem::kTooMuch, Body("y(i) = l60 where i in 0:3, l0 = x(i)" +
                               [] {
                                 std::string lets;
                                 for (int k = 1; k <= 60; ++k)
                                   lets += fmt::format(", l{} = l{} + l{}", k, k - 1, k - 1);
                                 return lets;
                               }())},
  };
}

TEST(Errors, EachNumberHasAText) {
  std::set<Problem> seen;
  for (const Case& c : Cases()) {
    const std::string number = fmt::format("[E{:04}]", static_cast<int>(c.problem));
    const std::string error = ErrorOfLast(c.text);
    EXPECT_EQ(error.substr(0, 5), "t.tc:") << error;
    EXPECT_NE(error.find(number), std::string::npos) << number << "\n" << error;
    EXPECT_LT(error.size(), 4000) << error.substr(0, 200);
    seen.insert(c.problem);
  }
  for (const Problem problem : {
#define WEFT_TC_PROBLEM(number, name) Problem::k##name,
#include "tc_lang/problems.def"
#undef WEFT_TC_PROBLEM
       }) {
    EXPECT_TRUE(seen.contains(problem)) << static_cast<int>(problem) << " has no text";
  }
}

TEST(Errors, SayWhatMayHaveBeenMeant) {
  const auto meant = [](const std::string& text) {
    const std::string error = ErrorOfLast(text);
    const size_t at = error.find("did you mean '");
    return at == error.npos ? error : error.substr(at + 14, error.find('\'', at + 14) - at - 14);
  };
  EXPECT_EQ(meant("dfe f() -> (y) { y = 1 }"), "def");
  EXPECT_EQ(meant("def f(flaot(3) x) -> (y) { y(i) = x(i) }"), "float");
  EXPECT_EQ(meant("def f(siez N) -> (y) { y = N }"), "size");
  EXPECT_EQ(meant(Body("y(i) = x(i) wher i in 0:3")), "where");
  EXPECT_EQ(meant(Body("flot(3) t t(i) = x(i)")), "float");
  EXPECT_EQ(meant(Body("y(i) = x(i) where i ni 0:3")), "in");
  EXPECT_EQ(meant(Body("y(i) = 1.0 where exist x(i)")), "exists");
  EXPECT_EQ(meant(Body("@contracton y(i) = x(i)")), "contraction");
  EXPECT_EQ(meant(Body("y(i) = sigmiod(x(i))")), "sigmoid");
  EXPECT_EQ(meant(Body("total +=! x(i); y(i) = x(i) * totl(0)")), "total");
  EXPECT_EQ(meant(Body("y(row) = x(row) + float(rwo)")), "row");
  EXPECT_EQ(meant(Body("y(row, col) +=! x(row) * c(row, col, cul)")), "no error");
  EXPECT_EQ(meant(Body("y(row) +=! x(row) * float(rov)")), "row");
  EXPECT_EQ(meant("def f(float(3) x, size LEN) -> (y) { y(i) = x(i) where i in 0:LEM }"),
            "t.tc:1:24: the size 'LEN' is not known [E0408]\n"
            "    def f(float(3) x, size LEN) -> (y) { y(i) = x(i) where i in 0:LEM }\n"
            "                           ^; try: --size LEN=V");
}

TEST(Errors, SuggestAWhereClause) {
  const auto hint = [](const std::string& text) {
    const std::string error = ErrorOfLast(text);
    const size_t at = error.find("; try: ");
    return at == error.npos ? error : error.substr(at + 7);
  };
  EXPECT_EQ(hint(Body("y(i) +=! x(i + j)")), "where j in 0:3");
  EXPECT_EQ(hint(Body("y(i) +=! x(i + 2 * j)")), "where j in 0:2");
  EXPECT_EQ(hint(Body("y(i) +=! (i + j > 0 ? x(i + j - 1) : 0.0) where j in 0:2")),
            "where i in 0:3");
  EXPECT_EQ(hint(Body("y(i) = x(i + 1) where i in 0:3")), "where i in -1:2");
  EXPECT_EQ(hint(Body("y(i) = x(i + 1)")), "where i in -1:2, or another subscript");
  EXPECT_EQ(hint(Body("t(i) = 1.0 where i in 0:5; y(i) +=! x(i + j) * t(j)")),
            "where i in 0:0 if none is meant");
}

TEST(Errors, LongLinesShowWhatIsAroundTheCaret) {
  const std::string error =
      ErrorOfLast("def f(float(3) x) -> (y) { y(i) = x(i)" + std::string(5000, ' ') + "+ bad(i)" +
                  std::string(5000, ' ') + "}");
  const size_t line = error.find('\n') + 1, caret = error.find('\n', line) + 1;
  ASSERT_LT(error.size(), 600);
  EXPECT_EQ(error.substr(line + error.find('^', caret) - caret, 3), "bad");
}

}  // namespace
}  // namespace weft::tc
