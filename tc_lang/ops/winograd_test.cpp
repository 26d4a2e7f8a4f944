#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "graph/edit.h"
#include "tc_lang/ops/winograd_form.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

using graph::Graph;

// y = Conv(x, w) over an x of [1, C, 9, 8], with the filter w of [K, C, 3, 3].
Graph ConvOf(Tensor filter, std::vector<graph::Attribute> attributes = {}) {
  Graph graph;
  const int64_t ins = filter.shape()[1], outs = filter.shape()[0];
  const auto x = graph::AddInput(graph, "x", Dtype::kF32, {1, ins, 9, 8});
  const auto w = graph::AddConstant(graph, "w", std::move(filter));
  const auto y = graph::AddNode(graph, graph::Op::kConv, {x, w}, "y", std::move(attributes));
  graph[y].dtype = Dtype::kF32;
  graph[y].shape = {{1, outs, 7, 6}};
  graph.outputs = {y};
  return graph;
}

Tensor Filter(int64_t outs, int64_t ins, auto element) {
  Tensor filter(Dtype::kF32, {outs, ins, 3, 3});
  for (int64_t i = 0; i < filter.elems(); ++i)
    static_cast<float*>(filter.mutable_data())[i] = element(i);
  return filter;
}

Tensor RandomFilter(int64_t outs, int64_t ins) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  return Filter(outs, ins, [&](int64_t) { return normal(random); });
}

