// Sums of what another statement makes, which go on from one iteration of the loop that both share
// to the next.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tc_lang/testing/random_programs.h"
#include "tests/oracle/oracle.h"

namespace weft::oracle {
namespace {

using namespace polyhedral;  // NOLINT: what is tested

// Loops whole, in tiles of which the last is shorter, for several rows.
TEST(CarriedSums, ComputeTheMeaning) {
  for (const char* assign : {"+=!", "max=!"}) {
    const auto program = Compile(fmt::format(
        R"(def gemv(float(3, 88) x, float(88, 37) W, float(11, 37) S) -> (y) {{
          @contraction t(i, b, n) +=! x(i, 8*b + j) * W(8*b + j, n) where b in 0:11, j in 0:8
          @reduction y(i, n) {} t(i, b, n) * S(b, n)
        }})",
        assign));
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    for (const std::string_view order :
         {"order i n b | tile n 16 | parallel i n | inner j | vector n 16",
          "order n b | tile n 16 | parallel n | inner i j | unroll i | vector n 16",
          "order i n b | tile n 16, b 4 | parallel i n | inner b j | vector n 16",
          "order b | inner i j n", "order n i b | inner j"}) {
      const auto choices = ParseChoices(fmt::format("gemv: cluster t y | {}", order), "test");
      ASSERT_TRUE(choices.ok()) << choices.status().ToString();
      const Status status = RunChoice(*program, tc::RandomInputs(*program, 1), choices->at(0));
      EXPECT_TRUE(status.ok()) << Print(choices->at(0)) << status.ToString();
    }
  }
}

// What takes the sum waits for the loop's end, even of a loop that turns once.
TEST(CarriedSums, AreNotUsedInTheirLoop) {
  const auto used = Compile(R"(def net(float(8) x, float(8, 16) W) -> (z) {
    @contraction t(b, n) +=! x(j) * W(j, n) where b in 0:1
    @reduction y(n) +=! t(b, n)
    @pointwise z(b, n) = y(n) where b in 0:1
  })");
  ASSERT_TRUE(used.ok()) << used.status().ToString();
  const auto choices = ParseChoices("net: cluster t y z | order n b", "test");
  ASSERT_TRUE(choices.ok()) << choices.status().ToString();
  const ScheduleRequest request{.program = &*used, .target = Widest()};
  const auto scheduled = Schedule(request, &choices->at(0));
  EXPECT_FALSE(scheduled.ok());
  EXPECT_NE(scheduled.status().ToString().find("a sum that is used in the loop"), std::string::npos)
      << scheduled.status().ToString();
}

}  // namespace
}  // namespace weft::oracle
