#include "tc_lang/copies.h"

#include <gtest/gtest.h>

#include <functional>

#include "tc_lang/bind.h"
#include "tc_lang/interpret.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

Program Parsed(const std::string& text) {
  const auto defs = ParseDefs(text, "test.tc");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

// How many statements are left of a program, which must compute the same, when some are erased.
size_t LeftBy(const std::function<std::vector<size_t>(Program&)>& erase, const std::string& text) {
  Program program = Parsed(text);
  const std::vector<Tensor> inputs = RandomInputs(program, 1);
  const auto before = Interpret(program, inputs, {});
  const size_t statements = program.statements.size();
  const std::vector<size_t> gone = erase(program);
  EXPECT_EQ(gone.size(), statements - program.statements.size());
  const Status verified = Verify(program);
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  const auto after = Interpret(program, inputs, {});
  EXPECT_TRUE(before.ok() && after.ok());
  EXPECT_TRUE(std::ranges::equal((*before)[0].raw(), (*after)[0].raw())) << Print(program);
  return program.statements.size();
}

// The same of a sum over what `copy` makes of x, whose layout is given.
size_t Left(const std::string& copy, const char* layout, const std::string& x = "uint8(2, 3, 5)",
            const std::string& read = "t(n, h, c)") {
  std::map<std::string, Layout> layouts;
  if (*layout != '\0') layouts["x"] = *ParseLayout(layout);
  return LeftBy([&](Program& program) { return DropCopies(program, layouts); },
                "def f(" + x + " x, int8(4, 3) w) -> (y) {\n" + copy + "\ny(n, o, h) +=! int32(" +
                    read + ") * int32(w(o, c)) where n in 0:2, h in 0:5, c in 0:3\n}");
}

TEST(DropCopies, WhatLiesThatWayAlready) {
  constexpr char kCopy[] = "t(n, h, c) = x(n, c, h)";
  EXPECT_EQ(Left(kCopy, "acb"), 1u);
  EXPECT_EQ(Left("t(n, h, c) = uint8(int32(x(n, c, h)))", "acb"), 1u);
  EXPECT_EQ(
      Left("t(n, h, c) = x(n, c, h) where n in 0:2, c in 0:3, h in 0:5", "acb", "uint8(2, 3, 7)"),
      1u);
  EXPECT_EQ(Left("t(n, h, c) = x(n, h, c, 0)", "", "uint8(2, 5, 3, 1)"), 1u);
  EXPECT_EQ(Left("u(n, h, c) = x(n, c, h)\nt(n, h, c) = u(n, h, c)", "acb"), 1u);
}

TEST(DropCopies, WhatIsNeededStays) {
  EXPECT_EQ(Left("t(n, h, c) = x(n, c, h)", ""), 2u);       // another order
  EXPECT_EQ(Left("t(n, h, c) = x(n, c, h)", "acB2b"), 2u);  // blocks
  EXPECT_EQ(Left("t(n, h, c) = x(n, c, 4 - h) where h in 0:5", "acb"), 2u);
  EXPECT_EQ(Left("t(n, h, c) = x(n, c, h + 1) where h in 0:5", "acb", "uint8(2, 3, 6)"), 2u);
  EXPECT_EQ(Left("t(n, h, c) = uint8(float(x(n, c, h)))", "acb"), 2u);
  EXPECT_EQ(Left("t(n, h, c) = int8(x(n, c, h))", "acb"), 2u);
  EXPECT_EQ(Left("t(n, h, c) = (h > 0 ? x(n, c, h) : uint8(7))", "acb"), 2u);
}

size_t LeftOf(const std::string& text) { return LeftBy(ForwardLookups, text); }

constexpr char kTables[] = "def f(float(9, 4) a, float(9, 4) b, int32(6, 2) at) -> (y) {\n";

TEST(ForwardLookups, WhatIsJoinedIsLookedUpThere) {
  const std::string columns = "c(i) = at(i, 0)\nd(i) = at(i, 1)\n",
                    rows = "u(i, k) = a(bit_and(c(i), 7), k)\nv(i, k) = b(bit_and(d(i), 7), k)\n",
                    joined =
                        "y(i, p, k) = u(i, k) where i in 0:6, p in 0:1, k in 0:4\n"
                        "y(i, p, k) = v(i, k) where i in 0:6, p in 1:2, k in 0:4\n}";
  EXPECT_EQ(LeftOf(kTables + columns + rows + joined), 2u);
}

// Each element is looked up once, and its place is checked, whether or not it is moved on.
TEST(ForwardLookups, PartsAndCopiesAreNot) {
  const std::string row = std::string(kTables) + "u(i, k) = a(bit_and(at(i, 0), 7), k)\n";
  EXPECT_EQ(LeftOf(row + "y(i, k) = u(i + 1, k) where i in 0:5, k in 0:4\n}"), 2u);
  EXPECT_EQ(LeftOf(row + "y(i, k) = u(i, 3 - k) where i in 0:6, k in 0:4\n}"), 2u);
  EXPECT_EQ(LeftOf(row + "y(k, i) = u(i, k)\n}"), 2u);
  EXPECT_EQ(LeftOf(row + "y(q, i, k) = u(i, k) where q in 0:3\n}"), 2u);
  EXPECT_EQ(LeftOf(row + "y(q, i, k) = u(i - 2, k) where q in 4:5, i in 2:8, k in 0:4\n}"), 1u);
}

TEST(ForwardLookups, WhatIsComputedWithStays) {
  const std::string row = "u(i, k) = a(bit_and(at(i, 0), 7), k)\n";
  EXPECT_EQ(LeftOf(kTables + row + "y(i, k) = u(i, k) + 1.0\n}"), 2u);
  EXPECT_EQ(LeftOf(kTables + row + "y(i) +=! u(i, k)\n}"), 2u);
  // Twice looked up is once too often.
  EXPECT_EQ(LeftOf(kTables + row +
                   "y(i, p, k) = u(i, k) where i in 0:6, p in 0:1, k in 0:4\n"
                   "y(i, p, k) = u(i, 3 - k) where i in 0:6, p in 1:2, k in 0:4\n}"),
            3u);
  // A copy of what is not looked up is for DropCopies.
  EXPECT_EQ(LeftOf(kTables + std::string("u(k, i) = a(i, k)\ny(i, k) = u(k, i)\n}")), 2u);
}

// How many statements are left behind a sum s over the rows of x.
size_t LeftOfSpread(const std::string& behind, const std::string& outputs = "y") {
  return LeftBy(ForwardSpreads, "def f(float(3, 5) x, float(5, 3) z, float16(3, 5) h) -> (" +
                                    outputs + ") {\ns(i) +=! x(i, j)\n" + behind + "\n}");
}

TEST(ForwardSpreads, ActivationsBehindNorms) {
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) - s(i)\ny(i, j) = t(i, j) * tanh(t(i, j))"), 2u);
  EXPECT_EQ(
      LeftOfSpread("m(i) = s(i) / 5.0\nt(i, j) = x(i, j) - m(i)\nu(i, j) = max(t(i, j), 0.0)\n"
                   "y(j, i) = u(i, j) + z(j, i)"),
      3u);
}

