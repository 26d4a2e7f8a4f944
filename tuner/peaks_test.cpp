#include "tuner/peaks.h"

#include <gtest/gtest.h>

namespace weft::tuner {
namespace {

TEST(Peaks, AreMeasured) {
  const Peaks peaks = MeasurePeaks(1);
  EXPECT_GT(peaks.flops_per_s, 1e8);
  EXPECT_GT(peaks.bytes_per_s, 1e7);
}

TEST(Efficiency, IsOfWhicheverBoundIsHigher) {
  const Peaks peaks{.flops_per_s = 1e9, .bytes_per_s = 1e8};
  EXPECT_DOUBLE_EQ(Efficiency(peaks, 500, 10, 1), 0.5);
  EXPECT_DOUBLE_EQ(Efficiency(peaks, 100, 25, 1), 0.25);
  EXPECT_EQ(Efficiency(peaks, 0, 0, 1), 0);
  EXPECT_EQ(Efficiency(peaks, 500, 10, 0), 0);
  EXPECT_EQ(Efficiency({}, 500, 10, 1), 0);
}

}  // namespace
}  // namespace weft::tuner
