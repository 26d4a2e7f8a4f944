// Normalizations and softmaxes, by hand and against plain loops.
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "fallback/native/testing.h"

namespace weft::fallback::native {
namespace {

using Doubles = std::vector<double>;
constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBF16};

Shape RandomShape(std::mt19937& random, int64_t least) {
  Shape shape(least + Below(random, 3));
  for (int64_t& extent : shape) extent = 1 + Below(random, random() % 4 == 0 ? 40 : 5);
  return shape;
}

Shape PlaceOf(int64_t i, const Shape& shape) {
  Shape place(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d]) place[d] = i % shape[d];
  return place;
}

// The element of `t`, which broadcasts to it, at a place of a larger shape.
double At(const Tensor& t, const Shape& place) {
  int64_t i = 0;
  const size_t rest = place.size() - t.shape().size();
  for (size_t d = 0; d < t.shape().size(); ++d)
    i = i * t.shape()[d] + (t.shape()[d] == 1 ? 0 : place[rest + d]);
  return ElemAsDouble(t, i);
}

// The sets of elements that are normalized together: those with the same key.
using Key = std::function<int64_t(const Shape& place)>;
struct Set {
  double count = 0, sum = 0, most = -std::numeric_limits<double>::infinity(), squares = 0, size = 0,
         exps = 0, centred = 0;
  double mean() const { return sum / count; }
  double variance() const { return centred / count; }
};
std::map<int64_t, Set> SetsOf(const Tensor& x, const Key& key) {
  std::map<int64_t, Set> sets;
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < x.elems(); ++i) f(sets[key(PlaceOf(i, x.shape()))], ElemAsDouble(x, i));
  };
  each([](Set& s, double v) {
    ++s.count;
    s.sum += v;
    s.most = std::max(s.most, v);
    s.squares += v * v;
    s.size += std::fabs(v);
  });
  each([](Set& s, double v) {
    s.exps += std::exp(v - s.most);
    s.centred += (v - s.mean()) * (v - s.mean());
  });
  return sets;
}

using Formula = std::function<double(double x, const Set& s, const Shape& place)>;
void Expect(const Tensor& y, const Tensor& x, const Key& key, const Formula& f) {
  ASSERT_EQ(y.shape(), x.shape());
  auto sets = SetsOf(x, key);
  for (int64_t i = 0; i < x.elems(); ++i) {
    const Shape place = PlaceOf(i, x.shape());
    const double expected = f(ElemAsDouble(x, i), sets[key(place)], place);
    ASSERT_NEAR(ElemAsDouble(y, i), expected, Tolerance(y.dtype(), expected) + 1e-13) << i;
  }
}

int64_t Flat(const Shape& place, const Shape& shape, const std::function<bool(size_t)>& kept) {
  int64_t key = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    if (kept(d)) key = key * shape[d] + place[d];
  return key;
}

TEST(Softmax, AgreesWithAPlainLoop) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Tensor x = RandomTensor(random, kTypes[round % 4], RandomShape(random, 1));
    const auto rank = static_cast<int64_t>(x.shape().size());
    const int64_t axis = Below(random, 2 * rank) - rank, p = 1 + Below(random, 2);
    const auto along = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    const Key key = [&](const Shape& place) {
      return Flat(place, x.shape(), [&](size_t d) { return d != along; });
    };
    const Attributes attributes = {{"axis", axis}, {"p", p}};
    Expect(RunKernel("Softmax", {x}, attributes)[0], x, key,
           [](double v, const Set& s, const Shape&) { return std::exp(v - s.most) / s.exps; });
    Expect(RunKernel("LogSoftmax", {x}, attributes)[0], x, key,
           [](double v, const Set& s, const Shape&) { return v - s.most - std::log(s.exps); });
    Expect(RunKernel("LpNormalization", {x}, attributes)[0], x, key,
           [&](double v, const Set& s, const Shape&) {
             const double norm = p == 1 ? s.size : std::sqrt(s.squares);
             return norm == 0 ? 0 : v / norm;
           });
    if (HasFatalFailure()) return;
  }
}