std::vector<std::string> AlternativesOf(const Graph& graph) {
  std::vector<std::string> names;
  const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
  for (const Alternative& a : *alternatives) names.push_back(a.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Winograd, PreparesFiltersOfThreeByThree) {
  Graph graph = ConvOf(RandomFilter(5, 4));
  EXPECT_EQ(AlternativesOf(graph), Names{"direct"});
  const auto prepared = PrepareConstants(graph, Winograd::kWithinBound);
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_EQ(prepared[0].nodes, std::vector<graph::NodeId>{graph::NodeId(0)});
  EXPECT_FALSE(prepared[0].refusal) << *prepared[0].error_ratio;
  EXPECT_GT(*prepared[0].error_ratio, 0);
  EXPECT_EQ(AlternativesOf(graph), (Names{"direct", "winograd"}));
  const Tensor& u = graph.values.back().constant;
  EXPECT_EQ(u.shape(), (Shape{4, 4, 5, 4}));
}

// A volume's depth has taps of its own, which tiles are summed over.
TEST(Winograd, PreparesFiltersOfVolumes) {
  const auto transformed = [](const Shape& filter) {
    Graph graph;
    const auto x = graph::AddInput(graph, "x", Dtype::kF32, {1, 4, 6, 9, 8});
    Tensor w(Dtype::kF32, filter);
    std::mt19937 random(1);
    for (int64_t i = 0; i < w.elems(); ++i)
      static_cast<float*>(w.mutable_data())[i] = std::normal_distribution<float>()(random);
    const auto y =
        graph::AddNode(graph, graph::Op::kConv, {x, graph::AddConstant(graph, "w", w)}, "y");
    graph[y].dtype = Dtype::kF32;
    graph[y].shape = {{1, 5, 7 - filter[2], 10 - filter[3], 9 - filter[4]}};
    graph.outputs = {y};
    PrepareConstants(graph, Winograd::kWithinBound);
    const Names names = AlternativesOf(graph);
    return names == Names{"direct", "winograd"} ? graph.values.back().constant.shape() : Shape{};
  };
  EXPECT_EQ(transformed({5, 4, 3, 3, 3}), (Shape{4, 4, 5, 4, 3}));
  EXPECT_EQ(transformed({5, 4, 1, 3, 3}), (Shape{4, 4, 5, 4, 1}));
  EXPECT_EQ(transformed({5, 4, 2, 1, 3}), (Shape{1, 4, 5, 4, 2}));
  EXPECT_EQ(transformed({5, 4, 3, 1, 1}), (Shape{4, 1, 5, 4, 1}));
  EXPECT_EQ(transformed({5, 4, 3, 1, 3}), (Shape{4, 4, 5, 4, 1}));
  EXPECT_EQ(transformed({5, 4, 3, 3, 1}), (Shape{4, 4, 5, 4, 1}));
  EXPECT_EQ(transformed({5, 4, 1, 1, 1}), Shape{});
  EXPECT_EQ(transformed({5, 4, 3, 2, 3}), Shape{});
}

using Rows = std::vector<std::vector<double>>;

Rows Times(const Rows& a, const Rows& b) {
  Rows c(a.size(), std::vector<double>(b[0].size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Rows Transposed(const Rows& a) {
  Rows t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

// A^T [(G g G^T) o (B^T d B)] A is the convolution of d with g, along both axes or one.
TEST(Winograd, MatricesConvolve) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const WinogradForm& form : WinogradForms()) {
    for (const Shape& filters :
         {Shape{1, 1, 3, 3}, {1, 1, 1, 3}, {1, 1, 3, 1}, {1, 1, 3}, {1, 1, 1, 3, 3}}) {
      const auto [down, across] = FormsAlong(form, filters);
      Rows d(down.ins(), std::vector<double>(across.ins())),
          g(down.taps(), std::vector<double>(across.taps()));
      for (Rows* m : {&d, &g})
        for (auto& row : *m)
          for (double& x : row) x = normal(random);
      const Rows u = Times(Times(down.filter, g), Transposed(across.filter));
      Rows products = Times(Times(down.input, d), Transposed(across.input));
      for (size_t i = 0; i < down.ins(); ++i)
        for (size_t j = 0; j < across.ins(); ++j) products[i][j] *= u[i][j];
      const Rows y = Times(Times(down.output, products), Transposed(across.output));
      for (size_t i = 0; i < down.outs(); ++i)
        for (size_t j = 0; j < across.outs(); ++j) {
          double sum = 0;
          for (size_t r = 0; r < down.taps(); ++r)
            for (size_t s = 0; s < across.taps(); ++s) sum += d[i + r][j + s] * g[r][s];
          EXPECT_NEAR(y[i][j], sum, 1e-12) << form.alternative;
        }
    }
  }
}

// g with a one in the middle: G g G^T is the outer product of G's middle column with itself.
TEST(Winograd, TransformsFilters) {
  const Tensor transformed = TransformFilters(
      WinogradForms()[0], Filter(1, 1, [](int64_t i) { return i == 4 ? 1.0F : 0.0F; }));
  const auto* u = static_cast<const float*>(transformed.data());
  const float column[] = {0, 0.5, -0.5, 0};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) EXPECT_EQ(u[4 * i + j], column[i] * column[j]) << i << " " << j;
}

// The same of integers, taken twice along each axis.
TEST(Winograd, TransformsIntegers) {
  Tensor filter(Dtype::kU8, {1, 1, 3, 3}), zero(Dtype::kU8, {});
  for (int64_t i = 0; i < 9; ++i) SetElemInt(filter, i, i == 4 ? 8 : 7);
  SetElemInt(zero, 0, 7);
  const auto transformed = TransformIntegers(WinogradForms()[0], filter, &zero);
  ASSERT_TRUE(transformed);
  const int64_t column[] = {0, 1, -1, 0};
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(ElemAsInt(*transformed, i), column[i / 4] * column[i % 4]) << i;
}

TEST(Winograd, LeavesOtherConvolutionsAlone) {
  const auto prepares = [](Graph graph) {
    return !PrepareConstants(graph, Winograd::kAlways).empty();
  };
  using Ints = std::vector<int64_t>;
  EXPECT_TRUE(prepares(ConvOf(RandomFilter(4, 4), {{"strides", Ints{1, 1}}})));
  EXPECT_FALSE(prepares(ConvOf(RandomFilter(4, 4), {{"strides", Ints{1, 2}}})));
  EXPECT_FALSE(prepares(ConvOf(RandomFilter(4, 4), {{"dilations", Ints{2, 2}}})));
  EXPECT_FALSE(prepares(ConvOf(RandomFilter(4, 4), {{"group", int64_t{2}}})));
  EXPECT_TRUE(prepares(ConvOf(Tensor(Dtype::kF32, {4, 4, 1, 3}))));
  EXPECT_FALSE(prepares(ConvOf(Tensor(Dtype::kF32, {4, 4, 1, 1}))));
  EXPECT_FALSE(prepares(ConvOf(Tensor(Dtype::kF32, {4, 4, 2, 3}))));
  EXPECT_FALSE(prepares(ConvOf(Tensor(Dtype::kF32, {4, 4, 3}))));        // of an image
  EXPECT_FALSE(prepares(ConvOf(Tensor(Dtype::kF32, {4, 4, 3, 3, 3}))));  // of a volume
  EXPECT_FALSE(prepares(ConvOf(Tensor(Dtype::kF64, {4, 4, 3, 3}))));
  Graph never = ConvOf(RandomFilter(4, 4));
  EXPECT_TRUE(PrepareConstants(never, Winograd::kNever).empty());
}

// A lone tap rounds once when done directly: tiles can only lose.
TEST(Winograd, KeepsToTheErrorOfTheDirectForm) {
  const auto lone = [](int64_t i) { return i % 9 == 0 ? 0.3F : 0.0F; };
  Graph graph = ConvOf(Filter(2, 1, lone));
  auto prepared = PrepareConstants(graph, Winograd::kWithinBound);
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_GT(*prepared[0].error_ratio, 2);
  ASSERT_TRUE(prepared[0].refusal);
  EXPECT_EQ(prepared[0].refusal->reason, Reason::kInaccurate);
  EXPECT_EQ(AlternativesOf(graph), Names{"direct"});
  PrepareConstants(graph, Winograd::kAlways);
  EXPECT_EQ(AlternativesOf(graph), (Names{"direct", "winograd", "winograd4"}));
  // One such weight anywhere.
  for (const float huge : {std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(), 3e38F, -3e38F}) {
    const auto last = [&](int64_t i) { return i == 9 * 129 * 3 - 1 ? huge : 0.1F; };
    Graph odd = ConvOf(Filter(129, 3, last));
    EXPECT_TRUE(PrepareConstants(odd, Winograd::kWithinBound)[0].refusal) << huge;
  }
}

// A model may hold anything under the name that the prepared filter would have.
TEST(Winograd, TakesNoOtherValueForIt) {
  Graph graph = ConvOf(RandomFilter(2, 2));
  graph::AddConstant(graph, "w_winograd", Tensor(Dtype::kF32, {4, 4, 2, 2}));
  EXPECT_EQ(AlternativesOf(graph), Names{"direct"});
  PrepareConstants(graph, Winograd::kAlways);
  ASSERT_EQ(graph.values.size(), 6U);
  EXPECT_EQ(graph.values[4].name, "w_winograd_1");
  EXPECT_EQ(graph.values[5].name, "w_winograd4");
}

}  // namespace
}  // namespace weft::tc
