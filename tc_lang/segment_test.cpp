// Bounds that are read: `within`, and reductions along segments.
#include <limits>

#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

constexpr const char* kSums =
    "def f(float(N) x, int32(M) off) -> (y) {\n"
    "  y(i) +=! x(j) where j in off(i):off(i + 1) max 3 }";

std::string RunError(const std::string& text, const std::vector<Tensor>& inputs,
                     const std::map<std::string, int64_t>& sizes = {}) {
  const auto ran = RunText(text, sizes, inputs);
  return ran.ok() ? "no error" : ran.status().ToString();
}

TEST(Segments, EachRowHasItsOwn) {
  EXPECT_RUNS((std::vector<double>{3, 0, 4, 11}), kSums, {{"N", 5}, {"M", 5}},
              {Floats({5}, {1, 2, 4, 5, 6}), Ints({5}, {0, 2, 2, 3, 5})});
  // In canonical form the index counts from the beginning of its segment.
  const Result<Program> program = BindText(kSums, {{"N", 5}, {"M", 5}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(Print(*program),
            "def f(float(5) x, int32(5) off) -> (float(4) y) {\n"
            "  @gather y(i) +=! j < within(max(within(off(i + 1), 0, 2147483647) - "
            "within(off(i), 0, 2147483647), 0), 0, 4) ? x(within(off(i), 0, 2147483647) + j) : "
            "-0.0 where i in 0:4, j in 0:3\n}\n");
}

TEST(Segments, DecreasingBoundsAreEmptyOnes) {
  EXPECT_RUNS((std::vector<double>{0, 3}), kSums, {{"N", 3}, {"M", 3}},
              {Floats({3}, {1, 2, 4}), Ints({3}, {2, 0, 2})});
  EXPECT_RUNS((std::vector<double>{-0.0}),
              "def f(float(N) x, int32(2) off) -> (y) { y(i) = -0.0 where i in 0:1\n"
              "  y(i) += x(j) where j in off(i):off(i + 1) max 3 }",
              {{"N", 0}}, {Floats({0}, {}), Ints({2}, {7, 3})});
}

TEST(Segments, WhatIsOutOfRangeIsReportedNeverRead) {
  const auto why = [](const std::vector<double>& offsets) {
    return RunError(kSums, {Floats({4}, {1, 2, 4, 8}), Ints({3}, offsets)}, {{"N", 4}, {"M", 3}});
  };
  EXPECT_EQ(why({0, 4, 4}), "statement 1 on 'y' finds 4 by 'off', expected 0 to 3");
  EXPECT_EQ(why({2, 5, 5}),
            "statement 1 on 'y' reads 'x' at (4), which is outside of its extents [4]");
  EXPECT_EQ(why({-1, 1, 1}), "statement 1 on 'y' finds -1 by 'off', expected 0 to 2147483646");
  EXPECT_EQ(why({-2147483648.0, 2147483647.0, 0}),
            "statement 1 on 'y' finds 2147483647 by 'off', expected 0 to 2147483646");
  EXPECT_EQ(why({9, 9, 9}), "no error");  // empty ones read nothing
}

TEST(Segments, OfEveryReductionNestedAndCounting) {
  EXPECT_RUNS(
      (std::vector<double>{2, 0, 1}),
      "def f(int64(4) off) -> (int32(3) n) { n(i) +=! 1 where j in off(i):off(i + 1) max 2 }", {},
      {Make(Dtype::kI64, {4}, {0, 2, 2, 3})});
  EXPECT_RUNS((std::vector<double>{4, -std::numeric_limits<double>::infinity()}),
              "def f(float(3, 2) x, int8(3) off) -> (y) {\n"
              "  y(i) max=! x(j, d) where j in off(i):off(i + 1) max 3, d in 0:2 }",
              {}, {Floats({3, 2}, {1, 2, 4, 3, 9, 9}), Make(Dtype::kI8, {3}, {0, 2, 2})});
  EXPECT_RUNS((std::vector<double>{7, 7}),
              "def f(float(4) x, int32(3) a, int32(4) b) -> (y) {\n"
              "  y(i) +=! x(k) + 1.0 where j in a(i):a(i + 1) max 2, k in b(j):b(j + 1) max 4 }",
              {}, {Floats({4}, {1, 2, 1, 6}), Ints({3}, {0, 2, 3}), Ints({4}, {0, 1, 3, 4})});
}

TEST(Segments, HaveToBeReductions) {
  EXPECT_NE(
      ErrorOf(
          "def f(float(4) x, int32(3) o) -> (y) { y(j) +=! x(j) where j in o(i):o(i + 1) max 2 }")
          .find("found 'j' on the left, expected an index with bounds that are not read"),
      std::string::npos);
  EXPECT_NE(ErrorOf("def f(float(4) x, int32(3) o) -> (y, k) {\n"
                    "  (y(i), k(i)) max=! (x(j), j) where j in o(i):o(i + 1) max 2 }")
                .find("found a segment in 'max='"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf("def f(float(4) x, int32(3) o) -> (y) { y(i) +=! x(j) where j in o(i):j max 2 }")
          .find("the bounds of 'j' use 'j' itself"),
      std::string::npos);
  EXPECT_NE(
      ErrorOf(
          "def f(float(4) x, float(3) o) -> (y) { y(i) +=! x(j) where j in o(i):o(i + 1) max 2 }")
          .find("found a bound of type float"),
      std::string::npos);
  EXPECT_NE(
      ErrorOf("def f(float(4) x, int32(3) o) -> (y) { y(i) +=! x(j) where j in o(i):o(i + 1) }")
          .find("a:b max N along a segment"),
      std::string::npos);
}

// An index that stands in the bounds alone is one that is reduced over.
TEST(Segments, BoundsMayHaveIndicesOfTheirOwn) {
  EXPECT_RUNS(
      (std::vector<double>{8}),
      "def f(float(4) x, int32(3) o) -> (y) { y() +=! x(j) where j in o(i):o(i + 1) max 4 }", {},
      {Floats({4}, {1, 2, 2, 3}), Ints({3}, {0, 1, 4})});
  EXPECT_RUNS((std::vector<double>{3}),
              "def f(int32(3) o) -> (y) { y() +=! 1 where j in o(0):o(k + 1) max 2 }", {},
              {Ints({3}, {0, 1, 2})});
}

TEST(Within, ReportsWhatIsOutside) {
  const char* text = "def f(float(6) x, int32(3) k) -> (y) { y(i) = x(within(k(i), 1, 4)) }";
  EXPECT_RUNS((std::vector<double>{1, 3, 2}), text, {},
              {Floats({6}, {0, 1, 2, 3, 4, 5}), Ints({3}, {1, 3, 2})});
  EXPECT_EQ(RunError(text, {Floats({6}, {0, 1, 2, 3, 4, 5}), Ints({3}, {1, 3, 4})}),
            "statement 1 on 'y' finds 4 by 'k', expected 1 to 3");
  // Whatever its type, it is named as it was read.
  EXPECT_EQ(RunError("def f(float(6) x, uint32(1) k) -> (y) { y(i) = x(within(k(i), 1, 4)) }",
                     {Floats({6}, {0, 1, 2, 3, 4, 5}), Make(Dtype::kU32, {1}, {4294967295})}),
            "statement 1 on 'y' finds 4294967295 by 'k', expected 1 to 3");
  // Lazily, like any read.
  EXPECT_RUNS((std::vector<double>{1, 0}),
              "def f(int32(2) k) -> (y) { y(i) = k(i) < 5 ? within(k(i), 0, 5) : 0 }", {},
              {Ints({2}, {1, 7})});
  // What is computed may be looked at, too.
  EXPECT_EQ(RunError("def f(float(6) x) -> (y) { y(i) = x(within(i * i, 0, 4)) where i in 0:3 }",
                     {Floats({6}, {0, 1, 2, 3, 4, 5})}),
            "statement 1 on 'y' finds 4, expected 0 to 3");
  EXPECT_NE(ErrorOf("def f(float(6) x, int32(3) k) -> (y) { y(i) = x(within(k(i), i, 4)) }")
                .find("found the index 'i'"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::tc
