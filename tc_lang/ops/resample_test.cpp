#include "tc_lang/ops/resample.h"

#include <fmt/format.h>
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

TEST(Resample, LongAxesRepeatInTime) {
  const ResampleRule nearest{
      .mode = "nearest", .coordinates = "asymmetric", .nearest_mode = "floor"};
  const auto held = MakeResample(nearest, 4, 1 << 20, 1 << 18, 0, 1);
  ASSERT_TRUE(held);
  EXPECT_EQ(PeriodOf(*held).period, 1 << 18);
  EXPECT_EQ(BaseText(*held, PeriodOf(*held), "i"), "i / 262144");
  const auto uneven = MakeResample(nearest, 7, 1'000'003, 1'000'003. / 7, 0, 1);
  ASSERT_TRUE(uneven);
  EXPECT_NE(BaseText(*uneven, PeriodOf(*uneven), "i"), "");
}

TEST(Resample, Lines) {
  const auto line = [](const char* coordinates, int64_t in, int64_t out, double scale) {
    const ResampleRule rule{.mode = "linear", .coordinates = coordinates};
    const auto r = MakeResample(rule, in, out, scale, 0, 1);
    const auto found = r ? LineOf(rule, *r, scale) : std::nullopt;
    return found ? fmt::format("({}*i + {}) / {}", found->a, found->b, found->d) : "none";
  };
  EXPECT_EQ(line("align_corners", 400, 120000, 300), "(399*i + 0) / 119999");
  EXPECT_EQ(line("half_pixel", 3, 7, 7. / 3), "(6*i + -4) / 14");
  EXPECT_EQ(line("half_pixel", 5, 12, 2.5), "(4*i + -3) / 10");
  EXPECT_EQ(line("asymmetric", 5, 8, 1.625), "(8*i + 0) / 13");
  EXPECT_EQ(line("half_pixel_symmetric", 5, 8, 1.625), "none");
}

// Halves are rounded as a quotient of floats makes them: 1.5 / 0.6 is 2.5, and not a little less.
TEST(Resample, NearestInFloats) {
  const ResampleRule nearest{
      .mode = "nearest", .coordinates = "half_pixel", .nearest_mode = "floor"};
  const auto r = MakeResample(nearest, 5, 3, static_cast<double>(0.6F), 0, 1);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->base, (Ints{0, 2, 3}));
}

// What lies half-way does so exactly, whatever floats make of 1 / (2 / 7).
TEST(Resample, TiesOfQuotients) {
  const auto base = [](const char* coordinates, const char* mode, int64_t in, int64_t out,
                       double scale) {
    const ResampleRule rule{.mode = "nearest", .coordinates = coordinates, .nearest_mode = mode};
    const auto r = MakeResample(rule, in, out, scale, 0, 1);
    return r ? r->base : Ints{};
  };
  for (const double scale : {2. / 7, static_cast<double>(2.F / 7)}) {
    EXPECT_EQ(base("asymmetric", "round_prefer_ceil", 7, 2, scale), (Ints{0, 4}));
    EXPECT_EQ(base("asymmetric", "round_prefer_floor", 7, 2, scale), (Ints{0, 3}));
  }
  EXPECT_EQ(base("half_pixel_symmetric", "round_prefer_floor", 26, 27, 27. / 26)[13], 12);
  for (const double scale : {1. / 30, static_cast<double>(1.F / 30)}) {
    EXPECT_EQ(base("half_pixel", "round_prefer_ceil", 30, 1, scale), (Ints{15}));
    EXPECT_EQ(base("half_pixel", "round_prefer_floor", 30, 1, scale), (Ints{14}));
  }
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
