// Weights in 28 bits: the same numbers, whatever they are.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>

#include "graph/edit.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

using graph::Graph;
using graph::Op;

constexpr int64_t kSteps = 272, kColumns = 259;  // more than 2^16 weights, no whole registers

using Draw = std::function<float(int64_t row, int64_t column)>;

// x [m, k] times weights: alternatives of it, where all that are found must be right.
struct Product {
  Graph graph;
  Tensor weights;  // [k, n]

  Product(int64_t m, const Draw& draw, bool transposed = false, bool biased = false,
          int64_t least_bytes = 0)
      : weights(Dtype::kF32, {kSteps, kColumns}) {
    Tensor stored(Dtype::kF32, transposed ? Shape{kColumns, kSteps} : Shape{kSteps, kColumns});
    for (int64_t row = 0; row < kSteps; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        const float w = draw(row, column);
        weights.mutable_as<float>()[row * kColumns + column] = w;
        stored.mutable_as<float>()[transposed ? column * kSteps + row : row * kColumns + column] =
            w;
      }
    std::vector<graph::ValueId> in = {graph::AddInput(graph, "x", Dtype::kF32, {m, kSteps}),
                                      graph::AddConstant(graph, "w", stored)};
    if (biased) {
      Tensor bias(Dtype::kF32, {kColumns});
      for (int64_t i = 0; i < kColumns; ++i) bias.mutable_as<float>()[i] = static_cast<float>(i);
      in.push_back(graph::AddConstant(graph, "b", bias));
    }
    const auto y = transposed || biased ? graph::AddNode(graph, Op::kGemm, in, "y",
                                                         {{"transB", int64_t{transposed}}})
                                        : graph::AddNode(graph, Op::kMatMul, in, "y");
    graph[y].dtype = Dtype::kF32;
    graph[y].shape = {{m, kColumns}};
    graph.outputs = {y};
    PrepareCompressed(graph, least_bytes);
  }

  // Null if there is none.
  std::optional<Alternative> Compressed() const {
    const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
    EXPECT_TRUE(alternatives.yes());
    for (const Alternative& a : *alternatives)
      if (a.name == "compressed") return a;
    return std::nullopt;
  }

  Tensor Run(const Tensor& x) const {
    const auto alternative = Compressed();
    EXPECT_TRUE(alternative);
    if (!alternative) return {};
    std::vector<Tensor> operands;
    for (const graph::ValueId v : alternative->inputs)
      operands.push_back(graph[v].kind == graph::ValueKind::kConstant ? graph[v].constant : x);
    auto results = Interpret(alternative->program, operands);
    EXPECT_TRUE(results.ok()) << results.status().ToString();
    return results.ok() ? (*results)[0] : Tensor();
  }
};

Draw Normal(uint64_t seed) {
  auto random = std::make_shared<std::mt19937_64>(seed);
  return [random](int64_t, int64_t) {
    return static_cast<float>(0.05 * std::normal_distribution<double>()(*random));
  };
}

// Rows of ones and zeros take single weights, whose bits must be the same.
void ExpectSameWeights(const Product& product, std::span<const int64_t> rows) {
  for (const int64_t row : rows) {
    Tensor x(Dtype::kF32, {1, kSteps});
    x.mutable_as<float>()[row] = 1;
    const Tensor y = product.Run(x);
    ASSERT_EQ(y.elems(), kColumns);
    for (int64_t column = 0; column < kColumns; ++column)
      ASSERT_EQ(y.as<float>()[column], product.weights.as<float>()[row * kColumns + column])
          << "row " << row << ", column " << column;
  }
}

TEST(Compressed, EveryWeightIsTheSame) {
  const Draw normal = Normal(1);
  const Draw odd = [&](int64_t row, int64_t column) {  // four rows of them
    const float w = normal(row, column);
    if (row == 3) return column % 2 == 0 ? 0.0f : -0.0f;
    if (row == 70) return w * 0x1p-60f;
    if (row == 71) return column == 40 ? std::numeric_limits<float>::denorm_min() : w;
    if (row == 200) return column == 8 ? 0x1p100f : w;
    return w;
  };
  for (const bool transposed : {false, true})
    ExpectSameWeights(Product(1, odd, transposed), std::array<int64_t, 6>{0, 3, 70, 71, 200, 271});
}

