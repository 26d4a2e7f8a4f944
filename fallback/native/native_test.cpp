// Kernels of native/ against results worked out by hand or by the operator's definition.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "fallback/execute.h"

namespace weft::fallback {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(),
                  kMax = std::numeric_limits<int64_t>::max();

Tensor Make(Dtype dtype, Shape shape, const std::vector<double>& values) {
  Tensor t(dtype, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(t.elems()), values.size());
  for (size_t i = 0; i < values.size(); ++i) SetElem(t, static_cast<int64_t>(i), values[i]);
  return t;
}
Tensor F32(Shape shape, const std::vector<double>& values) {
  return Make(Dtype::kF32, std::move(shape), values);
}
Tensor I64(const std::vector<int64_t>& values) {
  Tensor t(Dtype::kI64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) SetElemInt(t, static_cast<int64_t>(i), values[i]);
  return t;
}
Tensor Iota(Shape shape) {
  Tensor t(Dtype::kF32, std::move(shape));
  for (int64_t i = 0; i < t.elems(); ++i) SetElem(t, i, static_cast<double>(i));
  return t;
}
std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.elems(); ++i) out.push_back(ElemAsDouble(t, i));
  return out;
}

LibraryCall CallOf(std::string op, const std::vector<Tensor>& inputs,
                   std::vector<CallAttribute> attributes, size_t outputs = 1) {
  LibraryCall call{.op = std::move(op), .attributes = std::move(attributes)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool absent = inputs[i].data() == nullptr && inputs[i].dtype() != Dtype::kString;
    call.inputs.push_back(
        {.role = fmt::format("in{}", i), .value = absent ? "" : fmt::format("x{}", i)});
  }
  for (size_t i = 0; i < outputs; ++i) {
    call.outputs.push_back({.role = fmt::format("out{}", i), .value = fmt::format("y{}", i)});
  }
  return call;
}

Result<std::vector<Tensor>> Try(std::string op, const std::vector<Tensor>& inputs,
                                std::vector<CallAttribute> attributes = {}, size_t outputs = 1) {
  const LibraryCall call = CallOf(std::move(op), inputs, std::move(attributes), outputs);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  return RunNative(call, pointers);
}

std::vector<Tensor> RunAll(std::string op, const std::vector<Tensor>& inputs,
                           std::vector<CallAttribute> attributes = {}, size_t outputs = 1) {
  auto result = Try(std::move(op), inputs, std::move(attributes), outputs);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *std::move(result) : std::vector<Tensor>(outputs);
}
Tensor Eval(std::string op, const std::vector<Tensor>& inputs,
            std::vector<CallAttribute> attributes = {}) {
  return RunAll(std::move(op), inputs, std::move(attributes))[0];
}
std::string ErrorOf(std::string op, const std::vector<Tensor>& inputs,
                    std::vector<CallAttribute> attributes = {}) {
  auto result = Try(std::move(op), inputs, std::move(attributes));
  return result.ok() ? "accepted" : result.status().ToString();
}
#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

void ExpectTensor(const Tensor& t, const Shape& shape, const std::vector<double>& values) {
  EXPECT_EQ(t.shape(), shape);
  EXPECT_EQ(Values(t), values);
}

TEST(Binary, Broadcasts) {
  ExpectTensor(Eval("Add", {F32({2, 1}, {10, 20}), F32({3}, {1, 2, 3})}), {2, 3},
               {11, 12, 13, 21, 22, 23});
  ExpectTensor(Eval("Mul", {Iota({2, 2, 2}), F32({2, 1, 1}, {1, -1})}), {2, 2, 2},
               {0, 1, 2, 3, -4, -5, -6, -7});
  ExpectTensor(Eval("Sub", {F32({}, {1}), F32({0, 3}, {})}), {0, 3}, {});
  EXPECT_SAYS(ErrorOf("Add", {Iota({2}), Iota({3})}),
              "operand in1 (x1) of shape [3] does not broadcast to [2]");
  EXPECT_SAYS(ErrorOf("Add", {Iota({2}), I64({1, 2})}), "expected one type");
}

