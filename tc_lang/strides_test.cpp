// Inputs that lie in memory otherwise than row by row: nothing is copied, and ranges stay the
// axes'.
#include "tc_lang/test_util.h"

namespace weft::tc {
namespace {

TEST(Strides, TransposedPaddedAndBroadcast) {
  const Tensor memory = Floats({7}, {1, 2, 3, 4, 5, 6, 7});
  const auto rows = [&](const std::string& strides) {
    const auto out = RunText(
        "def f(float(2, 3) x strides(" + strides + "), size L) -> (y) { y(i, k) = x(i, k) }",
        {{"L", 4}}, {memory});
    return out.ok() ? Values(out->at(0)) : std::vector<double>();
  };
  EXPECT_EQ(rows("L, 1"), (std::vector<double>{1, 2, 3, 5, 6, 7}));
  const auto transposed =
      RunText("def f(float(M, K) x strides(1, M), float(M, K) z) -> (y) { y(i, k) = x(i, k) }",
              {{"M", 2}, {"K", 3}}, {Floats({6}, {1, 2, 3, 4, 5, 6}), Floats({2, 3}, {})});
  ASSERT_TRUE(transposed.ok()) << transposed.status().ToString();
  EXPECT_EQ(Values(transposed->at(0)), (std::vector<double>{1, 3, 5, 2, 4, 6}));
  const auto same = RunText("def f(float(2, 3) x strides(0, 1)) -> (y) { y(i, k) = x(i, k) }", {},
                            {Floats({3}, {1, 2, 3})});
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(Values(same->at(0)), (std::vector<double>{1, 2, 3, 1, 2, 3}));
}

TEST(Strides, CanonicalFormReadsTheMemory) {
  const Result<Program> program = BindText(
      "def f(float(M, K) a strides(LDA, 1), size LDA, float(K) v) -> (y) { y(i) +=! a(i, k) * v(k) "
      "}",
      {{"M", 3}, {"K", 4}, {"LDA", 10}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(Print(*program),
            "def f(float(24) a, float(4) v) -> (float(3) y) {\n"
            "  @contraction y(i) +=! a(10 * i + k) * v(k) where i in 0:3, k in 0:4\n}\n");
}

// The memory goes on past the end of a row; what leaves the row is an error all the same.
TEST(Strides, RowsEndWhereTheirAxisDoes) {
  EXPECT_NE(
      ErrorOf("def f(float(2, 3) x strides(4, 1)) -> (y) { y(i, k) = x(i, k + 1) where i in 0:2, "
              "k in 0:3 }")
          .find("subscript 1 of 'x', k + 1, runs from 1 to 3, outside of 0:3"),
      std::string::npos);
  const char* gather = "def f(float(2, 3) x strides(4, 1), int8(2) n) -> (y) { y(i) = x(i, n(i)) }";
  const Tensor memory = Floats({7}, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_RUNS((std::vector<double>{3, 5}), gather, {}, {memory, Make(Dtype::kI8, {2}, {2, 0})});
  const auto outside = RunText(gather, {}, {memory, Make(Dtype::kI8, {2}, {3, 0})});
  EXPECT_EQ(outside.status().what(), "statement 1 on 'y' finds 3 by 'n', expected 0 to 2");
  EXPECT_RUNS((std::vector<double>{0, 1, 2}),
              "def f(float(1, 2) x strides(4, 1)) -> (y) {\n"
              "  y(k) = (k > 0 ? x(0, k - 1) : 0.0) where k in 0:3 }",
              {}, {Floats({2}, {1, 2})});
}

TEST(Strides, WhatTheyMayBe) {
  const auto why = [](const std::string& param) {
    return ErrorOf("def f(" + param + ") -> (y) { y(i, k) = x(i, k) }", {{"N", 3}});
  };
  EXPECT_NE(why("float(2, 3) x strides(1)").find("found 1 strides for 'x', which has rank 2"),
            std::string::npos);
  EXPECT_NE(why("float(2, 3) x strides(0 - 1, 1)").find("found the stride -1, expected 0 or more"),
            std::string::npos);
  EXPECT_NE(why("float(2, 1099511627776) x strides(1, 1099511627776)").find("reaches over more"),
            std::string::npos);
  EXPECT_NE(why("float(N, N) x strides(S, 1)").find("found 'S', expected a size"),
            std::string::npos);
  EXPECT_FALSE(
      BindText("def f(float(N, 3) x strides(3, 1)) -> (y) { y(i, k) = x(i, k) }", {}, {"N"}).ok());
  const auto defs = ParseDefs(
      "def g(float(2, 3) x strides(3, 1)) -> (y) { y(i, k) = x(i, k) }\n"
      "def f(float(2, 3) x) -> (y) { y = g(x) }",
      "t.tc");
  ASSERT_TRUE(defs.ok());
  EXPECT_NE(Bind(defs->at(1), {}, *defs).status().ToString().find("'x' of 'g' has strides"),
            std::string::npos);
  const auto sizes = SizesFromShapes(defs->at(0), {{"x", {2, 3}}}, {});
  EXPECT_EQ(sizes.status().what(), "found rank 2 for 'x', expected its memory, of rank 1");
}

TEST(Strides, OffsetsPastInt32) {
  const Result<Program> program =
      BindText("def f(float(3, 2) x strides(2000000000, 1)) -> (y) { y(i, k) = x(i, k) }");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_TRUE(Verify(*program).ok());
  const Result<Program> again = Parse(Print(*program), "printed");
  EXPECT_TRUE(again.ok() && Equal(*program, *again)) << Print(*program);
}

}  // namespace
}  // namespace weft::tc
