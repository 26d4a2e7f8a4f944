// Proposals for recurrences.
#include <fmt/format.h>

#include "polyhedral/propose/testing.h"

namespace weft::polyhedral {
namespace {

TEST(Propose, RecurrencesRunSideBySide) {
  const std::string scan = First(
      "def f(float(64, 512) x) -> (y) {"
      " y(t, j) = x(t, j) where t in 0:1"
      " y(t, j) = y(t - 1, j) + x(t, j) where t in 1:64 }",
      {.threads = 1});
  EXPECT_NE(scan.find("order j | tile j 32 | parallel j | inner t | vector j 32"),
            std::string::npos)
      << scan;
}

// Along what lies side by side there are no lanes: as many rows take turns as each rank has.
TEST(Propose, RowsOfRunningSumsTakeTurns) {
  const auto scan = [](int rows) {
    return First(fmt::format("def f(float({0}, 512) x) -> (y) {{"
                             " y(i, t) = x(i, t) where i in 0:{0}, t in 0:1"
                             " y(i, t) = y(i, t - 1) + x(i, t) where i in 0:{0}, t in 1:512 }}",
                             rows),
                 {.threads = 2});
  };
  const std::string many = scan(64), few = scan(6), one = scan(2);
  EXPECT_NE(many.find("order i | tile i 8 | parallel i | inner t i | unroll i"), std::string::npos)
      << many;
  EXPECT_NE(few.find("order i | tile i 3 | parallel i | inner t i | unroll i"), std::string::npos)
      << few;
  EXPECT_EQ(one.find("unroll"), std::string::npos) << one;
}

// Each statement of a loop has lanes: sums along their results, the others along the axis over
// which the next step sums them up.
TEST(Propose, StatementsOfALoopHaveLanesOfTheirOwn) {
  const std::string cell = First(
      "def f(float(64, 32) x, float(32, 32) w) -> (h) {"
      " b(t, j) = t > 0 ? h(t - 1, j) : 0.0 where t in 0:64, j in 0:32"
      " s(t, k) +=! b(t, e) * w(e, k) where t in 0:64"
      " h(t, j) = tanh(x(t, j) + s(t, j)) where t in 0:64 }",
      {.threads = 1});
  EXPECT_NE(cell.find("cluster b s h | order t | vector k 32, e 32\n"), std::string::npos) << cell;
}

// Where a step has work for all ranks, they share out its statements; a short one is not worth it.
TEST(Propose, LongStepsAreSharedOut) {
  const auto cell = [](const std::string& size, int32_t threads) {
    return First("def f(float(64, " + size + ") x, float(" + size + ", " + size +
                     ") w) -> (h) {"
                     " b(t, j) = t > 0 ? h(t - 1, j) : 0.0 where t in 0:64, j in 0:" +
                     size +
                     " s(t, k) +=! b(t, e) * w(e, k) where t in 0:64"
                     " h(t, j) = tanh(x(t, j) + s(t, j)) where t in 0:64 }",
                 {.threads = threads});
  };
  EXPECT_NE(
      cell("512", 2).find("order t | tile k 64 32 | inner k e k | share k e | unroll k | vector"),
      std::string::npos)
      << cell("512", 2);
  EXPECT_EQ(cell("512", 1).find("share"), std::string::npos) << cell("512", 1);
  EXPECT_EQ(cell("128", 2).find("share"), std::string::npos) << cell("128", 2);
}

// Sums of one row go by two blocks of lanes, unless some rank would get more of them than the
// others; what two statements read is packed once, for both.
TEST(Propose, SumsOfOneRowAreOfTwoBlocks) {
  const auto cell = [](int64_t size, int32_t threads) {
    return First(fmt::format(R"(def f(float(64, {0}) x, float(2, {0}, {0}) w) -> (h, g) {{
                     b(t, j) = t > 0 ? h(t - 1, j) : 0.0 where t in 0:64, j in 0:{0}
                     s(t, k) +=! b(t, e) * w(0, k, e) where t in 0:64
                     h(t, j) = tanh(x(t, j) + s(t, j)) where t in 0:64
                     c(t, j) = t > 0 ? g(t - 1, j) : 0.0 where t in 0:64, j in 0:{0}
                     r(t, k) +=! c(t, e) * w(1, k, e) where t in 0:64
                     g(t, j) = tanh(x(t, j) + r(t, j)) where t in 0:64 }})",
                             size),
                 {.threads = threads}, Isa::kX86V3, {"w"});
  };
  for (const char* cluster : {"cluster b s h | order t | ", "cluster c r g | order t | "}) {
    const std::string two = cell(256, 1), uneven = cell(192, 2), few = cell(48, 1);
    EXPECT_NE(two.find(std::string(cluster) + "tile k 64 32 | inner k e k | unroll k | vector"),
              std::string::npos)
        << two;
    EXPECT_NE(uneven.find(std::string(cluster) + "vector k 32"), std::string::npos) << uneven;
    EXPECT_NE(few.find(std::string(cluster) + "vector k 32"), std::string::npos) << few;
  }
  EXPECT_NE(cell(256, 1).find("pack w Bac64b"), std::string::npos) << cell(256, 1);
}