TEST(Softmax, OfExtremes) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto softmax = [](const Doubles& x) {
    return Values(
        RunKernel("Softmax", {Make(Dtype::kF32, {static_cast<int64_t>(x.size())}, x)})[0]);
  };
  EXPECT_EQ(softmax({1e30, 1e30, -1e30, -infinity}), (Doubles{0.5, 0.5, 0, 0}));
  for (const Doubles& x : {Doubles{-infinity, -infinity}, Doubles{infinity, 0}, Doubles{nan, 1}})
    EXPECT_TRUE(std::isnan(softmax(x)[0]));
  EXPECT_EQ(softmax({}), Doubles{});
  EXPECT_EQ(Values(RunKernel("Softmax", {Make(Dtype::kF32, {}, {3})})[0]), Doubles{1});
  EXPECT_EQ(Values(RunKernel("LpNormalization", {Make(Dtype::kF32, {2}, {0, 0})})[0]),
            (Doubles{0, 0}));
  EXPECT_SAYS(ErrorOf("Softmax", {Tensor(Dtype::kF32, {2, 3})}, {{"axis", int64_t{2}}}),
              "axis 2 is outside [-2, 2)");
  EXPECT_SAYS(ErrorOf("Softmax", {Tensor(Dtype::kI32, {2})}), "no kernel for i32");
}

TEST(Norm, LayersAgreeWithAPlainLoop) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Dtype dtype = kTypes[round % 4];
    const Tensor x = RandomTensor(random, dtype, RandomShape(random, 1));
    const auto rank = static_cast<int64_t>(x.shape().size());
    const int64_t axis = Below(random, rank);
    const auto operand = [&] {
      Shape shape(x.shape().begin() + (random() % 3 == 0 ? Below(random, rank + 1) : axis),
                  x.shape().end());
      for (int64_t& extent : shape) extent = random() % 4 == 0 ? 1 : extent;
      return RandomTensor(random, dtype, shape);
    };
    const Tensor scale = operand(), bias = random() % 2 == 0 ? Tensor() : operand();
    const Attributes attributes = {{"axis", random() % 2 == 0 ? axis : axis - rank},
                                   {"epsilon", 0.25F}};
    const Key key = [&](const Shape& place) {
      return Flat(place, x.shape(), [&](size_t d) { return static_cast<int64_t>(d) < axis; });
    };
    const auto layer = RunKernel("LayerNormalization", {x, scale, bias}, attributes, 3);
    Expect(layer[0], x, key, [&](double v, const Set& s, const Shape& place) {
      return (v - s.mean()) / std::sqrt(s.variance() + 0.25) * At(scale, place) +
             (bias.data() != nullptr ? At(bias, place) : 0);
    });
    auto sets = SetsOf(x, key);
    ASSERT_EQ(layer[1].elems(), static_cast<int64_t>(sets.size()));
    for (const auto& [i, set] : sets) {
      EXPECT_NEAR(ElemAsDouble(layer[1], i), set.mean(), 1e-7 * (1 + std::fabs(set.mean())));
      EXPECT_NEAR(ElemAsDouble(layer[2], i), 1 / std::sqrt(set.variance() + 0.25), 2e-7);
    }
    Expect(RunKernel("RMSNormalization", {x, scale}, attributes)[0], x, key,
           [&](double v, const Set& s, const Shape& place) {
             return v / std::sqrt(s.squares / s.count + 0.25) * At(scale, place);
           });
    if (HasFatalFailure()) return;
  }
}

