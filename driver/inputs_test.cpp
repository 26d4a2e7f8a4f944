#include "driver/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "driver/testing.h"

namespace weft::driver {
namespace {

using testing::Parsed;

std::string Bytes(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())};
}

std::set<int64_t> Values(const Tensor& t) {
  std::set<int64_t> values;
  for (int64_t i = 0; i < t.elems(); ++i) values.insert(ElemAsInt(t, i));
  return values;
}

// What the only input of a graph gets.
std::set<int64_t> ValuesOfFirst(const std::string& text) {
  auto inputs = GenerateInputs(Parsed(text), 1);
  EXPECT_TRUE(inputs.ok()) << inputs.status().ToString();
  return inputs.ok() ? Values(inputs->front()) : std::set<int64_t>();
}

const std::set<int64_t> kMask = {0, 1};

TEST(Inputs, ASeedIsItsNumbers) {
  const graph::Graph graph =
      Parsed("graph g (x: f32[5, 7], y: f32[5, 7]) -> (z) {\nz = Add(x, y)\n}");
  const auto one = *GenerateInputs(graph, 1), again = *GenerateInputs(graph, 1),
             other = *GenerateInputs(graph, 2);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(Bytes(one[0]), Bytes(again[0]));
  EXPECT_EQ(Bytes(one[1]), Bytes(again[1]));
  EXPECT_NE(Bytes(one[0]), Bytes(one[1]));
  EXPECT_NE(Bytes(one[0]), Bytes(other[0]));
}

TEST(Inputs, TheNumbersAreTheSameOnEveryMachine) {
  const Tensor t = *GenerateTensor(Dtype::kF64, {2}, 5489, 2);  // the engine's documented seed
  EXPECT_EQ(ElemAsDouble(t, 0), static_cast<double>(14514284786278117030ULL >> 11) * 0x1p-52 - 1.0);
  EXPECT_EQ(ElemAsDouble(t, 1), static_cast<double>(4620546740167642908ULL >> 11) * 0x1p-52 - 1.0);
}

TEST(Inputs, FloatsFillAnInterval) {
  for (Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64}) {
    const Tensor t = *GenerateTensor(dtype, {1000}, 3, 2);
    double low = 1, high = -1;
    for (int64_t i = 0; i < t.elems(); ++i) {
      low = std::min(low, ElemAsDouble(t, i));
      high = std::max(high, ElemAsDouble(t, i));
    }
    EXPECT_TRUE(-1 <= low && low < -0.9 && 0.9 < high && high <= 1) << DtypeName(dtype);
  }
}

TEST(Inputs, PlainIntegersAreMasks) {
  for (const char* type : {"i64", "i32", "u8", "bool"}) {
    const std::string text =
        std::string("graph g (m: ") + type + "[64]) -> (y) {\ny = Cast(m) {to = 1}\n}";
    EXPECT_EQ(ValuesOfFirst(text), kMask) << type;
  }
}

TEST(Inputs, IndicesReachAllOfTheirAxisAndNoFurther) {
  const std::set<int64_t> five = {0, 1, 2, 3, 4};
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200], t: f32[5, 9]) -> (y) {\ny = Gather(t, i)\n}"),
            five);
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200], t: f32[9, 5]) -> (y) {\n"
                          "y = Gather(t, i) {axis = -1}\n}"),
            five);
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200, 9], t: f32[5, 9]) -> (y) {\n"
                          "y = GatherElements(t, i) {axis = 0}\n}"),
            five);
}

TEST(Inputs, ScattersAndTuplesOfIndicesStayInside) {
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[1, 8], x: f32[1, 8], u: f32[1, 8]) -> (y) {\n"
                          "y = ScatterElements(x, i, u) {axis = 0}\n}"),
            (std::set<int64_t>{0}));
  const std::set<int64_t> three = {0, 1, 2};
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200, 2], x: f32[5, 3, 2], u: f32[200, 2]) -> (y) {\n"
                          "y = ScatterND(x, i, u)\n}"),
            three);
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[2, 200, 2], x: f32[2, 3, 4]) -> (y) {\n"
                          "y = GatherND(x, i) {batch_dims = 1}\n}"),
            three);
}

TEST(Inputs, IndicesAreFollowedThroughWhatMovesThem) {
  EXPECT_EQ(ValuesOfFirst("graph g (i: i32[200], t: f32[3, 2]) -> (y) {\naxes: i64[1] = const(0)\n"
                          "a = Cast(i) {to = 7}\nb = Unsqueeze(a, axes)\ny = Gather(t, b)\n}"),
            (std::set<int64_t>{0, 1, 2}));
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200], t: f32[3, 2]) -> (y) {\na = Mul(i, i)\n"
                          "y = Gather(t, a)\n}"),
            kMask);
}

TEST(Inputs, TheSmallestTableCounts) {
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200], s: f32[7, 2], t: f32[3, 2]) -> (y, z) {\n"
                          "y = Gather(s, i)\nz = Gather(t, i)\n}"),
            (std::set<int64_t>{0, 1, 2}));
  EXPECT_EQ(ValuesOfFirst("graph g (i: i64[200], t: f32[1, 2]) -> (y) {\ny = Gather(t, i)\n}"),
            (std::set<int64_t>{0}));
}

TEST(Inputs, WhatIsNotKnownIsAskedFor) {
  const auto open = GenerateInputs(
      Parsed("graph g (tokens: f32[n]) -> (y) {\nsymbol n in 1:64\ny = Relu(tokens)\n}"), 1);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.status().code(), Code::kUsage);
  EXPECT_NE(open.status().what().find("tokens"), std::string::npos);
  EXPECT_NE(open.status().hint().find("--shape tokens="), std::string::npos);
}

TEST(Inputs, StringsAreNumbers) {
  const auto text =
      GenerateInputs(Parsed("graph g (words: string[9]) -> (y) {\ny = Identity(words)\n}"), 1);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  std::set<std::string> different;
  for (const std::string& word : (*text)[0].strings()) {
    EXPECT_TRUE(word.size() == 1 || word.size() == 2) << word;
    different.insert(word);
  }
  EXPECT_GT(different.size(), 2u);
}

}  // namespace
}  // namespace weft::driver