// Sequences of a batch have nothing to do with each other, so the team shares them out; where each
// step looks at its neighbours, it has to take all of them.
TEST(Propose, SequencesOfABatchAreSharedOut) {
  const auto cell = [](const std::string& read) {
    return First(
        "def f(float(64, 8, 32) x, float(32, 32) w) -> (h) {"
        " s(t, n, k) +=! (t > 0 ? h(t - 1, " +
            read +
            ", e) : 0.0) * w(e, k)"
            "   where t in 0:64, n in 0:8, e in 0:32"
            " h(t, n, j) = tanh(x(t, n, j) + s(t, n, j)) }",
        {.threads = 2});
  };
  EXPECT_NE(cell("n").find("order n t | parallel n\n"), std::string::npos) << cell("n");
  EXPECT_NE(cell("7 - n").find("order t\n"), std::string::npos) << cell("7 - n");
  EXPECT_NE(cell("0").find("order t\n"), std::string::npos) << cell("0");
}

// What a step reads of large weights serves several sequences; of small ones, each for itself.
TEST(Propose, SequencesShareWeights) {
  const auto cell = [](const std::string& size) {
    return First("def f(float(64, 7, " + size + ") x, float(" + size + ", " + size +
                     ") w) -> (h) {"
                     " s(t, n, k) +=! (t > 0 ? h(t - 1, n, e) : 0.0) * w(e, k)"
                     "   where t in 0:64, n in 0:7, e in 0:" +
                     size + " h(t, n, j) = tanh(x(t, n, j) + s(t, n, j)) }",
                 {.threads = 2}, Isa::kX86V4);
  };
  EXPECT_EQ(cell("32").find("tile"), std::string::npos) << cell("32");
  EXPECT_NE(cell("160").find("order n t | tile n 4 | parallel n | inner k e n | unroll n"),
            std::string::npos)
      << cell("160");
}

// Weights that no core's second cache holds pass once a step: the team shares out a step of all
// sequences, four of which use what is loaded; but sequences run by themselves where each rank has
// so many and the weights are not much larger.
TEST(Propose, SequencesStepTogetherOverLargeWeights) {
  const auto cell = [](int64_t sequences, int32_t threads, int64_t l2_bytes) {
    return First(fmt::format("def f(float(64, {0}, 512) x, float(512, 512) w) -> (h) {{"
                             " b(t, n, j) = t > 0 ? h(t - 1, n, j) : 0.0"
                             "   where t in 0:64, n in 0:{0}, j in 0:512"
                             " s(t, n, k) +=! b(t, n, e) * w(e, k) where t in 0:64"
                             " h(t, n, j) = tanh(x(t, n, j) + s(t, n, j)) where t in 0:64 }}",
                             sequences),
                 {.threads = threads, .l2_bytes = l2_bytes}, Isa::kX86V4);
  };
  const std::string few = cell(2, 2, 1 << 20), many = cell(8, 2, 1 << 18);
  EXPECT_NE(few.find("order t | inner k e n | share k e | unroll n |"), std::string::npos) << few;
  EXPECT_NE(
      many.find("order t | tile n 4, k 256 64 | inner k k n e n | share k e | turn k | unroll n |"),
      std::string::npos)
      << many;
  for (const std::string& apart : {cell(2, 2, 4 << 20), cell(8, 2, 1 << 20), cell(2, 1, 1 << 20)})
    EXPECT_NE(apart.find("parallel n"), std::string::npos) << apart;
}

}  // namespace
}  // namespace weft::polyhedral
