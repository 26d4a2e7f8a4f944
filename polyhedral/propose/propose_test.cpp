// What the first proposal is, where that is what a kind of group depends on for its speed.
#include <gtest/gtest.h>

#include "polyhedral/schedule.h"
#include "tc_lang/bind.h"

namespace weft::polyhedral {
namespace {

std::string First(const std::string& text, Target target) {
  const auto defs = tc::ParseDefs(text, "test.tc");
  EXPECT_TRUE(defs.ok());
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  target.isa = Isa::kX86V3;
  const auto choices = Propose({.program = &*program, .target = target}, 1);
  return choices.yes() ? Print((*choices)[0]) : std::string(ReasonName(choices.refusal().reason));
}

constexpr char kColumns[] =
    "def f(float(8, 1000, 1024) x) -> (y) { y(i, j) +=! x(i, k, j) where k in 0:1000 }";

TEST(Propose, ALongWalkTakesWholeRows) {
  const std::string far = First(kColumns, {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(far.find("tile j 1024 | parallel i j | inner k j"), std::string::npos) << far;
  const std::string near = First(kColumns, {.threads = 1, .l2_bytes = 8 << 20});
  EXPECT_NE(near.find("tile j 32"), std::string::npos) << near;
  EXPECT_EQ(near.find("inner"), std::string::npos) << near;
}

TEST(Propose, ALongWalkLeavesWorkForTheTeam) {
  const std::string wide = First(kColumns, {.threads = 16, .l2_bytes = 1 << 20});
  EXPECT_NE(wide.find("tile j 128"), std::string::npos) << wide;
}

TEST(Propose, SeveralPassesKeepTheirWalkNear) {
  const std::string softmax = First(
      "def f(float(8, 1000, 1024) x) -> (y) {"
      " m(i, j) max=! x(i, k, j) where k in 0:1000"
      " s(i, j) +=! exp(x(i, k, j) - m(i, j)) where k in 0:1000"
      " y(i, k, j) = exp(x(i, k, j) - m(i, j)) / s(i, j) }",
      {.threads = 1, .l2_bytes = 1 << 20});
  EXPECT_NE(softmax.find("tile j 32"), std::string::npos) << softmax;
}

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

TEST(Propose, LiteralTensorsDoNotChooseLanes) {
  const std::string table = First(
      "def f(float(64, 64) x) -> (y) {"
      " const float w(2, 2) = {0.25, 0.75, 0.75, 0.25}"
      " y(i, j) +=! w(j % 2, k) * x(i, min(j / 2 + k, 63)) where j in 0:128, k in 0:2 }",
      {.threads = 1});
  EXPECT_NE(table.find("vector j"), std::string::npos) << table;
}

}  // namespace
}  // namespace weft::polyhedral
