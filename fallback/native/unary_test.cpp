// Elementwise operators whose loops are vectors, against the same on one element at a time.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/scalar.h"
#include "fallback/execute.h"
#include "fallback/native/narrow.h"

namespace weft::fallback {
namespace {

Tensor Eval(const std::string& op, const Tensor& x) {
  const LibraryCall call{.op = op,
                         .inputs = {{.role = "in0", .value = "x"}},
                         .outputs = {{.role = "out0", .value = "y"}}};
  const Tensor* const inputs[] = {&x};
  auto result = RunNative(call, inputs);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return (*std::move(result))[0];
}

// All that is special, in front of what is not.
Tensor Samples(Dtype dtype, int64_t count) {
  using Limits = std::numeric_limits<double>;
  const double odd[] = {0.0,
                        -0.0,
                        INFINITY,
                        -INFINITY,
                        NAN,
                        1,
                        -1,
                        0x1p-1074,
                        -0x1p-1074,
                        0x1p-149,
                        -0x1p-130,
                        0x1p-1022,
                        Limits::max(),
                        Limits::lowest(),
                        1e300,
                        -1e300,
                        1e30,
                        -1e30,
                        709.78,
                        709.79,
                        710.5,
                        -745.1,
                        -745.2,
                        88.7,
                        -87.4,
                        -104,
                        1e5,
                        -1e22,
                        0x1p53,
                        0.5,
                        -0.5,
                        1.0000000000000002,
                        1e-8,
                        -1e-8,
                        1e-300};
  Tensor x(dtype, {count});
  std::mt19937_64 random(3);
  std::normal_distribution<double> near(0, 3);
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<double>(random());
    SetElem(x, i,
            static_cast<size_t>(i) < std::size(odd) ? odd[i]
            : i % 8 == 0                            ? bits
                                                    : near(random));
  }
  return x;
}

double UlpsBetween(double a, double b) {
  if ((std::isnan(a) && std::isnan(b)) || a == b)
    return std::signbit(a) == std::signbit(b) || std::isnan(a) ? 0 : 1e9;
  const double next = std::nextafter(std::fabs(b), INFINITY) - std::fabs(b);
  return std::fabs(a - b) / next;
}

const struct {
  const char* op;
  double (*f)(double);
  double ulps = 4;
} kFunctions[] = {
    {"Abs", std::fabs, 0},
    {"Acos", std::acos},
    {"Acosh", std::acosh},
    {"Asin", std::asin},
    {"Asinh", std::asinh},
    {"Atan", std::atan},
    {"Atanh", std::atanh},
    {"Ceil", std::ceil, 0},
    {"Cos", std::cos},
    {"Cosh", std::cosh},
    {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
    {"Erf", std::erf},
    {"Exp", std::exp},
    {"Floor", std::floor, 0},
    {"LeakyRelu", [](double x) { return x < 0 ? double{0.01f} * x : x; }, 0},
    {"Log", std::log},
    {"Neg", [](double x) { return -x; }, 0},
    {"Reciprocal", [](double x) { return 1 / x; }, 0},
    {"Relu", [](double x) { return x < 0 ? 0 : x; }, 0},
    {"Round", std::nearbyint, 0},
    {"Sigmoid",
     [](double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }, 8},
    {"Sign", [](double x) { return x > 0   ? 1
                                   : x < 0 ? -1
                                           : x; }, 0},
    {"Sin", std::sin},
    {"Sinh", std::sinh},
    {"Softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); },
     8},
    {"Sqrt", std::sqrt, 0},
    {"Tan", std::tan},
    {"Tanh", std::tanh},
};

TEST(Unary, VectorsGiveWhatElementsDo) {
  const Tensor x = Samples(Dtype::kF64, 20001);
  for (const auto& c : kFunctions) {
    const Tensor y = Eval(c.op, x);
    double most = 0;
    for (int64_t i = 0; i < x.elems(); ++i) {
      const double expected = c.f(ElemAsDouble(x, i)),
                   ulps = UlpsBetween(ElemAsDouble(y, i), expected);
      most = std::max(most, ulps);
      ASSERT_LE(ulps, c.ulps) << c.op << "(" << ElemAsDouble(x, i) << ") is " << ElemAsDouble(y, i)
                              << ", not " << expected;
    }
  }
}

// A double that is off by some ulp rarely rounds to another float, and never to one further away.
TEST(Unary, NarrowTypesAreRoundedOnce) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    const Tensor x = Samples(dtype, 20001);
    for (const auto& c : kFunctions) {
      const Tensor y = Eval(c.op, x);
      int64_t others = 0;
      for (int64_t i = 0; i < x.elems(); ++i) {
        const double expected = AsDouble(dtype, ScalarOf(dtype, c.f(ElemAsDouble(x, i))));
        const double is = ElemAsDouble(y, i);
        others += !(is == expected || (std::isnan(is) && std::isnan(expected)));
      }
      EXPECT_LE(others, c.ulps == 0 ? 0 : 2) << c.op << " of " << DtypeName(dtype);
    }
  }
}

TEST(Unary, PiecesChangeNothing) {
  const Tensor few = Samples(Dtype::kF32, 4800);
  Tensor many(Dtype::kF32, {40 * few.elems()});
  for (int64_t i = 0; i < many.elems(); ++i) SetElem(many, i, ElemAsDouble(few, i % few.elems()));
  for (const char* op : {"Gelu", "Relu"}) {
    const Tensor y = Eval(op, few), z = Eval(op, many);
    for (int64_t i = 0; i < many.elems(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(z.as<float>()[i]),
                std::bit_cast<uint32_t>(y.as<float>()[i % few.elems()]));
  }
}

TEST(Narrow, AgreesWithBase) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<uint16_t>(h);
    for (const float f : {native::WidenHalf(half), native::WidenBfloat(half)}) {
      for (int step = -1; step <= 1; ++step) {
        const auto near = std::bit_cast<float>(std::bit_cast<uint32_t>(f) + step);
        ASSERT_EQ(native::NarrowHalf(near), FloatToHalf(near)) << near;
        ASSERT_EQ(native::NarrowBfloat(near), FloatToBfloat(near)) << near;
      }
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(native::WidenHalf(half)),
              std::bit_cast<uint32_t>(HalfToFloat(half)));
    ASSERT_EQ(std::bit_cast<uint32_t>(native::WidenBfloat(half)),
              std::bit_cast<uint32_t>(BfloatToFloat(half)));
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 300000; ++i) {
    // Doubles beside the middle of two halves.
    const double value = native::WidenHalf(static_cast<uint16_t>(random())) * (1 + 0x1p-11) +
                         std::ldexp(1.0, -static_cast<int>(random() % 60));
    const Scalar half = ScalarOf(Dtype::kF16, value);
    ASSERT_EQ(native::NarrowHalf(native::RoundToOdd(value)), FloatToHalf(half.f32)) << value;
  }
}

}  // namespace
}  // namespace weft::fallback