TEST(ForwardSpreads, RecurrencesFollowFromThemselves) {
  EXPECT_EQ(LeftBy(ForwardSpreads,
                   "def f(float(4, 5) x) -> (y) {\n"
                   "p(t) = t > 0 ? h(t - 1) * 0.5 : 0.0 where t in 0:4\n"
                   "h(t) = p(t) + x(t, 0) where t in 0:4\n"
                   "u(t, j) = x(t, j) - h(t)\n"
                   "y(t, j) = u(t, j) * 2.0\n}"),
            4u);
}

TEST(ForwardSpreads, WhatIsNeededStays) {
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) - s(i)\nu(i) max=! t(i, j)\ny(i, j) = t(i, j) + u(i)"),
            4u);
  EXPECT_EQ(
      LeftOfSpread("t(i, j) = x(i, j) - s(i)\ny(i, j) = t(i, 4 - j) where i in 0:3, j in 0:5"), 3u);
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) - s(i)\ny(i, j) = t(i, j) + t(i, 0)"), 3u);
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) - s(i)\ny(i, j, k) = t(i, j) * z(j, k)"), 3u);  // again
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) - s(i)\ny(i, j) = t(i, j) + 1.0", "t, y"), 3u);
  EXPECT_EQ(
      LeftOfSpread("t(i, j) = float16(float(h(i, j)) - s(i))\ny(i, j) = float(t(i, j)) * 3.0"), 3u);
  EXPECT_EQ(LeftOfSpread(
                "y(i, j) = x(i, j) * 2.0\nt(i, j) = y(i, 4 - j) - s(i) where i in 0:3, j in 0:5\n"
                "y(i, j) = t(i, j) + 1.0"),
            4u);  // of what it reads itself
  EXPECT_EQ(LeftOfSpread("t(i, j) = x(i, j) + 1.0\ny(i, j) = t(i, j) + s(i)"), 3u);  // no spread
}

}  // namespace
}  // namespace weft::tc