TEST(Binary, IntegersAreTotal) {
  EXPECT_EQ(Values(Eval("Div", {I64({7, -7, 5, kMin}), I64({2, 2, 0, -1})})),
            (std::vector<double>{3, -3, 0, static_cast<double>(kMin)}));
  EXPECT_EQ(Values(Eval("Mod", {I64({7, -7, 5, kMin}), I64({3, 3, 0, -1})})),
            (std::vector<double>{1, 2, 0, 0}));
  EXPECT_EQ(Values(Eval("Mod", {I64({7, -7}), I64({3, 3})}, {{"fmod", int64_t{1}}})),
            (std::vector<double>{1, -1}));
  EXPECT_EQ(ElemAsInt(Eval("Add", {I64({kMax}), I64({1})}), 0), kMin);
  EXPECT_EQ(Values(Eval("Pow", {I64({2, 0, -1, 3}), I64({10, -2, -3, -1})})),
            (std::vector<double>{1024, 0, -1, 0}));
  EXPECT_EQ(Values(Eval("Pow", {I64({4}), F32({1}, {0.5})})), (std::vector<double>{2}));
  const Tensor shifted =
      Eval("BitShift", {Make(Dtype::kI8, {3}, {-64, 1, 127}), Make(Dtype::kI8, {3}, {1, 100, -1})},
           {{"direction", std::string("RIGHT")}});
  EXPECT_EQ(Values(shifted), (std::vector<double>{-32, 0, 0}));
  EXPECT_EQ(Values(Eval("Mul", {Make(Dtype::kU8, {1}, {200}), Make(Dtype::kU8, {1}, {2})})),
            (std::vector<double>{144}));
  EXPECT_EQ(Values(Eval("Max", {Make(Dtype::kU64, {1}, {0x1p63}), Make(Dtype::kU64, {1}, {5})})),
            (std::vector<double>{0x1p63}));
}

TEST(Binary, FloatsFollowTheirRules) {
  const double nan = std::nan("");
  const std::vector<double> most =
      Values(Eval("Max", {F32({3}, {nan, 1, 2}), F32({3}, {1, nan, 3}), F32({1}, {0})}));
  EXPECT_TRUE(std::isnan(most[0]) && std::isnan(most[1]));
  EXPECT_EQ(most[2], 3);
  EXPECT_EQ(Values(Eval("Mod", {F32({2}, {5.5, -5.5}), F32({2}, {2, 2})}, {{"fmod", int64_t{1}}})),
            (std::vector<double>{1.5, -1.5}));
  EXPECT_EQ(Values(Eval("Mean", {F32({1}, {1}), F32({2}, {2, 6})})),
            (std::vector<double>{1.5, 3.5}));
  const Tensor one = Make(Dtype::kBF16, {1}, {1}), big = Make(Dtype::kF16, {1}, {60000});
  EXPECT_EQ(Values(Eval("Sum", {Make(Dtype::kBF16, {1}, {256}), one, one, one, one})),
            (std::vector<double>{260}));
  EXPECT_EQ(Values(Eval("Mean", {big, big, big})), Values(big));
  EXPECT_EQ(Values(Eval("Add", {Make(Dtype::kF16, {1}, {2048}), Make(Dtype::kF16, {1}, {1})})),
            (std::vector<double>{2048}));
  EXPECT_EQ(Values(Eval("PRelu", {F32({2}, {-2, 3}), F32({1}, {0.5})})),
            (std::vector<double>{-1, 3}));
  const std::vector<double> clipped =
      Values(Eval("Clip", {F32({3}, {-5, nan, 9}), Tensor(), F32({}, {6})}));
  EXPECT_EQ(clipped[0], -5);
  EXPECT_TRUE(std::isnan(clipped[1]));
  EXPECT_EQ(clipped[2], 6);
}

TEST(Binary, ComparesAndChooses) {
  EXPECT_EQ(Values(Eval("Less", {Make(Dtype::kU64, {2}, {1, 0x1p63}),
                                 Make(Dtype::kU64, {2}, {0x1p63, 1})})),
            (std::vector<double>{1, 0}));
  EXPECT_EQ(Values(Eval("Equal", {F32({2}, {std::nan(""), 0}), F32({2}, {std::nan(""), -0.0})})),
            (std::vector<double>{0, 1}));
  const Tensor yes = Make(Dtype::kBool, {2, 1}, {1, 0});
  ExpectTensor(Eval("Where", {yes, I64({1, 2}), I64({8, 9})}), {2, 2}, {1, 2, 8, 9});
  EXPECT_EQ(Values(Eval("Xor", {yes, Make(Dtype::kBool, {1, 1}, {1})})),
            (std::vector<double>{0, 1}));
  EXPECT_SAYS(ErrorOf("And", {I64({1}), I64({1})}), "no kernel for i64");
}

