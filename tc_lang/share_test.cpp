#include "tc_lang/share.h"

#include <gtest/gtest.h>

#include "tc_lang/interpret.h"
#include "tc_lang/test_util.h"
#include "tc_lang/testing/random_programs.h"

namespace weft::tc {
namespace {

// The program after sharing, which computes the same bits.
std::string Shared(const std::string& text, int64_t row_bytes = 4096) {
  const auto program = BindText(text);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  if (!program.ok()) return "";
  const Program shared = WithSharedValues(*program, row_bytes);
  EXPECT_TRUE(Verify(shared).ok()) << Verify(shared).ToString() << Print(shared);
  const std::vector<Tensor> inputs = RandomInputs(*program, 1);
  const auto before = Interpret(*program, inputs), after = Interpret(shared, inputs);
  EXPECT_TRUE(before.ok() && after.ok()) << after.status().ToString();
  if (!before.ok() || !after.ok()) return "";
  EXPECT_EQ(*before, *after) << Print(shared);
  return Equal(shared, *program) ? "" : Print(shared);
}

constexpr const char* kRows = "def f(float(6, 9) x) -> (y) { ";

TEST(Share, WhatRowsSumUpAndUseAgain) {
  const std::string softmax = Shared(std::string(kRows) +
                                     "m(n) max=! x(n, k) s(n) +=! exp(x(n, k) - m(n)) "
                                     "y(i, j) = exp(x(i, j) - m(i)) / s(i) }");
  EXPECT_NE(softmax.find("s_terms(n, k) = exp(x(n, k) - m(n))"), std::string::npos) << softmax;
  EXPECT_NE(softmax.find("s(n) +=! s_terms(n, k)"), std::string::npos) << softmax;
  EXPECT_NE(softmax.find("y(i, j) = s_terms(i, j) / s(i)"), std::string::npos) << softmax;
  // Indices in another order, and two functions.
  const std::string two = Shared(
      "def f(float(6, 9) x) -> (y, z) { s(n) +=! exp(x(n, k)) * tanh(x(n, k)) "
      "y(k, n) = exp(x(n, k)) + s(n) z(n, k) = tanh(x(n, k)) }");
  EXPECT_NE(two.find("y(k, n) = s_terms(n, k) + s(n)"), std::string::npos) << two;
  EXPECT_NE(two.find("z(n, k) = s_terms_(n, k)"), std::string::npos) << two;
}

TEST(Share, NothingElse) {
  const auto same = [](const std::string& body) { return Shared(kRows + body + " }"); };
  EXPECT_EQ(same("s(n) +=! exp(x(n, k)) y(n, k) = exp(-x(n, k)) / s(n)"), "");
  EXPECT_EQ(same("s(n) +=! exp(x(n, k)) y(n, k) = exp(x(n, 8 - k)) / s(n)"), "");
  EXPECT_EQ(same("s(n) +=! x(n, k) * x(n, k) y(n, k) = x(n, k) * x(n, k) / s(n)"), "");
  // Ranges differ; the second sums as well; one is under a condition; nothing is kept.
  EXPECT_EQ(same("s(n) +=! exp(x(n, k)) where k in 0:5 y(n, k) = exp(x(n, k)) / s(n)"), "");
  EXPECT_EQ(same("s(n) +=! exp(x(n, k)) y(n) +=! exp(x(n, k)) * s(n)"), "");
  EXPECT_EQ(same("s(n) +=! k < 5 ? exp(x(n, k)) : 0.0 y(n, k) = exp(x(n, k)) / s(n)"), "");
  EXPECT_EQ(same("s() +=! exp(x(n, k)) y(n, k) = exp(x(n, k)) / s()"), "");
  // Rows that no cache holds.
  EXPECT_EQ(
      Shared(std::string(kRows) + "s(n) +=! exp(x(n, k)) y(n, k) = exp(x(n, k)) / s(n) }", 35), "");
}

// What is read is another value by the time of the second statement.
TEST(Share, NotAcrossWrites) {
  EXPECT_EQ(Shared("def f(float(6, 9) x) -> (y) { t(n, k) = x(n, k) s(n) +=! exp(t(n, k)) "
                   "t(n, k) = t(n, k) * 2.0 y(n, k) = exp(t(n, k)) / s(n) }"),
            "");
}

}  // namespace
}  // namespace weft::tc
