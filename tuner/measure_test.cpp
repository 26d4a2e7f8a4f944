#include "tuner/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace weft::tuner {
namespace {

// The most and the fewest runs that a turn of a warmed arm makes: a busy machine may stretch a run.
std::pair<int, int> RunsOfTurn(std::chrono::microseconds length) {
  int runs = 0;
  const Arm arm = TimedArm(
      "arm",
      [&]() -> Status {
        ++runs;
        std::this_thread::sleep_for(length);
        return {};
      },
      /*warm=*/true);
  std::pair<int, int> seen = {0, 1 << 20};
  for (int turn = 0; turn < 20; ++turn) {
    runs = 0;
    EXPECT_TRUE(arm.run().ok());
    seen = {std::max(seen.first, runs), std::min(seen.second, runs)};
  }
  return seen;
}

// The first of two short runs leaves waking threads to the second; a long one wakes them itself.
TEST(Measure, ShortRunsAreWarmedTwice) {
  EXPECT_EQ(RunsOfTurn(std::chrono::microseconds(300)).first, 3);
  EXPECT_EQ(RunsOfTurn(std::chrono::microseconds(1500)), std::pair(2, 2));
}

}  // namespace
}  // namespace weft::tuner