// Numbers of 16 bits that the model has as float32 are read as such, those of every size.
TEST(Compressed, NumbersOfSixteenBits) {
  const auto in = [](Dtype dtype, int64_t bits_of) {
    return [dtype, bits_of](int64_t row, int64_t column) {
      const int64_t at = row * kColumns + column;
      Tensor one(dtype, {1});
      *static_cast<uint16_t*>(one.mutable_data()) = static_cast<uint16_t>(at * 40503 % bits_of);
      const auto value = static_cast<float>(ElemAsDouble(one, 0));
      return std::isfinite(value) ? (at % 2 == 0 ? value : -value) : 0.0f;
    };
  };
  const std::array<int64_t, 5> rows = {0, 1, 100, 200, 271};
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF16}) {
    const Product product(1, in(dtype, 1 << 15));
    const auto alternative = product.Compressed();
    ASSERT_TRUE(alternative);
    EXPECT_EQ(alternative->inputs.size(), 2u);
    EXPECT_EQ(product.graph[alternative->inputs[1]].dtype, dtype);
    ExpectSameWeights(product, rows);
  }
  for (const float odd : {0x1p-25f, 0x1.002p0f, 65536.0f}) {  // no float16, and others no bfloat16
    const Draw draw = [&](int64_t row, int64_t column) {
      return row == 1 && column == 7 ? odd : 0x1.01p0f + 0x1p-10f;
    };
    const Product product(1, draw);
    ASSERT_TRUE(product.Compressed());
    EXPECT_GT(product.Compressed()->inputs.size(), 2u) << odd;
    ExpectSameWeights(product, rows);
  }
}

TEST(Compressed, FewRowsWithAndWithoutBias) {
  for (const int64_t m : {1, 2, 4}) {
    for (const bool biased : {false, true}) {
      const Product product(m, Normal(static_cast<uint64_t>(m)), false, biased);
      Tensor x(Dtype::kF32, {m, kSteps});
      const Draw normal = Normal(9);
      for (int64_t i = 0; i < x.elems(); ++i) x.mutable_as<float>()[i] = normal(0, i);
      const Tensor y = product.Run(x);
      for (int64_t i = 0; i < m * kColumns; ++i) {
        double sum = biased ? static_cast<double>(i % kColumns) : 0;
        for (int64_t k = 0; k < kSteps; ++k)
          sum += static_cast<double>(x.as<float>()[i / kColumns * kSteps + k]) *
                 static_cast<double>(product.weights.as<float>()[k * kColumns + i % kColumns]);
        ASSERT_NEAR(y.as<float>()[i], sum, 1e-5 * std::max(1.0, std::abs(sum)));
      }
    }
  }
}

TEST(Compressed, WhatIsNoneStaysAsItIs) {
  EXPECT_TRUE(Product(4, Normal(1)).Compressed());
  EXPECT_FALSE(Product(5, Normal(1)).Compressed());  // multiplies for longer than it reads
  EXPECT_TRUE(Product(1, Normal(1), false, false, 4 * kSteps * kColumns).Compressed());
  EXPECT_FALSE(Product(1, Normal(1), false, false, 4 * kSteps * kColumns + 1).Compressed());
  const Draw wide = [](int64_t row, int64_t column) {
    return std::ldexp(1.2345f, static_cast<int>((row * 7 + column) % 90) - 45);
  };
  EXPECT_FALSE(Product(1, wide).Compressed());
}

// What is infinite is so in all results, but in a row that is listed.
TEST(Compressed, InfiniteInputs) {
  const Draw normal = Normal(3);
  const Product product(1, [&](int64_t row, int64_t column) {
    const float w = normal(row, column);
    return row == 7 && column == 3 ? 0x1p-60f : w + (w < 0 ? -1.0f : 1.0f);
  });
  EXPECT_GT(product.Compressed()->inputs.size(), 5u);  // one is listed
  for (const int64_t row : {0, 100}) {
    Tensor x(Dtype::kF32, {1, kSteps});
    x.mutable_as<float>()[row] = std::numeric_limits<float>::infinity();
    const Tensor y = product.Run(x);
    for (int64_t column = 0; column < kColumns; ++column)
      ASSERT_TRUE(std::isinf(y.as<float>()[column])) << "row " << row << ", column " << column;
  }
}

// All weights may be zero, or one of them anything.
TEST(Compressed, ZerosAndOneThatIsNot) {
  for (const float odd : {0.0f, 1.0f, -0x1p-140f, std::numeric_limits<float>::max()}) {
    const Draw draw = [&](int64_t row, int64_t column) {
      return row == 5 && column == 77 ? odd : 0.0f;
    };
    ExpectSameWeights(Product(1, draw), std::array<int64_t, 2>{5, 6});
  }
}

}  // namespace
}  // namespace weft::tc