TEST(Unary, EachIsItsFormula) {
  const struct {
    const char* op;
    double x, y;
  } cases[] = {{"Abs", -2, 2},
               {"Acosh", 2, std::acosh(2)},
               {"Ceil", 1.5, 2},
               {"Celu", -1, std::expm1(-1)},
               {"Elu", -1, std::expm1(-1)},
               {"Erf", 0.5, std::erf(0.5)},
               {"Floor", -1.5, -2},
               {"Gelu", 1, 0.5 * (1 + std::erf(std::sqrt(0.5)))},
               {"HardSigmoid", 1, 0.7},
               {"HardSwish", 1, 4.0 / 6},
               {"LeakyRelu", -1, -0.01},
               {"Mish", 1, std::tanh(std::log1p(std::exp(1.0)))},
               {"Reciprocal", 4, 0.25},
               {"Relu", -3, 0},
               {"Round", 2.5, 2},
               {"Selu", 1, 1.0507010},
               {"Sigmoid", 0, 0.5},
               {"Sign", -7, -1},
               {"Shrink", 1, 1},
               {"Softplus", 0, std::log(2)},
               {"Softsign", 1, 0.5},
               {"Sqrt", 2, std::sqrt(2)},
               {"Swish", 1, 1 / (1 + std::exp(-1.0))},
               {"Tanh", 1, std::tanh(1)},
               {"ThresholdedRelu", 0.5, 0}};
  for (const auto& c : cases)
    EXPECT_NEAR(Values(Eval(c.op, {F32({1}, {c.x})}))[0], c.y, 2e-7) << c.op;
  EXPECT_EQ(Values(Eval("Abs", {I64({kMin, -3})})),
            (std::vector<double>{static_cast<double>(kMin), 3}));
  EXPECT_EQ(Values(Eval("BitwiseNot", {Make(Dtype::kU8, {1}, {1})})), (std::vector<double>{254}));
  EXPECT_EQ(Values(Eval("Not", {Make(Dtype::kBool, {2}, {0, 1})})), (std::vector<double>{1, 0}));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Values(Eval("IsInf", {F32({3}, {inf, -inf, 0})}, {{"detect_negative", int64_t{0}}})),
            (std::vector<double>{1, 0, 0}));
  // ONNX: 0 unless it is less or greater than something.
  for (const char* op : {"Shrink", "ThresholdedRelu"})
    EXPECT_EQ(Values(Eval(op, {F32({1}, {std::nan("")})})), std::vector<double>{0}) << op;
  EXPECT_SAYS(ErrorOf("Exp", {I64({1})}), "no kernel for i64");
}

