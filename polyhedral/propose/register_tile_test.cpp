// Lanes and rows of the register tiles that are proposed for contractions.
#include <fmt/format.h>

#include "polyhedral/propose/testing.h"

namespace weft::polyhedral {
namespace {

// The channels of a group read the same elements: as rows of a tile where pictures lie along lanes,
// and as lanes, fewer than a register has, where channels do.
TEST(Propose, ChannelsOfAGroupShareWhatTheyRead) {
  const std::string filter = "float(64, 8, 3, 3) w) -> (y) { y(n, k, h, j) +=! ";
  const std::string first =
      First("def f(float(1, 64, 30, 34) x, " + filter +
                "x(n, 8 * (k / 8) + c, h + r, j + s) * w(k, c, r, s) where h in 0:28, j in 0:32 }",
            {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(first.find("order k n h j | tile k 8, j 32"), std::string::npos) << first;
  const std::string last = First(
      "def f(float(1, 30, 34, 64) x, float(3, 3, 8, 64) w) -> (y) { y(n, h, j, k) +=! "
      "x(n, h + r, j + s, 8 * (k / 8) + c) * w(r, s, c, k) where h in 0:28, j in 0:32 }",
      {.threads = 1}, Isa::kX86V4);
  EXPECT_NE(last.find("vector k 8"), std::string::npos) << last;
}

TEST(Propose, LiteralTensorsDoNotChooseLanes) {
  const std::string table = First(
      "def f(float(64, 64) x) -> (y) {"
      " const float w(2, 2) = {0.25, 0.75, 0.75, 0.25}"
      " y(i, j) +=! w(j % 2, k) * x(i, min(j / 2 + k, 63)) where j in 0:128, k in 0:2 }",
      {.threads = 1});
  EXPECT_NE(table.find("vector j"), std::string::npos) << table;
}

// The planes of a group leap pages as those of an image do; a copy's lanes are parts of its blocks.
TEST(Propose, GroupsThatLeapPagesReadACopy) {
  const std::string choice = First(
      "def f(float(1, 256, 3136) x, float(256, 64) w) -> (y) {"
      " y(n, k, p) +=! x(n, 64 * (k / 64) + c, p) * w(k, c) where n in 0:1, k in 0:256, p in "
      "0:3136, c in 0:64 }",
      {.threads = 1, .l1_bytes = 32 << 10, .l2_bytes = 1 << 19}, Isa::kX86V3, {"w"});
  EXPECT_NE(choice.find("tile i2 24 | vector i2 24 | then y"), std::string::npos) << choice;
  EXPECT_NE(choice.find("pack x Cab24c"), std::string::npos) << choice;
}

// Columns that lie in rows which begin anywhere in a line are packed, where the nearest cache loses
// them from one tile of rows to the next and AVX2's small tiles wait for them.
TEST(Propose, ColumnsOfManyLinesAreCopied) {
  const auto first = [](int depth, int columns) {
    return First(fmt::format("def f(float(96, {0}) a, float({0}, {1}) b) -> (y) {{"
                             " y(i, j) +=! a(i, k) * b(k, j) }}",
                             depth, columns),
                 {.threads = 1, .l1_bytes = 32 << 10, .l2_bytes = 1 << 19});
  };
  const std::string far = first(512, 197);
  EXPECT_NE(far.find("cluster b_packed"), std::string::npos) << far;
  EXPECT_EQ(first(64, 128).find("packed"), std::string::npos);
}

// Of matrices that the second cache holds, the one that the first one takes panel by panel stays
// there while the rows of the other pass; larger panels pass for each tile of rows either way.
TEST(Propose, PanelsStayInTheNearestCache) {
  const auto first = [](int depth) {
    return First(fmt::format("def f(float(128, {0}) x, float({0}, 256) w) -> (y) {{"
                             " y(i, j) +=! x(i, k) * w(k, j) }}",
                             depth),
                 {.threads = 1, .l1_bytes = 48 << 10, .l2_bytes = 2 << 20}, Isa::kX86V4, {"w"});
  };
  EXPECT_NE(first(128).find("order j i"), std::string::npos) << first(128);
  EXPECT_NE(first(512).find("order i j"), std::string::npos) << first(512);
}

// Lanes of one group of channels share what they read, wherever it lies: nothing is masked, and no
// place is picked from between others.
TEST(Propose, StridedGroupsHaveChannelsInLanes) {
  const auto first = [](int group, Isa isa) {
    return First(fmt::format("def f(float(1, 128, 56, 56) x, float(256, {0}) w) -> (y) {{"
                             " y(n, k, h, j) +=! x(n, {0} * (k / {1}) + c, 2 * h, 2 * j) * w(k, c)"
                             " where n in 0:1, k in 0:256, h in 0:28, j in 0:28, c in 0:{0} }}",
                             group, 2 * group),
                 {.threads = 1, .l1_bytes = 32 << 10, .l2_bytes = 1 << 19}, isa, {"w"});
  };
  for (const Isa isa : {Isa::kX86V3, Isa::kX86V4})
    EXPECT_NE(first(64, isa).find("| vector k"), std::string::npos) << first(64, isa);
  EXPECT_NE(first(32, Isa::kX86V3).find("| vector k 16"), std::string::npos);
}

}  // namespace
}  // namespace weft::polyhedral
