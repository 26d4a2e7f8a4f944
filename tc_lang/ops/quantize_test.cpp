// Products of quantized values: every alternative gives what the sum of ONNX's definition is.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/edit.h"
#include "tc_lang/interpret.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

using graph::Graph;
using graph::ValueId;

class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed) {}

  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }

  // Extremes among them.
  Tensor Bytes(Dtype dtype, Shape shape) {
    Tensor t(dtype, std::move(shape));
    auto* const bytes = static_cast<uint8_t*>(t.mutable_data());
    for (int64_t i = 0; i < t.elems(); ++i) {
      constexpr uint8_t kExtremes[] = {0, 127, 128, 255};
      bytes[i] = Pick(0, 3) == 0 ? kExtremes[Pick(0, 3)] : static_cast<uint8_t>(Pick(0, 255));
    }
    return t;
  }

 private:
  std::mt19937_64 random_;
};

int64_t At(const Tensor& t, int64_t i) {
  if (t.elems() == 0) return 0;
  return t.dtype() == Dtype::kI8 ? t.as<int8_t>()[i] : t.as<uint8_t>()[i];
}

// By alternative: the elements of the only output, as the interpreter computes it.
std::map<std::string, std::vector<int32_t>> Results(const Graph& graph, const Tensor& x) {
  std::map<std::string, std::vector<int32_t>> results;
  const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
  EXPECT_TRUE(alternatives.yes());
  for (const Alternative& a : *alternatives) {
    std::vector<Tensor> inputs;
    for (const ValueId v : a.inputs) inputs.push_back(v == graph.inputs[0] ? x : graph[v].constant);
    const auto outputs = Interpret(a.program, inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status().ToString() << Print(a.program);
    if (!outputs.ok()) continue;
    const auto* const out = (*outputs)[0].as<int32_t>();
    results[a.name].assign(out, out + (*outputs)[0].elems());
  }
  return results;
}

TEST(Quantized, ProductsOfMatrices) {
  int by_bytes = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Case c(seed);
    const int64_t m = c.Pick(1, 5), k = c.Pick(1, 9), n = c.Pick(1, 5);
    const Dtype of_x = c.Pick(0, 1) ? Dtype::kU8 : Dtype::kI8,
                of_w = c.Pick(0, 3) ? Dtype::kI8 : Dtype::kU8;
    const Tensor x = c.Bytes(of_x, {m, k}), w = c.Bytes(of_w, {k, n});
    const Tensor zero_x = c.Bytes(of_x, c.Pick(0, 1) ? Shape{m} : Shape{});
    Tensor zero_w = c.Bytes(of_w, c.Pick(0, 1) ? Shape{n} : Shape{});
    if (c.Pick(0, 2)) zero_w = Tensor(of_w, {n});
    Graph graph;
    const auto in = graph::AddInput(graph, "x", of_x, {m, k});
    const auto y = graph::AddNode(
        graph, graph::Op::kMatMulInteger,
        {in, graph::AddConstant(graph, "w", w), graph::AddConstant(graph, "zx", zero_x),
         graph::AddConstant(graph, "zw", zero_w)},
        "y");
    graph[y].dtype = Dtype::kI32;
    graph[y].shape = {{m, n}};
    graph.outputs = {y};
    PrepareSums(graph, seed % 2 == 1);
    const auto results = Results(graph, x);
    by_bytes += results.contains("bytes");
    for (const auto& [name, result] : results) {
      for (int64_t i = 0; i < m * n; ++i) {
        int64_t sum = 0;
        const int64_t row = i / n, column = i % n;
        for (int64_t p = 0; p < k; ++p)
          sum += (At(x, row * k + p) - At(zero_x, zero_x.shape().empty() ? 0 : row)) *
                 (At(w, p * n + column) - At(zero_w, zero_w.shape().empty() ? 0 : column));
        ASSERT_EQ(result[i], sum) << "seed " << seed << ", " << name << ", element " << i;
      }
    }
  }
  EXPECT_GT(by_bytes, 20);
}

