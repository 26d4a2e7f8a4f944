// Resize against values worked out by hand; the onnx package's cases are in tests/oracle.
#include <cmath>
#include <limits>

#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

const Tensor kNone;

Tensor Scales(const std::vector<double>& values) {
  return Make(Dtype::kF32, {std::ssize(values)}, values);
}
Tensor Sizes(const std::vector<double>& values) {
  return Make(Dtype::kI64, {std::ssize(values)}, values);
}
Attributes Mode(const char* mode, const char* coordinates = "half_pixel") {
  return {{"mode", mode}, {"coordinate_transformation_mode", coordinates}};
}

TEST(Resize, Interpolates) {
  const Tensor x = Make(Dtype::kF32, {1, 2}, {1, 3});
  const auto y = RunKernel("Resize", {x, kNone, Scales({1, 2})}, Mode("linear"));
  EXPECT_EQ(y[0].shape(), (Shape{1, 4}));
  EXPECT_EQ(Values(y[0]), (std::vector<double>{1, 1.5, 2.5, 3}));
  // Integers are rounded, ties to even, and large ones keep their digits.
  const auto i =
      RunKernel("Resize", {Make(Dtype::kI32, {2}, {1, 3}), kNone, Scales({2})}, Mode("linear"));
  EXPECT_EQ(Values(i[0]), (std::vector<double>{1, 2, 2, 3}));
  const auto large = RunKernel(
      "Resize", {Make(Dtype::kI32, {2}, {1e9 + 1, 1e9 + 9}), kNone, Scales({2})}, Mode("linear"));
  EXPECT_EQ(Values(large[0]), (std::vector<double>{1e9 + 1, 1e9 + 3, 1e9 + 7, 1e9 + 9}));
}

TEST(Resize, TakesAnyElementsThatItOnlyCopies) {
  Tensor words(Dtype::kString, {2});
  words.strings() = {"a", "b"};
  const auto y = RunKernel("Resize", {words, kNone, kNone, Sizes({4})}, Mode("nearest"));
  EXPECT_EQ(y[0].strings(), (std::vector<std::string>{"a", "a", "b", "b"}));
}

TEST(Resize, KeepsTheRatio) {
  const Tensor x = Make(Dtype::kF32, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  Attributes attributes = Mode("nearest");
  attributes.push_back({"keep_aspect_ratio_policy", "not_larger"});
  const auto y = RunKernel("Resize", {x, kNone, kNone, Sizes({4, 4})}, attributes);
  EXPECT_EQ(y[0].shape(), (Shape{2, 4}));
}

TEST(Resize, OutsideOfACropIsWhatItIsSaidToBe) {
  Attributes attributes = Mode("linear", "tf_crop_and_resize");
  attributes.push_back({"extrapolation_value", 9.0F});
  const Tensor x = Make(Dtype::kF32, {3}, {0, 1, 2});
  const auto y =
      RunKernel("Resize", {x, Make(Dtype::kF32, {2}, {0, 2}), kNone, Sizes({3})}, attributes);
  EXPECT_EQ(Values(y[0]), (std::vector<double>{0, 2, 9}));
  EXPECT_SAYS(ErrorOf("Resize", {x, Scales({0}), kNone, Sizes({3})}, attributes), "expected 2");
}

TEST(Resize, RefusesWhatHasNoMeaning) {
  const Tensor x = Make(Dtype::kF32, {2, 2}, {0, 1, 2, 3});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double scale : {0.0, -1.0, kInf, std::nan("")})
    EXPECT_SAYS(ErrorOf("Resize", {x, kNone, Scales({1, scale})}), "expected more than 0");
  EXPECT_SAYS(ErrorOf("Resize", {x, kNone, Scales({1})}), "expected 2");
  EXPECT_SAYS(ErrorOf("Resize", {x, kNone, Scales({1e30, 1})}), "too large");
  EXPECT_SAYS(ErrorOf("Resize", {x, kNone, Scales({1e6, 1e6})}), "limit");
  EXPECT_SAYS(ErrorOf("Resize", {x, kNone, kNone, Sizes({-1, 2})}), "expected more than 0");
  EXPECT_SAYS(ErrorOf("Resize", {x}), "one of scales and sizes");
  EXPECT_SAYS(ErrorOf("Resize", {x, kNone, Scales({1, 1}), Sizes({2, 2})}), "one of scales");
  const Tensor empty(Dtype::kF32, {0, 2});
  EXPECT_SAYS(ErrorOf("Resize", {empty, kNone, kNone, Sizes({2, 2})}), "is empty");
  EXPECT_EQ(RunKernel("Resize", {x, kNone, kNone, Sizes({0, 2})})[0].elems(), 0);
}

}  // namespace
}  // namespace weft::fallback::native