TEST(Cast, IsTotal) {
  const auto cast = [](const Tensor& x, Dtype to) {
    return Eval("Cast", {x}, {{"to", int64_t{DtypeToOnnx(to)}}});
  };
  const Tensor odd = F32({5}, {std::nan(""), 1e30, -1e30, -1.9, 300});
  EXPECT_EQ(Values(cast(odd, Dtype::kI8)), (std::vector<double>{0, 127, -128, -1, 127}));
  EXPECT_EQ(Values(cast(odd, Dtype::kU32)), (std::vector<double>{0, 4294967295.0, 0, 0, 300}));
  EXPECT_EQ(ElemAsInt(cast(odd, Dtype::kI64), 1), kMax);
  EXPECT_EQ(Values(cast(odd, Dtype::kBool))[0], 1);
  EXPECT_EQ(Values(cast(I64({300, -1}), Dtype::kU8)), (std::vector<double>{44, 255}));
  EXPECT_EQ(Values(cast(Make(Dtype::kU64, {1}, {0x1p63}), Dtype::kF32)),
            (std::vector<double>{0x1p63}));
  EXPECT_EQ(Values(cast(F32({1}, {0.1}), Dtype::kF16))[0], HalfToFloat(FloatToHalf(0.1f)));
  EXPECT_EQ(Values(cast(F32({1}, {0.1}), Dtype::kBF16))[0], BfloatToFloat(FloatToBfloat(0.1f)));
  Tensor text =
      cast(F32({3}, {1.5, std::nan(""), -std::numeric_limits<double>::infinity()}), Dtype::kString);
  EXPECT_EQ(text.strings(), (std::vector<std::string>{"1.5", "NaN", "-INF"}));
  EXPECT_EQ(Values(cast(text, Dtype::kF32))[0], 1.5);
  text.strings() = {"-0", "1e400", "-1e-400"};
  const std::vector<double> extremes = Values(cast(text, Dtype::kF64));
  EXPECT_TRUE(extremes[0] == 0 && std::signbit(extremes[0]));
  EXPECT_EQ(extremes[1], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(extremes[2] == 0 && std::signbit(extremes[2]));
  text.strings() = {"18446744073709551615", "12345678901234567891", "-1"};
  const Tensor longest = cast(text, Dtype::kU64);
  EXPECT_EQ(longest.as<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(longest.as<uint64_t>()[1], 12345678901234567891u);
  EXPECT_EQ(longest.as<uint64_t>()[2], UINT64_MAX);
  text.strings()[1] = "five";
  EXPECT_SAYS(ErrorOf("Cast", {text}, {{"to", int64_t{1}}}), "\"five\", which is no number");
  EXPECT_SAYS(ErrorOf("Cast", {odd}, {{"to", int64_t{99}}}), "to = 99");
}

TEST(Reduce, AxesAndTypes) {
  const Tensor x = Iota({2, 3});
  ExpectTensor(Eval("ReduceSum", {x, I64({1})}), {2, 1}, {3, 12});
  ExpectTensor(Eval("ReduceSum", {x, I64({-2})}, {{"keepdims", int64_t{0}}}), {3}, {3, 5, 7});
  ExpectTensor(Eval("ReduceMean", {x}), {1, 1}, {2.5});
  ExpectTensor(Eval("ReduceMax", {x, I64({0, 1})}, {{"keepdims", int64_t{0}}}), {}, {5});
  ExpectTensor(Eval("ReduceProd", {I64({2, 3, 4})}, {{"keepdims", int64_t{0}}}), {}, {24});
  ExpectTensor(Eval("ReduceSum", {x, I64({})}, {{"noop_with_empty_axes", int64_t{1}}}), {2, 3},
               {0, 1, 2, 3, 4, 5});
  ExpectTensor(Eval("ReduceL1", {F32({2}, {-1, 2})}), {1}, {3});
  ExpectTensor(Eval("ReduceL2", {F32({2}, {3, 4})}), {1}, {5});
  ExpectTensor(Eval("ReduceL2", {I64({5'000'000'000, 12'000'000'000})}), {1}, {13e9});
  EXPECT_NEAR(Values(Eval("ReduceLogSumExp", {F32({2}, {1000, 1000})}))[0], 1000 + std::log(2),
              1e-4);
  ExpectTensor(Eval("ReduceMin", {Make(Dtype::kI8, {0}, {})}), {1}, {127});
  EXPECT_EQ(Values(Eval("ReduceMax", {F32({0}, {})}))[0], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Values(Eval("ReduceMax", {F32({2}, {std::nan(""), 1})}))[0]));
  ExpectTensor(Eval("ReduceMean", {I64({-3, 0})}), {1}, {-1});
  EXPECT_SAYS(ErrorOf("ReduceSum", {x, I64({2})}), "axis 2 is outside [-2, 2)");
  EXPECT_SAYS(ErrorOf("ReduceSum", {x, I64({1, -1})}), "given twice");
}

TEST(Reduce, ArgAndCumulative) {
  ExpectTensor(Eval("ArgMax", {F32({2, 3}, {1, 5, 5, 9, 0, 2})}, {{"axis", int64_t{1}}}), {2, 1},
               {1, 0});
  ExpectTensor(Eval("ArgMax", {F32({3}, {1, 5, 5})},
                    {{"keepdims", int64_t{0}}, {"select_last_index", int64_t{1}}}),
               {}, {2});
  ExpectTensor(Eval("ArgMin", {F32({2, 2}, {1, 5, 0, 9})}), {1, 2}, {1, 0});
  EXPECT_SAYS(ErrorOf("ArgMax", {F32({2, 0}, {})}, {{"axis", int64_t{1}}}), "is empty");
  ExpectTensor(Eval("CumSum", {F32({3}, {1, 2, 3}), I64({0})}), {3}, {1, 3, 6});
  ExpectTensor(Eval("CumSum", {F32({3}, {1, 2, 3}), I64({0})},
                    {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}),
               {3}, {5, 3, 0});
  ExpectTensor(Eval("CumProd", {F32({2, 3}, {1, 2, 3, 4, 5, 6}), I64({-1})}), {2, 3},
               {1, 2, 6, 4, 20, 120});
  ExpectTensor(Eval("CumProd", {F32({2, 2}, {1, 2, 3, 4}), I64({0})},
                    {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}),
               {2, 2}, {3, 4, 1, 1});
}

TEST(Shape, Arithmetic) {
  const Tensor x = Iota({2, 3, 4});
  EXPECT_EQ(Values(Eval("Shape", {x})), (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(Values(Eval("Shape", {x}, {{"end", int64_t{-1}}, {"start", int64_t{1}}})),
            (std::vector<double>{3}));
  EXPECT_EQ(Values(Eval("Size", {x})), (std::vector<double>{24}));
  EXPECT_EQ(Eval("Reshape", {x, I64({0, -1})}).shape(), (Shape{2, 12}));
  EXPECT_EQ(Eval("Flatten", {x}, {{"axis", int64_t{-1}}}).shape(), (Shape{6, 4}));
  EXPECT_EQ(Eval("Unsqueeze", {x, I64({0, -1})}).shape(), (Shape{1, 2, 3, 4, 1}));
  EXPECT_EQ(Eval("Squeeze", {Iota({1, 3, 1}), I64({0})}).shape(), (Shape{3, 1}));
  ExpectTensor(Eval("Expand", {F32({2, 1}, {1, 2}), I64({1, 2})}), {2, 2}, {1, 1, 2, 2});
  ExpectTensor(Eval("ConstantOfShape", {I64({2})}, {{"value", Make(Dtype::kI64, {1}, {7})}}), {2},
               {7, 7});
  ExpectTensor(Eval("Range", {Make(Dtype::kI64, {}, {5}), Make(Dtype::kI64, {}, {0}),
                              Make(Dtype::kI64, {}, {-2})}),
               {3}, {5, 3, 1});
  ExpectTensor(Eval("EyeLike", {Iota({2, 3})}, {{"k", int64_t{1}}}), {2, 3}, {0, 1, 0, 0, 0, 1});
  ExpectTensor(Eval("Trilu", {Iota({2, 2})}), {2, 2}, {0, 1, 0, 3});
  EXPECT_SAYS(ErrorOf("Reshape", {x, I64({5, -1})}), "no -1 for 24 elements");
  EXPECT_SAYS(ErrorOf("Reshape", {x, I64({kMax, kMax})}), "elements");
  EXPECT_SAYS(ErrorOf("Squeeze", {x, I64({0})}), "is not 1");
  EXPECT_SAYS(ErrorOf("ConstantOfShape", {I64({-1})}), "negative");
  EXPECT_SAYS(ErrorOf("ConstantOfShape", {I64({1 << 20, 1 << 20})}), "limit of");
  EXPECT_SAYS(ErrorOf("Range", {F32({}, {0}), F32({}, {1}), F32({}, {0})}), "has no end");
}

TEST(Move, ConcatSplitSlice) {
  ExpectTensor(
      Eval("Concat", {F32({2, 1}, {1, 2}), F32({2, 2}, {3, 4, 5, 6})}, {{"axis", int64_t{1}}}),
      {2, 3}, {1, 3, 4, 2, 5, 6});
  const auto parts = RunAll("Split", {Iota({5})}, {{"num_outputs", int64_t{2}}}, 2);
  ExpectTensor(parts[0], {3}, {0, 1, 2});
  ExpectTensor(parts[1], {2}, {3, 4});
  ExpectTensor(Eval("Slice", {Iota({5}), I64({-2}), I64({kMin}), I64({0}), I64({-2})}), {2},
               {3, 1});
  ExpectTensor(Eval("Slice", {Iota({2, 3}), I64({1}), I64({kMax}), I64({1})}), {2, 2},
               {1, 2, 4, 5});
  ExpectTensor(Eval("Slice", {Iota({3}), I64({kMax}), I64({kMin}), I64({0}), I64({kMin})}), {1},
               {2});
  ExpectTensor(Eval("Slice", {Iota({3}), I64({2}), I64({1})}), {0}, {});
  EXPECT_SAYS(ErrorOf("Concat", {Iota({2}), Iota({2, 1})}, {{"axis", int64_t{0}}}),
              "does not join");
  EXPECT_SAYS(ErrorOf("Split", {Iota({5}), I64({2, kMax})}), "split");
  EXPECT_SAYS(ErrorOf("Slice", {Iota({3}), I64({0}), I64({1}), I64({0}), I64({0})}), "step of 0");
}

TEST(Move, PermuteTilePad) {
  ExpectTensor(Eval("Transpose", {Iota({2, 3})}), {3, 2}, {0, 3, 1, 4, 2, 5});
  ExpectTensor(Eval("Tile", {F32({1, 2}, {1, 2}), I64({2, 2})}), {2, 4}, {1, 2, 1, 2, 1, 2, 1, 2});
  const auto pad = [](std::string mode, std::vector<int64_t> pads) {
    return Eval("Pad", {Iota({3}), I64(pads)}, {{"mode", std::move(mode)}});
  };
  ExpectTensor(pad("reflect", {2, 3}), {8}, {2, 1, 0, 1, 2, 1, 0, 1});
  ExpectTensor(pad("edge", {1, 1}), {5}, {0, 0, 1, 2, 2});
  ExpectTensor(pad("wrap", {1, 2}), {6}, {2, 0, 1, 2, 0, 1});
  ExpectTensor(pad("constant", {-1, 1}), {3}, {1, 2, 0});
  EXPECT_SAYS(ErrorOf("Pad", {Iota({3}), I64({-4, 0})}), "pads axis 0");
  EXPECT_SAYS(ErrorOf("Pad", {Iota({3}), I64({kMin, kMax})}), "a pad of");
  const Tensor depth = Eval("DepthToSpace", {Iota({1, 4, 1, 2})}, {{"blocksize", int64_t{2}}});
  ExpectTensor(depth, {1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7});
  ExpectTensor(Eval("SpaceToDepth", {depth}, {{"blocksize", int64_t{2}}}), {1, 4, 1, 2},
               {0, 1, 2, 3, 4, 5, 6, 7});
  ExpectTensor(Eval("ReverseSequence", {Iota({3, 2}), I64({2, 3})}), {3, 2}, {2, 5, 0, 3, 4, 1});
  EXPECT_SAYS(ErrorOf("ReverseSequence", {Iota({3, 2}), I64({4, 0})}), "holds 4, outside [0, 3]");
}

TEST(Gather, ReadsAndWritesAtIndices) {
  ExpectTensor(Eval("Gather", {Iota({3, 2}), I64({-1, 0})}), {2, 2}, {4, 5, 0, 1});
  ExpectTensor(Eval("Gather", {I64({7, 8}), Make(Dtype::kI32, {}, {1})}), {}, {8});
  ExpectTensor(Eval("GatherElements", {Iota({2, 2}), Make(Dtype::kI64, {2, 1}, {1, 0})},
                    {{"axis", int64_t{1}}}),
               {2, 1}, {1, 2});
  ExpectTensor(Eval("GatherND", {Iota({2, 2, 2}), Make(Dtype::kI64, {2, 1}, {1, 0})},
                    {{"batch_dims", int64_t{1}}}),
               {2, 2}, {2, 3, 4, 5});
  ExpectTensor(Eval("ScatterND", {Iota({4}), Make(Dtype::kI64, {2, 1}, {1, -1}), F32({2}, {9, 8})}),
               {4}, {0, 9, 2, 8});
  ExpectTensor(Eval("ScatterElements", {Iota({3}), I64({1, 1}), F32({2}, {9, 8})},
                    {{"reduction", std::string("add")}}),
               {3}, {0, 18, 2});
  EXPECT_SAYS(ErrorOf("Gather", {Iota({3}), I64({0, 3})}),
              "operand in1 (x1) holds 3 at 1, outside [-3, 3)");
  EXPECT_SAYS(ErrorOf("Gather", {Iota({3}), I64({kMin})}), "outside [-3, 3)");
  EXPECT_SAYS(ErrorOf("Gather", {F32({0}, {}), I64({0})}), "outside [0, 0)");
  EXPECT_SAYS(ErrorOf("GatherND", {Iota({2, 2}), Make(Dtype::kI64, {1, 3}, {0, 0, 0})}), "indexes");
  EXPECT_SAYS(ErrorOf("GatherND", {Iota({2, 2}), Make(Dtype::kI64, {1, 2}, {0, 2})}),
              "holds 2 at 1");
  EXPECT_SAYS(ErrorOf("ScatterND", {Iota({2}), Make(Dtype::kI64, {1, 1}, {-3}), F32({1}, {0})}),
              "holds -3");
  EXPECT_SAYS(ErrorOf("ScatterElements", {Iota({2}), I64({2}), F32({1}, {0})}), "holds 2");
}

// Against a stable sort: blocks and rests, few of many and all, ties, zeros of both signs,
// infinities, NaN, along either axis.
TEST(Select, TopKOfManyElements) {
  std::mt19937 random(1);
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBF16, Dtype::kI8, Dtype::kI64}) {
    for (const int64_t extent : {1, 31, 33, 64, 65, 300}) {
      for (const int64_t k : {int64_t{1}, extent / 2, extent}) {
        const int64_t axis = random() % 2, largest = random() % 2;
        const Shape shape = axis == 0 ? Shape{extent, 2} : Shape{2, extent};
        const int64_t step = axis == 0 ? 2 : 1, apart = axis == 0 ? 1 : extent;
        std::vector<double> x(2 * extent);
        for (double& v : x) {
          v = static_cast<double>(random() % 100) - 50;
          if (IsFloat(dtype) && v == 7) v = std::nan("");
          if (IsFloat(dtype) && std::abs(v) == 9) v *= HUGE_VAL;
          if (IsFloat(dtype) && v == 0 && random() % 2 == 0) v = -0.0;
        }
        const auto top = RunAll("TopK", {Make(dtype, shape, x), I64({k})},
                                {{"axis", axis}, {"largest", largest}}, 2);
        for (int64_t row = 0; row < 2; ++row) {
          const auto at = [&](int64_t i) { return x[row * apart + i * step]; };
          std::vector<int64_t> order(extent);
          std::iota(order.begin(), order.end(), 0);
          std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
            const auto rank = [&](int64_t i) { return std::pair(std::isnan(at(i)), at(i)); };
            const bool both = std::isnan(at(a)) && std::isnan(at(b));
            if (both) return false;
            return largest != 0 ? rank(a) > rank(b) : rank(a) < rank(b);
          });
          for (int64_t i = 0; i < k; ++i) {
            const int64_t place = row * (axis == 0 ? 1 : k) + i * step;
            ASSERT_EQ(Values(top[1])[place], static_cast<double>(order[i]))
                << DtypeName(dtype) << " " << extent << " " << k << " " << axis << largest;
          }
        }
      }
    }
  }
}