// Whole and broken blocks, one block, zero points, types; and the same with numbers of 32 bits.
TEST(Quantized, ProductsWithDequantizedWeights) {
  int folded = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Case c(seed);
    const int64_t m = c.Pick(0, 1) ? c.Pick(1, 3) : c.Pick(8, 9), k = c.Pick(1, 9),
                  n = c.Pick(1, 5);
    const int64_t block = c.Pick(1, k), blocks = (k + block - 1) / block;
    const Dtype of_w = c.Pick(0, 1) ? Dtype::kI4 : Dtype::kI8;
    const bool shifts = c.Pick(0, 1) != 0;
    const auto numbers = [&](Dtype dtype, const Shape& shape) {
      Tensor t(dtype, shape);
      for (int64_t i = 0; i < t.elems(); ++i) SetElemInt(t, i, c.Pick(-8, 7));
      return t;
    };
    const Tensor x = numbers(Dtype::kF32, {m, k}), w = numbers(of_w, {k, n});
    const Tensor scale = numbers(Dtype::kF32, {blocks, n}), zero = numbers(of_w, {blocks, n});
    Graph graph;
    std::vector<graph::ValueId> in = {graph::AddInput(graph, "x", Dtype::kF32, {m, k}),
                                      graph::AddConstant(graph, "w", w),
                                      graph::AddConstant(graph, "s", scale)};
    if (shifts) in.push_back(graph::AddConstant(graph, "z", zero));
    const auto y =
        graph::AddNode(graph, graph::Op::kDequantizeMatMul, in, "y", {{"block_size", block}});
    graph[y].dtype = Dtype::kF32;
    graph[y].shape = {{m, n}};
    graph.outputs = {y};
    PrepareDequantized(graph);
    const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
    ASSERT_TRUE(alternatives.yes()) << alternatives.refusal().detail;
    folded += alternatives->size() > 1;
    for (const Alternative& alternative : *alternatives) {
      std::vector<Tensor> operands;
      for (const graph::ValueId v : alternative.inputs)
        operands.push_back(graph[v].kind == graph::ValueKind::kConstant ? graph[v].constant : x);
      const auto results = Interpret(alternative.program, operands);
      ASSERT_TRUE(results.ok()) << results.status().ToString();
      for (int64_t i = 0; i < m * n; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          const int64_t at = p / block * n + i % n;
          sum += ElemAsDouble(x, i / n * k + p) * ElemAsDouble(scale, at) *
                 (ElemAsDouble(w, p * n + i % n) - (shifts ? ElemAsDouble(zero, at) : 0));
        }
        ASSERT_EQ(ElemAsDouble((*results)[0], i), sum)  // whole numbers: exact in any order
            << "seed " << seed << ", " << alternative.name << ", element " << i;
      }
    }
  }
  EXPECT_GT(folded, 20);
}

