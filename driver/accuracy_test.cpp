#include "driver/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace weft::driver {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor Floats(Dtype dtype, std::initializer_list<double> values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  int64_t i = 0;
  for (double v : values) SetElem(t, i++, v);
  return t;
}

Tensor Whole(Dtype dtype, std::initializer_list<int64_t> values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  int64_t i = 0;
  for (int64_t v : values) SetElemInt(t, i++, v);
  return t;
}

Accuracy Compare(std::initializer_list<double> found, std::initializer_list<double> expected,
                 const Tolerance& tolerance = {}) {
  const Tensor y = Floats(Dtype::kF64, found), reference = Floats(Dtype::kF64, expected);
  return CompareOutputs({&y, 1}, {&reference, 1}, tolerance);
}

TEST(Accuracy, AnErrorIsAPartOfTheScale) {
  const Accuracy a = Compare({-8, 1.5}, {-8, 1}, 0.0625);
  EXPECT_TRUE(a.within);  // half of an eighth
  EXPECT_EQ(a.max_abs, 0.5);
  EXPECT_EQ(a.max_rel, 0.0625);
  EXPECT_FALSE(Compare({-8, 1.5}, {-8, 1}, 0.0624).within);
}

TEST(Accuracy, WhatTheTypeRoundsOffIsNoError) {
  const Tensor reference = Floats(Dtype::kF64, {1, 257}), y = Floats(Dtype::kBF16, {1, 256}),
               off = Floats(Dtype::kBF16, {1, 254});
  EXPECT_TRUE(CompareOutputs({&y, 1}, {&reference, 1}, {}).within);
  EXPECT_FALSE(CompareOutputs({&off, 1}, {&reference, 1}, {}).within);
}

TEST(Accuracy, SpacingIsThatOfTheOutputsType) {
  const Tensor reference = Floats(Dtype::kF64, {1, 6});
  for (const auto& [dtype, bits] :
       {std::pair{Dtype::kF16, 10}, {Dtype::kBF16, 7}, {Dtype::kF32, 23}}) {
    const Tensor y = Floats(dtype, {1, 6 + 3 * std::ldexp(4.0, -bits)});
    EXPECT_EQ(CompareOutputs({&y, 1}, {&reference, 1}, {}).max_ulp, 3) << DtypeName(dtype);
  }
}

TEST(Accuracy, WhatIsNotFiniteStandsInTheSamePlaces) {
  EXPECT_TRUE(Compare({kNan, kInf, -kInf, 1}, {kNan, kInf, -kInf, 1}, 0).within);
  for (double found : {1.0, kInf, -kInf}) EXPECT_FALSE(Compare({found, 1}, {kNan, 1}, 1e9).within);
  for (double found : {1.0, kNan, -kInf}) {
    const Accuracy a = Compare({found, 1}, {kInf, 1}, 1e9);
    EXPECT_FALSE(a.within) << found;
    EXPECT_EQ(a.max_rel, kInf) << found;
  }
  EXPECT_FALSE(Compare({kNan, 1}, {1, 1}, {0, 1e9, 1e9}).within);
}

TEST(Accuracy, AnInfinityIsNoPartOfTheScale) {
  EXPECT_FALSE(Compare({kInf, 1.5}, {kInf, 1}, 0.4).within);
  EXPECT_TRUE(Compare({kInf, 1.5}, {kInf, 1}, 0.5).within);
}

TEST(Accuracy, WhereTheScaleIsZeroNothingIsNear) {
  EXPECT_TRUE(Compare({0, -0.0}, {-0.0, 0}, 0).within);
  const Accuracy a = Compare({0, 1e-300}, {0, 0}, 1e9);
  EXPECT_FALSE(a.within);
  EXPECT_EQ(a.max_abs, 1e-300);
  EXPECT_TRUE(Compare({0, 1e-300}, {0, 0}, {0, {}, 1e-299}).within);
}

TEST(Accuracy, ByElementEachCountsAlone) {
  EXPECT_TRUE(Compare({100, 1.0625}, {100, 1}, 0.01).within);
  EXPECT_FALSE(Compare({100, 1.0625}, {100, 1}, {1, 0.01}).within);
  EXPECT_TRUE(Compare({100, 1.0625}, {100, 1}, {0, 0.0625}).within);
  EXPECT_TRUE(Compare({100, 1.0625}, {100, 1}, {0, {}, 0.0625}).within);
  EXPECT_TRUE(Compare({100, 1.0625}, {100, 1}, {0, 0.03125, 0.03125}).within);
  EXPECT_FALSE(Compare({100, 1.0625}, {100, 1}, {0, 0.03125, 0.03}).within);
}

TEST(Accuracy, IntegersMayBeNeighboursIfAsked) {
  const Tensor y = Whole(Dtype::kU8, {7, 200}), reference = Whole(Dtype::kU8, {8, 200});
  const auto within = [&](const Tolerance& t) {
    return CompareOutputs({&y, 1}, {&reference, 1}, t).within;
  };
  EXPECT_FALSE(within({}));
  EXPECT_FALSE(within({1}));
  EXPECT_TRUE(within({0, {}, 1}));
  EXPECT_FALSE(within({0, {}, 0.5}));
  EXPECT_TRUE(within({0, 0.125}));
}

TEST(Accuracy, IntegersAgreeOrDoNot) {
  const auto compare = [](Dtype dtype, int64_t found, int64_t expected) {
    const Tensor y = Whole(dtype, {7, found}), reference = Whole(dtype, {7, expected});
    return CompareOutputs({&y, 1}, {&reference, 1}, 1e9);
  };
  EXPECT_TRUE(compare(Dtype::kI32, -3, -3).within);
  const Accuracy a = compare(Dtype::kI32, -3, 2);
  EXPECT_FALSE(a.within);
  EXPECT_EQ(a.max_abs, 5);
  EXPECT_FALSE(compare(Dtype::kBool, 1, 0).within);
  EXPECT_FALSE(compare(Dtype::kI64, INT64_MAX, INT64_MAX - 1).within) << "one double for both";
}

TEST(Accuracy, TheWorstOfAllOutputs) {
  const std::vector<Tensor> y = {Floats(Dtype::kF64, {1000, 1}), Floats(Dtype::kF64, {1, 1.25})};
  const std::vector<Tensor> reference = {Floats(Dtype::kF64, {1000, 2}),
                                         Floats(Dtype::kF64, {1, 1})};
  const Accuracy a = CompareOutputs(y, reference, 0.25);
  EXPECT_TRUE(a.within);
  EXPECT_EQ(a.max_abs, 1);     // of the first
  EXPECT_EQ(a.max_rel, 0.25);  // of the second, by its own scale
  EXPECT_FALSE(CompareOutputs(y, reference, 0.1).within);
}

TEST(Accuracy, OtherShapesAreNeverWithin) {
  const std::vector<Tensor> one = {Tensor(Dtype::kF32, {2, 3})},
                            other = {Tensor(Dtype::kF32, {3, 2})};
  EXPECT_TRUE(CompareOutputs(one, one, 1).within);
  EXPECT_FALSE(CompareOutputs(one, other, 1).within);
  EXPECT_FALSE(CompareOutputs(one, {}, 1).within);
}

}  // namespace
}  // namespace weft::driver