TEST(Select, DataDependentShapes) {
  ExpectTensor(Eval("NonZero", {F32({2, 2}, {0, 1, 2, 0})}), {2, 2}, {0, 1, 1, 0});
  ExpectTensor(Eval("NonZero", {F32({}, {1})}), {0, 1}, {});
  ExpectTensor(
      Eval("Compress", {Iota({3, 2}), Make(Dtype::kBool, {2}, {0, 1})}, {{"axis", int64_t{0}}}),
      {1, 2}, {2, 3});
  const auto top = RunAll("TopK", {F32({4}, {1, 3, std::nan(""), 3}), I64({3})}, {}, 2);
  EXPECT_EQ(Values(top[1]), (std::vector<double>{2, 1, 3}));
  const auto unique = RunAll("Unique", {F32({4}, {2, 1, 2, 3})}, {{"sorted", int64_t{0}}}, 4);
  ExpectTensor(unique[0], {3}, {2, 1, 3});
  ExpectTensor(unique[1], {3}, {0, 1, 3});
  ExpectTensor(unique[2], {4}, {0, 1, 0, 2});
  ExpectTensor(unique[3], {3}, {2, 1, 1});
  const auto empty = RunAll("Unique", {F32({3, 0}, {})}, {{"axis", int64_t{0}}}, 4);
  ExpectTensor(empty[0], {1, 0}, {});
  ExpectTensor(empty[2], {3}, {0, 0, 0});
  ExpectTensor(Eval("OneHot", {I64({1, -1, 9}), I64({3}), F32({2}, {0, 5})}), {3, 3},
               {0, 5, 0, 0, 0, 5, 0, 0, 0});
  EXPECT_SAYS(ErrorOf("TopK", {Iota({2}), I64({3})}), "is 3, outside [0, 2]");
  EXPECT_SAYS(ErrorOf("OneHot", {I64({1}), I64({kMin}), F32({2}, {0, 5})}),
              "is -9223372036854775808");
}