TEST(Quantized, Convolutions) {
  int by_bytes = 0, by_rows = 0, by_tiles = 0, centred = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    Case c(seed);
    const int64_t group = c.Pick(1, 2), ins = group * c.Pick(1, 3), outs = group * c.Pick(1, 3);
    const int64_t size = c.Pick(4, 6), tap = c.Pick(1, 3), stride = c.Pick(1, 2),
                  dilation = c.Pick(1, tap < 3 ? 2 : 1);
    const std::vector<int64_t> pads{c.Pick(0, 1), c.Pick(0, 2), c.Pick(0, 2), c.Pick(0, 1)};
    const auto out = [&](int64_t pad) {
      return (size + pad - (tap - 1) * dilation - 1) / stride + 1;
    };
    const int64_t high = out(pads[0] + pads[2]), wide = out(pads[1] + pads[3]);
    const Dtype of_x = c.Pick(0, 1) ? Dtype::kU8 : Dtype::kI8,
                of_w = c.Pick(0, 3) ? Dtype::kI8 : Dtype::kU8;
    const Tensor x = c.Bytes(of_x, {2, ins, size, size}),
                 w = c.Bytes(of_w, {outs, ins / group, tap, tap}), zero_x = c.Bytes(of_x, {});
    const Tensor zero_w = c.Pick(0, 2) ? Tensor(of_w, {}) : c.Bytes(of_w, {outs});
    Graph graph;
    const auto in = graph::AddInput(graph, "x", of_x, {2, ins, size, size});
    const auto y = graph::AddNode(
        graph, graph::Op::kConvInteger,
        {in, graph::AddConstant(graph, "w", w), graph::AddConstant(graph, "zx", zero_x),
         graph::AddConstant(graph, "zw", zero_w)},
        "y",
        {{"group", group},
         {"pads", pads},
         {"strides", std::vector<int64_t>{stride, stride}},
         {"dilations", std::vector<int64_t>{dilation, dilation}}});
    graph[y].dtype = Dtype::kI32;
    graph[y].shape = {{2, outs, high, wide}};
    graph.outputs = {y};
    PrepareSums(graph, seed % 2 == 1);
    if (c.Pick(0, 1)) PrepareFilterRows(graph, c.Pick(0, 1) ? 2 : 4);
    for (const auto& form : graph.forms) by_rows += form.first.second == "filter_rows";
    PrepareIntegerTiles(graph);
    if (c.Pick(0, 1)) PrepareCentredFilters(graph);
    for (const auto& form : graph.forms) centred += form.first.second.starts_with("less");
    const auto results = Results(graph, x);
    by_bytes += results.contains("bytes");
    by_tiles += results.contains("winograd");
    const auto expected = [&](int64_t b, int64_t k, int64_t h, int64_t v) {
      int64_t sum = 0;
      for (int64_t i = 0; i < ins / group * tap * tap; ++i) {
        const int64_t ch = i / (tap * tap), r = i / tap % tap, s = i % tap;
        const int64_t at_h = h * stride + r * dilation - pads[0],
                      at_w = v * stride + s * dilation - pads[1];
        if (at_h < 0 || at_h >= size || at_w < 0 || at_w >= size) continue;
        const int64_t from = k / (outs / group) * (ins / group) + ch;
        sum +=
            (At(x, ((b * ins + from) * size + at_h) * size + at_w) - At(zero_x, 0)) *
            (At(w, k * (ins / group) * tap * tap + i) - At(zero_w, zero_w.shape().empty() ? 0 : k));
      }
      return sum;
    };
    for (const auto& [name, result] : results) {
      for (int64_t i = 0; i < 2 * outs * high * wide; ++i)
        ASSERT_EQ(result[i], expected(i / (outs * high * wide), i / (high * wide) % outs,
                                      i / wide % high, i % wide))
            << "seed " << seed << ", " << name << ", element " << i;
    }
  }
  EXPECT_GT(by_bytes, 20);
  EXPECT_GT(by_rows, 20);
  EXPECT_GT(by_tiles, 5);
  EXPECT_GT(centred, 20);
}

// y = ConvInteger(x, w), where the image and its filter have these zero points, of filters that
// move by one.
Graph ConvolutionOf(const Tensor& x, const Tensor& w, const Tensor& zero_x, const Tensor& zero_w) {
  Graph graph;
  std::vector<graph::Extent> image, out;
  for (size_t axis = 0; axis < x.shape().size(); ++axis) {
    const int64_t in = x.shape()[axis];
    image.emplace_back(in);
    out.emplace_back(axis == 0 ? in : axis == 1 ? w.shape()[0] : in - w.shape()[axis] + 1);
  }
  const auto y = graph::AddNode(
      graph, graph::Op::kConvInteger,
      {graph::AddInput(graph, "x", x.dtype(), image), graph::AddConstant(graph, "w", w),
       graph::AddConstant(graph, "zx", zero_x), graph::AddConstant(graph, "zw", zero_w)},
      "y");
  graph[y].dtype = Dtype::kI32;
  graph[y].shape = out;
  graph.outputs = {y};
  return graph;
}

// Tiles along one axis, along two, and of volumes, whose first axis stays, are all exact.
TEST(Quantized, TilesOfEveryRank) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3, 9}, {4, 3, 3}},
      {{1, 3, 5, 8}, {2, 3, 1, 3}},
      {{1, 3, 7, 8}, {2, 3, 3, 3}},
      {{1, 2, 5, 6, 7}, {3, 2, 3, 3, 3}},
      {{1, 2, 5, 6, 7}, {3, 2, 2, 1, 3}},
      {{1, 2, 5, 6, 7}, {3, 2, 3, 1, 3}},
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (const Dtype of_w : {Dtype::kI8, Dtype::kU8}) {
      Case c(i);
      const Tensor x = c.Bytes(Dtype::kU8, shapes[i].first), w = c.Bytes(of_w, shapes[i].second);
      Graph graph = ConvolutionOf(x, w, c.Bytes(Dtype::kU8, {}), c.Bytes(of_w, {w.shape()[0]}));
      PrepareIntegerTiles(graph);
      const auto results = Results(graph, x);
      ASSERT_TRUE(results.contains("winograd")) << i;
      EXPECT_EQ(results.at("winograd"), results.at("direct")) << i;
    }
  }
}

