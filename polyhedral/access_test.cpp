#include "polyhedral/access.h"

#include <gtest/gtest.h>

namespace weft::polyhedral {
namespace {

// The kinds of all reads of the first statement, in order.
std::vector<std::string_view> KindsOf(std::string_view text) {
  const auto program = tc::Parse(text, "test");
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  std::vector<std::string_view> kinds;
  if (!program.ok()) return kinds;
  const tc::Statement& s = program->statements[0];
  for (const tc::ExprId read : tc::Reads(*program, s.value)) {
    kinds.push_back(AccessKindName(Classify(*program, s, (*program)[read].args).kind));
  }
  return kinds;
}

using Kinds = std::vector<std::string_view>;

TEST(Access, PlainIndices) {
  EXPECT_EQ(KindsOf("def f(float(3, 4) a, float(4, 3) b, float(4) c) -> (y) {\n"
                    "y(i, j) = a(i, j) + b(j, i) + c(j) where i in 0:3, j in 0:4 }"),
            (Kinds{"projection", "permutation", "broadcast"}));
  EXPECT_EQ(KindsOf("def f(float(3, 4) a) -> (y) { y(i) +=! a(i, k) where i in 0:3, k in 0:4 }"),
            (Kinds{"projection"}));
}

TEST(Access, WindowsSplitsAndMerges) {
  EXPECT_EQ(
      KindsOf("def f(float(9) a, float(24) b, float(24) c, float(20) d, int32(8) g) -> (y) {\n"
              "y(i, j) = a(i + j) + b(3*i + j) + c(i) + c(i / 2) + d(2*i + 3) + d(g(i)) where i in "
              "0:7, j in 0:3 }"),
      (Kinds{"window", "merge", "broadcast", "split", "slice", "opaque", "broadcast"}));
}

TEST(Access, StepsBetweenElements) {
  const auto program = tc::Parse(
      "def f(float(60, 4) a, int32(48) g) -> (y) {"
      " y(i, j) = a(i / 8, j) + a(i / 8 + j / 24, 0) + a(i + j / 8, 1) + a(i / 8 + i / 16, 2) +"
      " a(g(i), 3) where i in 0:48, j in 0:4 }",
      "test");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::vector<int64_t> steps;
  for (const tc::ExprId read : tc::Reads(*program, program->statements[0].value)) {
    if ((*program)[read].args.size() < 2) continue;  // what is looked up
    for (const int32_t index : {0, 1}) steps.push_back(StepsToMove(*program, read, index));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{8, 1, 8, 24, 1, 8, 1, 0, 0, 0}));
}

TEST(Access, RedundancyOfWindows) {
  const auto program = tc::Parse(
      "def f(float(58, 58) a, float(3, 3) w) -> (y) {\n"
      "y(i, j) +=! a(i + r, j + s) * w(r, s) where i in 0:56, j in 0:56, r in 0:3, s in 0:3 }",
      "test");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const tc::Statement& s = program->statements[0];
  const auto reads = tc::Reads(*program, s.value);
  EXPECT_NEAR(WindowRedundancy(Classify(*program, s, (*program)[reads[0]].args), s), 8.39, 0.01);
  EXPECT_EQ(WindowRedundancy(Classify(*program, s, (*program)[reads[1]].args), s), 1);
}

}  // namespace
}  // namespace weft::polyhedral
