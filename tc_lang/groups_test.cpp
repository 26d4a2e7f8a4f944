// What becomes one sum, which axes become two, and that nothing else changes.
#include "tc_lang/groups.h"

#include "tc_lang/copies.h"
#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

using Layouts = std::map<std::string, Layout>;

// Runs both; inputs of the second are those of the first, seen in its shapes.
void ExpectSame(const Program& before, const Program& after, double tolerance) {
  const Status verified = Verify(after);
  ASSERT_TRUE(verified.ok()) << verified.ToString() << Print(after);
  const std::vector<Tensor> inputs = RandomInputs(before, 1);
  std::vector<Tensor> seen;
  const std::vector<TensorId> ids = Inputs(after);
  for (size_t i = 0; i < inputs.size(); ++i)
    seen.push_back(inputs[i].Reshaped(*StaticExtents(after[ids[i]])));
  const auto expected = Interpret(before, inputs), found = Interpret(after, seen);
  ASSERT_TRUE(expected.ok() && found.ok())
      << expected.status().ToString() << found.status().ToString();
  for (size_t k = 0; k < expected->size(); ++k) {
    const std::vector<double> a = Values((*expected)[k]), b = Values((*found)[k]);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(a[i]))) << Print(after);
    }
  }
}

std::string Joined(const std::string& text) {
  const Program before = Bound(text);
  Program after = before;
  const std::vector<size_t> gone = JoinSums(after);
  EXPECT_EQ(gone.size(), before.statements.size() - after.statements.size());
  ExpectSame(before, after, 1e-5);
  return LeftOf(after);
}

std::string Split(const std::string& text, Layouts layouts = {},
                  const std::vector<std::string>& whole = {}) {
  const Program before = Bound(text);
  Program after = before;
  SplitGroups(after, layouts, whole);
  ExpectSame(before, after, 0);
  return LeftOf(after);
}

constexpr char kSums[] =
    " each(n, c) +=! x(n, c, k)"
    " sum(n, g) +=! each(n, 4 * g + e) where g in 0:3, e in 0:4";

TEST(JoinSums, OfSumsThatNothingElseReads) {
  const std::string def = "def f(float(2, 12, 5) x, float(12, 3) w) -> (y) {";
  EXPECT_EQ(Joined(def + kSums + " y(n, c) = sum(n, c / 4) where c in 0:12 }"),
            "sum(n, g) y(n, c)");
  EXPECT_EQ(Joined(def + " a(n, c) +=! x(n, c, k) b(n) +=! a(n, c) y +=! b(n) }"), "y()");
}

TEST(JoinSums, OthersStay) {
  const std::string def = "def f(float(2, 12, 5) x, float(12, 3) w) -> (y) {";
  const auto stays = [&](const std::string& body, const std::string& left) {
    EXPECT_EQ(Joined(def + body + " }"), left) << body;
  };
  stays(" a(n, c) +=! x(n, c, k) y(n) +=! a(n, c) * 2.0", "a(n, c) y(n)");  // not the sum alone
  stays(" a(n, c) +=! x(n, c, k) y(n, m) +=! a(n, c) where m in 0:3", "a(n, c) y(n, m)");  // again
  stays(" a(n, c) +=! x(n, c, k) y(n) +=! a(n, c + e) where c in 0:11, e in 0:2", "a(n, c) y(n)");
  stays(" a(n, c) max=! x(n, c, k) y(n) +=! a(n, c)", "a(n, c) y(n)");
  stays(" a(n, m) +=! x(n, c, 0) * w(c, m) y(n) +=! a(n, m)", "a(n, m) y(n)");  // a product
  stays(" a(n, c) +=! x(n, c, k) b(n) +=! a(n, c) y(n) = b(n) + a(n, 0)", "a(n, c) b(n) y(n)");
  // What was summed up is another value by then.
  stays(
      " y(n, c, k) = x(n, c, k) * 2.0 a(n, c) +=! y(n, c, k) y(n, c, k) += x(n, c, k)"
      " b(n) +=! a(n, c) y(n, c, k) += b(n)",
      "y(n, c, k) a(n, c) y(n, c, k) b(n) y(n, c, k)");
}

TEST(SplitGroups, WhatIsSummedAndSpread) {
  const std::string def = "def f(float(2, 12, 5) x, float(12) w) -> (y) {";
  const std::string norm =
      def + kSums + " y(n, c, k) = (x(n, c, k) - sum(n, c / 4)) * w(c) where n in 0:2, k in 0:5 }";
  const std::string split = "each(n, c_group, c) sum(n, g) y(n, c_group, c, k)";
  EXPECT_EQ(Split(norm), split);
  EXPECT_EQ(Split(norm, {}, {"w"}), split);  // read at 4 * c_group + c
  EXPECT_EQ(Split(norm, {{"x", *ParseLayout("acb")}, {"y", *ParseLayout("acb")}}), split);
  // Of what is written by groups and read as a whole.
  EXPECT_EQ(Split(def + " sum(n, g) +=! x(n, 4 * g + c, k) where g in 0:3, c in 0:4"
                        " t(n, 4 * g + c, k) = x(n, 4 * g + c, k) - sum(n, g)"
                        " where n in 0:2, g in 0:3, c in 0:4, k in 0:5"
                        " y(n, c, k) = t(n, c, k) * w(c) }"),
            "sum(n, g) t(n, g, c, k) y(n, c_group, c, k)");
}

TEST(SplitGroups, OthersStay) {
  const std::string def = "def f(float(2, 12, 5) x, float(12, 3) w) -> (y) {";
  const std::string norm = def + kSums + " y(n, c, k) = x(n, c, k) - sum(n, c / 4) where n in 0:2";
  const std::string whole = "each(n, c) sum(n, g) y(n, c, k)";
  EXPECT_EQ(Split(norm + ", c in 0:11, k in 0:5 }"), whole);                       // not to the end
  EXPECT_EQ(Split(norm + ", k in 0:5 }", {{"x", *ParseLayout("aBc4b")}}), whole);  // in blocks
  EXPECT_EQ(Split(def + kSums + " y(n, c) = sum(n, c / 3) where n in 0:2, c in 0:9 }"),
            "each(n, c) sum(n, g) y(n, c)");  // other groups
  EXPECT_EQ(Split(def + kSums +
                  " y(n, c, k) = x(n, c, k) * float(c) - sum(n, c / 4)"
                  " where n in 0:2, k in 0:5 }"),
            whole);  // c as a value
  EXPECT_EQ(Split(def + " y(n, h) max=! x(n, 2 * h + r, k) where h in 0:6, r in 0:2, k in 0:5 }"),
            "y(n, h)");  // nothing spread
  EXPECT_EQ(Split("def f(float(2, 12, 5) x, float(12, 3) w) -> (y, z) {" + std::string(kSums) +
                  " y(n, c) = each(n, c) - sum(n, c / 4) where c in 0:12"
                  " z(n, m) +=! each(n, c) * w(c, m) }"),
            "each(n, c) sum(n, g) y(n, c) z(n, m)");  // a factor of a product
}

TEST(Groups, RandomProgramsStayWhatTheyAre) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const Program before = RandomProgram(seed, {.whole_language = seed % 2 == 1});
    Program after = before;
    Layouts layouts;
    ForwardSpreads(after);
    JoinSums(after);
    SplitGroups(after, layouts, {});
    ExpectSame(before, after, 1e-3);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weft::tc