// The largest image and filter there are, with as many channels as four times their sum allows, and
// with one more.
TEST(Quantized, TilesWhoseSumsFit) {
  const auto of = [](int64_t channels) {
    Tensor x(Dtype::kU8, {1, channels, 3, 3}), w(Dtype::kI8, {1, channels, 3, 3});
    for (int64_t e = 0; e < x.elems(); ++e) SetElemInt(x, e, 255), SetElemInt(w, e, -128);
    Graph graph = ConvolutionOf(x, w, Tensor(Dtype::kU8, {}), Tensor(Dtype::kI8, {}));
    PrepareIntegerTiles(graph);
    return Results(graph, x);
  };
  const int64_t most = (int64_t{1} << 31) / (4 * 255 * 128 * 9);
  const auto fits = of(most), does_not = of(most + 1);
  ASSERT_TRUE(fits.contains("winograd"));
  EXPECT_EQ(fits.at("winograd"), fits.at("direct"));
  EXPECT_EQ(fits.at("direct")[0], -255 * 128 * 9 * most);
  EXPECT_FALSE(does_not.contains("winograd"));
}

// A filter that two convolutions take less different zero points has tiles for each; those have
// none whose zero point comes with the run, or that take the same filter by strides or apart.
TEST(Quantized, TilesOfAFilterLessItsZeroPoint) {
  Case c(3);
  const Tensor x = c.Bytes(Dtype::kU8, {1, 2, 6, 6}), w = c.Bytes(Dtype::kU8, {3, 2, 3, 3});
  Tensor three(Dtype::kU8, {});
  SetElemInt(three, 0, 3);
  Graph graph = ConvolutionOf(x, w, Tensor(Dtype::kU8, {}), three);
  std::vector<ValueId> in = graph.nodes[0].inputs;
  const auto add = [&](ValueId zero, const char* name, std::vector<graph::Attribute> attributes,
                       int64_t size) {
    in[3] = zero;
    const auto y = graph::AddNode(graph, graph::Op::kConvInteger, in, name, std::move(attributes));
    graph[y].dtype = Dtype::kI32;
    graph[y].shape = {{1, 3, size, size}};
    return y;
  };
  add(graph::AddConstant(graph, "other", c.Bytes(Dtype::kU8, {3})), "v", {}, 4);
  add(graph::AddInput(graph, "given", Dtype::kU8, {}), "u", {}, 4);
  const ValueId three_of = graph.nodes[0].inputs[3];
  add(three_of, "s", {{"strides", std::vector<int64_t>{2, 2}}}, 2);
  add(three_of, "d", {{"dilations", std::vector<int64_t>{2, 2}}}, 2);
  PrepareIntegerTiles(graph);
  EXPECT_EQ(graph.forms.size(), 2U);
  const auto has = [&](size_t node) {
    const auto alternatives = ToTc(graph, graph::NodeId(node));
    return std::ranges::any_of(*alternatives, [](const auto& a) { return a.name == "winograd"; });
  };
  EXPECT_TRUE(has(0));
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_FALSE(has(3));
  EXPECT_FALSE(has(4));
  const auto results = Results(graph, x);
  EXPECT_EQ(results.at("winograd"), results.at("direct"));
}

// Channels of a place lie side by side, those of the next behind them, and zeros at the end.
TEST(Quantized, RowsOfAFilter) {
  Graph graph;
  Tensor w(Dtype::kI8, {1, 2, 2, 3});
  for (int64_t e = 0; e < w.elems(); ++e) SetElemInt(w, e, e);  // 6 * channel + 3 * line + tap
  const auto filter = graph::AddConstant(graph, "w", w);
  const auto x = graph::AddInput(graph, "x", Dtype::kU8, {1, 2, 4, 5});
  const auto y = graph::AddNode(graph, graph::Op::kConvInteger, {x, filter}, "y");
  graph[y].dtype = Dtype::kI32;
  graph[y].shape = {{1, 1, 3, 3}};
  graph.outputs = {y};
  PrepareFilterRows(graph, 4);
  const Tensor& rows = graph[graph.forms.at({filter, "filter_rows"})].constant;
  EXPECT_EQ(rows.shape(), (Shape{1, 2, 8}));
  std::vector<int64_t> elements;
  for (int64_t e = 0; e < rows.elems(); ++e) elements.push_back(ElemAsInt(rows, e));
  EXPECT_EQ(elements, (std::vector<int64_t>{0, 6, 1, 7, 2, 8, 0, 0, 3, 9, 4, 10, 5, 11, 0, 0}));
}

