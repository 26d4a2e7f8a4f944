// Tiles at the edge of an image, of which some taps lie outside, and what lies between its planes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// More taps than get code of their own at the edge: the rows ask for each one whether it is there,
// and keep their sums in registers, which those in the middle of the image share with them.
TEST(Edges, LongFiltersKeepSumsInRegisters) {
  const auto program = Compile(R"(def f(float(12, 101) x, float(20, 12, 15) w) -> (y) {
    @convolution y(k, i) +=! 2*i + s - 7 >= 0 && 2*i + s - 7 < 101 ? x(c, 2*i + s - 7) * w(k, c, s)
                           : 0.0 where k in 0:20, i in 0:51, s in 0:15, c in 0:12
  })");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto choices = ParseChoices(
      "f: cluster y | order i k | tile i 6, k 16 | inner s c | unroll i | vector k 16", "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choices->at(0));
  EXPECT_TRUE(status.ok()) << status.ToString();
  const auto scheduled = Schedule({.program = &*program, .target = Widest()}, &choices->at(0));
  ASSERT_TRUE(scheduled.ok()) << scheduled.status().ToString();
  for (const loops::Buffer& b : scheduled->nest.buffers)
    EXPECT_TRUE(b.space == loops::Space::kGlobal || b.space == loops::Space::kRegister) << b.name;
}

// Planes a page apart that pass between clusters are a row longer, so that a column through all of
// them finds room in the cache; others, and those of few planes, are as they are.
TEST(Temporaries, PlanesAPageApartAreSpread) {
  const auto extent = [](int planes, int rows) {
    const auto program = Compile(fmt::format(R"(def f(float({0}, {1}, 16) x) -> (y) {{
      t(c, i, j) = x(c, i, j) + 1.0
      y(i, j) +=! t(c, i, 15 - j) where c in 0:{0}, i in 0:{1}, j in 0:16
    }})",
                                             planes, rows));
    EXPECT_TRUE(program.ok()) << program.status().ToString();
    const auto choices = ParseChoices(
        "f: cluster t | order c i j | tile j 16 | vector j 16 | cluster y | order i j", "test");
    const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choices->at(0));
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto scheduled = Schedule({.program = &*program, .target = Widest()}, &choices->at(0));
    EXPECT_TRUE(scheduled.ok()) << scheduled.status().ToString();
    for (const loops::Buffer& b : scheduled->nest.buffers)
      if (b.name == "t") return b.shape[1].constant();
    return int64_t{0};
  };
  EXPECT_EQ(extent(32, 64), 65);
  EXPECT_EQ(extent(4, 64), 64);
  EXPECT_EQ(extent(32, 65), 65);
  EXPECT_EQ(extent(32, 0), 0);
}

}  // namespace
}  // namespace weft::oracle