TEST(Vision, SuppressesAndAligns) {
  const Tensor boxes = F32({1, 3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11});
  const Tensor scores = F32({1, 1, 3}, {0.9, 0.75, 0.6});
  ExpectTensor(Eval("NonMaxSuppression", {boxes, scores, I64({3}), F32({1}, {0.5}), F32({1}, {0})}),
               {2, 3}, {0, 0, 0, 0, 0, 2});
  ExpectTensor(Eval("NonMaxSuppression", {boxes, scores}), {0, 3}, {});
  const std::vector<CallAttribute> two = {
      {"coordinate_transformation_mode", std::string("output_half_pixel")},
      {"output_height", int64_t{1}},
      {"output_width", int64_t{1}},
      {"sampling_ratio", int64_t{1}}};
  ExpectTensor(Eval("RoiAlign", {Iota({1, 1, 4, 4}), F32({1, 4}, {0, 0, 2, 2}), I64({0})}, two),
               {1, 1, 1, 1}, {5});
  auto most = two;
  most.push_back({"mode", std::string("max")});
  Tensor odd = Iota({1, 1, 4, 4});
  SetElem(odd, 10, std::nan(""));
  EXPECT_TRUE(
      std::isnan(Values(Eval("RoiAlign", {odd, F32({1, 4}, {0, 0, 3, 3}), I64({0})}, most))[0]));
  EXPECT_SAYS(ErrorOf("RoiAlign", {Iota({1, 1, 4, 4}), F32({1, 4}, {0, 0, 2, 2}), I64({1})}),
              "holds 1, outside [0, 1)");
  EXPECT_SAYS(ErrorOf("RoiAlign", {Iota({1, 1, 4, 4}), F32({1, 4}, {0, 0, 1e30, 2}), I64({0})}),
              "region of");
}