// Four axes of ones but for the last two, whose sums are those of two axes; and of no channels.
TEST(Quantized, RowsOfFourAxesAndOfNone) {
  const auto sums = [](const Shape& x, const Shape& w, const Shape& y) {
    Case c(7);
    Graph graph;
    const Tensor image = c.Bytes(Dtype::kU8, x);
    const auto in = graph::AddInput(graph, "x", Dtype::kU8, {x.begin(), x.end()});
    const auto filter = graph::AddConstant(graph, "w", c.Bytes(Dtype::kI8, w));
    const auto out = graph::AddNode(graph, graph::Op::kConvInteger, {in, filter}, "y");
    graph[out].dtype = Dtype::kI32;
    graph[out].shape = {{y.begin(), y.end()}};
    graph.outputs = {out};
    PrepareFilterRows(graph, 2);
    EXPECT_EQ(graph.forms.size(), w[1] > 0 ? 1U : 0U);
    return Results(graph, image).at("direct");
  };
  const auto two = sums({1, 2, 6, 7}, {3, 2, 3, 4}, {1, 3, 4, 4});
  EXPECT_EQ(sums({1, 2, 1, 1, 6, 7}, {3, 2, 1, 1, 3, 4}, {1, 3, 1, 1, 4, 4}), two);
  EXPECT_EQ(sums({1, 2, 6, 1, 1, 7}, {3, 2, 3, 1, 1, 4}, {1, 3, 4, 1, 1, 4}), two);
  EXPECT_EQ(sums({1, 0, 5, 5}, {4, 0, 3, 3}, {1, 4, 3, 3}), std::vector<int32_t>(36));
}

// One scale of rank 1 is for the whole tensor, which need not have the default axis.
TEST(Quantized, ScaleOfOneElement) {
  Tensor numbers(Dtype::kI32, {3}), scale(Dtype::kF32, {1}), zero(Dtype::kI32, {});
  for (int64_t i = 0; i < 3; ++i) SetElemInt(numbers, i, 10 * i);
  SetElem(scale, 0, 0.5);
  SetElemInt(zero, 0, 4);
  Graph graph;
  const auto x = graph::AddInput(graph, "x", Dtype::kI32, {3});
  const auto y = graph::AddNode(
      graph, graph::Op::kDequantizeLinear,
      {x, graph::AddConstant(graph, "s", scale), graph::AddConstant(graph, "z", zero)}, "y");
  graph[y].dtype = Dtype::kF32;
  graph[y].shape = {{3}};
  graph.outputs = {y};
  const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
  ASSERT_TRUE(alternatives.yes());
  const std::vector<Tensor> inputs = {numbers, scale, zero};
  const auto outputs = Interpret(alternatives->front().program, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ((*outputs)[0].as<float>()[i], 0.5F * static_cast<float>(10 * i - 4));
}

// A constant that is both a matrix and a filter.
TEST(Quantized, SumsForEachUse) {
  Graph graph;
  const Tensor w(Dtype::kI8, {2, 3, 1});
  const auto factor = graph::AddConstant(graph, "w", w);
  const auto x = graph::AddInput(graph, "x", Dtype::kU8, {2, 1, 3});
  const auto z = graph::AddInput(graph, "z", Dtype::kU8, {1, 3, 4});
  const auto y = graph::AddNode(graph, graph::Op::kMatMulInteger, {x, factor}, "y");
  graph[y].dtype = Dtype::kI32;
  graph[y].shape = {{2, 1, 1}};
  const auto v = graph::AddNode(graph, graph::Op::kConvInteger, {z, factor}, "v");
  graph[v].dtype = Dtype::kI32;
  graph[v].shape = {{1, 2, 4}};
  graph.outputs = {y, v};
  PrepareSums(graph);
  EXPECT_EQ(graph[graph.forms.at({factor, "column_sums"})].constant.shape(), (Shape{2, 1}));
  EXPECT_EQ(graph[graph.forms.at({factor, "filter_sums"})].constant.shape(), (Shape{2}));
  EXPECT_EQ(ToTc(graph, graph::NodeId(size_t{0}))->size(), 2U);
  EXPECT_EQ(ToTc(graph, graph::NodeId(size_t{1}))->size(), 2U);
}

}  // namespace
}  // namespace weft::tc