TEST(Norm, PlanesAgreeWithAPlainLoop) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Dtype dtype = kTypes[round % 4];
    const int64_t groups = 1 + Below(random, 3);
    Shape shape = RandomShape(random, 2);
    shape[1] = groups * (1 + Below(random, 3));
    const Tensor x = RandomTensor(random, dtype, shape);
    const Tensor scale = RandomTensor(random, dtype, {shape[1]}),
                 bias = RandomTensor(random, dtype, {shape[1]}),
                 mean = RandomTensor(random, dtype, {shape[1]});
    Tensor variance = RandomTensor(random, dtype, {shape[1]});
    for (int64_t i = 0; i < shape[1]; ++i)
      SetElem(variance, i, std::fabs(ElemAsDouble(variance, i)));
    const auto channel = [&](const Tensor& t, const Shape& place) {
      return ElemAsDouble(t, place[1]);
    };
    const auto normal = [&](double v, const Set& s, const Shape& place) {
      return (v - s.mean()) / std::sqrt(s.variance() + 0.25) * channel(scale, place) +
             channel(bias, place);
    };
    const Attributes attributes = {{"epsilon", 0.25F}, {"num_groups", groups}};
    Expect(
        RunKernel("InstanceNormalization", {x, scale, bias}, attributes)[0], x,
        [&](const Shape& place) { return place[0] * shape[1] + place[1]; }, normal);
    Expect(
        RunKernel("GroupNormalization", {x, scale, bias}, attributes)[0], x,
        [&](const Shape& place) { return place[0] * groups + place[1] / (shape[1] / groups); },
        normal);
    Expect(
        RunKernel("BatchNormalization", {x, scale, bias, mean, variance}, attributes)[0], x,
        [](const Shape&) { return 0; },
        [&](double v, const Set&, const Shape& place) {
          return (v - channel(mean, place)) / std::sqrt(channel(variance, place) + 0.25) *
                     channel(scale, place) +
                 channel(bias, place);
        });
    const auto trained =
        RunKernel("BatchNormalization", {x, scale, bias, mean, variance},
                  {{"epsilon", 0.25F}, {"momentum", 0.75F}, {"training_mode", int64_t{1}}}, 3);
    const Key by_channel = [](const Shape& place) { return place[1]; };
    Expect(trained[0], x, by_channel, normal);
    for (const auto& [c, set] : SetsOf(x, by_channel)) {
      const double moved = 0.75 * ElemAsDouble(mean, c) + 0.25 * set.mean(),
                   spread = 0.75 * ElemAsDouble(variance, c) + 0.25 * set.variance();
      EXPECT_NEAR(ElemAsDouble(trained[1], c), moved, Tolerance(dtype, moved) + 1e-13);
      EXPECT_NEAR(ElemAsDouble(trained[2], c), spread, Tolerance(dtype, spread) + 1e-13);
    }
    const int64_t size = 1 + Below(random, 5);
    Expect(
        RunKernel("LRN", {x},
                  {{"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 2.0F}, {"size", size}})[0],
        x, [](const Shape&) { return 0; },
        [&](double v, const Set&, Shape place) {
          double sum = 0;
          const int64_t c = place[1];
          for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
            if (k < 0 || k >= shape[1]) continue;
            place[1] = k;
            sum += At(x, place) * At(x, place);
          }
          return v / std::pow(2 + 0.5 / static_cast<double>(size) * sum, 0.75);
        });
    if (HasFatalFailure()) return;
  }
}

TEST(Norm, ByHand) {
  const Tensor x = Make(Dtype::kF32, {1, 2, 2}, {1, 3, 5, 5});
  const Tensor one = Make(Dtype::kF32, {2}, {1, 1}), bias = Make(Dtype::kF32, {2}, {0, 10});
  const Attributes exact = {{"epsilon", 0.0F}};
  const auto y = Values(RunKernel("InstanceNormalization", {x, one, bias}, {{"epsilon", 3.0F}})[0]);
  EXPECT_EQ(y, (Doubles{-0.5, 0.5, 10, 10}));
  EXPECT_EQ(Values(RunKernel("RMSNormalization", {Make(Dtype::kF32, {2}, {3, 3}), bias}, exact)[0]),
            (Doubles{0, 10}));
  // A scale of another type is that of the result.
  EXPECT_EQ(RunKernel("RMSNormalization", {Make(Dtype::kF16, {2}, {3, 3}), bias})[0].dtype(),
            Dtype::kF32);
  // A large mean takes no digits off the variance.
  const auto far = RunKernel("LayerNormalization",
                             {Make(Dtype::kF32, {2}, {16777216, 16777218}), one}, exact, 3);
  EXPECT_EQ(Values(far[0]), (Doubles{-1, 1}));
  EXPECT_EQ(Values(far[1]), Doubles{16777217.0F});
  // [N] has one channel.
  const Tensor single = Make(Dtype::kF32, {1}, {2});
  EXPECT_EQ(Values(RunKernel("BatchNormalization",
                             {Make(Dtype::kF32, {3}, {2, 4, 6}), single, single, single,
                              Make(Dtype::kF32, {1}, {4})},
                             exact)[0]),
            (Doubles{2, 4, 6}));
}

