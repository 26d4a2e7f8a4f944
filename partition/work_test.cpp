// What the price models count.
#include "partition/work.h"

#include <gtest/gtest.h>

#include "fallback/execute.h"
#include "tc_lang/bind.h"
#include "tc_lang/parser.h"

namespace weft::partition {
namespace {

double ShareOf(const std::string& body) {
  const auto defs = tc::ParseDefs(
      "def f(float(8, 7, 7) x, float(16, 8, 3, 3) w) -> (y) { " + body + " }", "test");
  EXPECT_TRUE(defs.ok()) << defs.status().ToString();
  const auto program = tc::Bind(defs->at(0), {});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return GuardedShare(*program, program->statements.at(0));
}

TEST(Work, PointsInsideAGuard) {
  // Of three taps at seven places 19 of 21 read the image, along each axis by itself.
  EXPECT_DOUBLE_EQ(
      ShareOf("y(k, h, v) +=! h + r - 1 >= 0 && h + r - 1 < 7 && v + s - 1 >= 0 && v + s - 1 < 7"
              " ? x(c, h + r - 1, v + s - 1) * w(k, c, r, s) : 0.0"
              " where k in 0:16, c in 0:8, h in 0:7, v in 0:7, r in 0:3, s in 0:3"),
      19. * 19 / (21 * 21));
  // An index that two constraints share is met once.
  EXPECT_DOUBLE_EQ(ShareOf("y(k, h) +=! h + r - 1 >= 0 && h - r >= 0 ? x(c, h, 0) * w(k, c, r, 0)"
                           " : 0.0 where k in 0:16, c in 0:8, h in 0:7, r in 0:3"),
                   (6. + 6 + 5) / 21);
  EXPECT_DOUBLE_EQ(ShareOf("y(k, h, v) +=! x(c, h + r, v + s) * w(k, c, r, s)"
                           " where h in 0:5, v in 0:5"),
                   1);
}

// The same of a library's convolution, and of one whose steps and taps are two apart.
TEST(Work, TapsInNoPadding) {
  const auto of = [](const std::string& result, const std::string& window) {
    const auto call = fallback::ParseCall(
        "onednn.convolution(src = x: f32[1, 8, 7, 7] abcd, weights = w: f32[16, 8, 3, 3] abcd) -> "
        "(dst = y: f32[1, 16, " +
            result + "] abcd) {" + window + "}",
        "test", BlobStore());
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    return WorkOf(*call).unpadded;
  };
  EXPECT_DOUBLE_EQ(of("7, 7", "dilations = [1, 1], pads = [1, 1, 1, 1], strides = [1, 1]"),
                   19. * 19 / (21 * 21));
  EXPECT_DOUBLE_EQ(of("5, 5", "dilations = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]"), 1);
  EXPECT_DOUBLE_EQ(of("4, 3", "dilations = [2, 1], pads = [2, 0, 2, 0], strides = [2, 2]"),
                   10. / 12);
}

// A norm over two channels: its squares wait for both, and its results too. Of moments that each
// channel has of its own only the results do.
TEST(Work, PassesOverWhatIsFarAgain) {
  const auto again = [](const std::string& body, double cache_bytes) {
    const auto defs = tc::ParseDefs("def f(float(4, 100) x) -> (y) { " + body + " }", "test");
    EXPECT_TRUE(defs.ok()) << defs.status().ToString();
    const auto program = tc::Bind(defs->at(0), {});
    EXPECT_TRUE(program.ok()) << program.status().ToString();
    return PassedAgainBytes(*program, cache_bytes);
  };
  const std::string together =
      "m(g) +=! x(2 * g + e, k) where g in 0:2, e in 0:2  v(g) +=! x(2 * g + e, k) - m(g) where g "
      "in 0:2, e in 0:2  y(c, k) = x(c, k) * v(c / 2)";
  const std::string apart =
      "m(c) +=! x(c, k)  r(c) +=! x(c, k) - m(c)  v(g) +=! r(2 * g + e) where g in 0:2, e in 0:2  "
      "y(c, k) = x(c, k) * v(c / 2)";
  EXPECT_EQ(again(together, 500), 2 * 1600);
  EXPECT_EQ(again(apart, 500), 1600);
  EXPECT_EQ(again(apart, 300), 2 * 1600);
  EXPECT_EQ(again(together, 800), 0);
}

}  // namespace
}  // namespace weft::partition