TEST(Vision, PoolsRegions) {
  const std::vector<CallAttribute> bins = {{"pooled_shape", std::vector<int64_t>{2, 2}}};
  // A side of 3 pixels from 1 on: bins of 1 to 3 and of 2 to 4 share one. The second region lies
  // outside.
  const Tensor rois = F32({2, 5}, {0, 1, 1, 3, 3, 0, 9, 9, 12, 12});
  ExpectTensor(Eval("MaxRoiPool", {Iota({1, 1, 4, 4}), rois}, bins), {2, 1, 2, 2},
               {10, 11, 14, 15, 0, 0, 0, 0});
  Tensor odd = Iota({1, 1, 4, 4});
  SetElem(odd, 5, std::nan(""));
  EXPECT_TRUE(std::isnan(Values(Eval("MaxRoiPool", {odd, rois}, bins))[0]));
  EXPECT_SAYS(ErrorOf("MaxRoiPool", {Iota({1, 1, 4, 4}), F32({1, 5}, {1, 0, 0, 1, 1})}, bins),
              "holds image 1, outside [0, 1)");
}

TEST(Native, SaysWhatItLacks) {
  EXPECT_TRUE(HasNative("Add"));
  EXPECT_FALSE(HasNative("Hardmax"));
  EXPECT_SAYS(ErrorOf("Hardmax", {Iota({1})}), "no native kernel for Hardmax");
  EXPECT_SAYS(ErrorOf("Add", {Iota({1})}), "operand in1 is missing");
  EXPECT_SAYS(ErrorOf("Concat", {}), "operand in0 is missing");
  EXPECT_SAYS(ErrorOf("Identity", {Iota(Shape(27, 1))}), "rank 27");
}

}  // namespace
}  // namespace weft::fallback