TEST(Norm, OfNothing) {
  const auto none = RunKernel("LayerNormalization",
                              {Tensor(Dtype::kF32, {2, 0}), Make(Dtype::kF32, {1}, {1})}, {}, 3);
  EXPECT_EQ(none[0].elems(), 0);
  EXPECT_TRUE(std::isnan(Values(none[1])[1]));
  const Tensor empty(Dtype::kF32, {0}), x(Dtype::kF32, {2, 0, 3});
  for (const char* op : {"InstanceNormalization", "GroupNormalization"})
    EXPECT_EQ(RunKernel(op, {x, empty, empty}, {{"num_groups", int64_t{2}}})[0].shape(), x.shape());
  EXPECT_EQ(RunKernel("BatchNormalization", {x, empty, empty, empty, empty})[0].shape(), x.shape());
  EXPECT_EQ(RunKernel("LRN", {x}, {{"size", std::numeric_limits<int64_t>::max()}})[0].shape(),
            x.shape());
  EXPECT_EQ(
      RunKernel("Softmax", {Tensor(Dtype::kF32, {0, int64_t{1} << 40})}, {{"axis", int64_t{1}}})[0]
          .elems(),
      0);
  const Tensor wide(Dtype::kF32, {0, int64_t{1} << 40}), one = Make(Dtype::kF32, {1}, {1});
  EXPECT_EQ(RunKernel("LayerNormalization", {wide, one, one})[0].elems(), 0);
  const Tensor many(Dtype::kF32, {int64_t{1} << 40, int64_t{1} << 40, 0});  // nor rows to go over
  EXPECT_EQ(RunKernel("LayerNormalization", {many, one, one})[0].elems(), 0);
}

TEST(Norm, RefusesWhatMakesNoSense) {
  const Tensor x(Dtype::kF32, {2, 4, 3}), two(Dtype::kF32, {2}), four(Dtype::kF32, {4}),
      scalar(Dtype::kF32, {});
  EXPECT_SAYS(ErrorOf("LayerNormalization", {x}), "operand in1 is missing");
  EXPECT_SAYS(ErrorOf("LayerNormalization", {x, two}),
              "operand in1 (x1) of shape [2] does not broadcast to [2, 4, 3]");
  EXPECT_SAYS(ErrorOf("LayerNormalization", {x, scalar}, {{"axis", int64_t{3}}}),
              "axis 3 is outside");
  EXPECT_SAYS(ErrorOf("LayerNormalization", {scalar, scalar}), "axis -1 is outside");
  EXPECT_SAYS(ErrorOf("RMSNormalization", {x, Tensor(Dtype::kF32, {1, 1, 1, 1})}),
              "does not broadcast");
  EXPECT_SAYS(ErrorOf("LayerNormalization", {x, Tensor(Dtype::kI32, {3})}), "no kernel for i32");
  EXPECT_SAYS(ErrorOf("InstanceNormalization", {x, two, four}),
              "operand in1 (x1) has the shape [2], expected [4]");
  EXPECT_SAYS(ErrorOf("GroupNormalization", {x, four, two}, {{"num_groups", int64_t{2}}}),
              "operand in2 (x2) has the shape [2]");
  for (const int64_t groups :
       {int64_t{0}, int64_t{-2}, int64_t{3}, std::numeric_limits<int64_t>::max()})
    EXPECT_SAYS(ErrorOf("GroupNormalization", {x, four, four}, {{"num_groups", groups}}),
                "do not divide into");
  EXPECT_SAYS(ErrorOf("BatchNormalization", {x, four, four, four, two}),
              "operand in4 (x4) has the shape [2]");
  EXPECT_SAYS(ErrorOf("BatchNormalization", {scalar, four, four, four, two}), "rank 1 or more");
  EXPECT_SAYS(ErrorOf("LRN", {x}, {{"size", int64_t{0}}}), "size is 0");
  EXPECT_SAYS(ErrorOf("LRN", {two}), "rank 2 or more");
}

}  // namespace
}  // namespace weft::fallback::native
