#include "tc_lang/ops/resample.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::tc::ops {
namespace {

TEST(Resample, LinearRepeats) {
  const ResampleRule rule{.mode = "linear", .coordinates = "half_pixel"};
  const auto doubled = MakeResample(rule, 4, 8, 2, 0, 1);
  ASSERT_TRUE(doubled);
  EXPECT_EQ(doubled->taps, 2);
  EXPECT_EQ(doubled->base, (Ints{-1, 0, 0, 1, 1, 2, 2, 3}));
  const Periodic periodic = PeriodOf(*doubled);
  EXPECT_EQ(periodic.period, 2);
  EXPECT_EQ(periodic.advance, 1);
  EXPECT_EQ(BaseText(*doubled, periodic, "i"), "(i - 1) / 2");
}

// Sizes, scales and crops come from the model.
TEST(Resample, RefusesWhatNoTableHolds) {
  const ResampleRule nearest{
      .mode = "nearest", .coordinates = "asymmetric", .nearest_mode = "floor"};
  EXPECT_TRUE(MakeResample(nearest, 4, 8192, 2048, 0, 1));
  EXPECT_FALSE(MakeResample(nearest, 4, int64_t{1} << 40, 0x1p38, 0, 1));
  EXPECT_FALSE(MakeResample(nearest, 4, 8, std::nan(""), 0, 1));
  EXPECT_FALSE(MakeResample(nearest, 4, 8, 1e-300, 0, 1));
  const ResampleRule wide{.mode = "cubic", .coordinates = "half_pixel", .antialias = true};
  EXPECT_FALSE(MakeResample(wide, int64_t{1} << 40, 4, 0x1p-38, 0, 1));
  EXPECT_FALSE(MakeResample(wide, 4, 4, 0, 0, 1));
  const ResampleRule crop{.mode = "linear", .coordinates = "tf_crop_and_resize"};
  EXPECT_TRUE(MakeResample(crop, 4, 8, 2, -3, 5));
  EXPECT_FALSE(MakeResample(crop, 4, 8, 2, -1e30, 1e30));
  EXPECT_FALSE(MakeResample(crop, 4, 8, 2, std::nan(""), 1));
}

}  // namespace
}  // namespace weft::tc::ops
