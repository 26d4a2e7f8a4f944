// Products of bytes, from the operator to what the library makes of it, against the operator's
// definition: exact sums, and round(sum * (scale_a * scale_b / scale_y)) + zero in f32, saturated.
#include <algorithm>
#include <cmath>
#include <random>

#include "base/target.h"
#include "fallback/match.h"
#include "fallback/onednn/testing.h"
#include "graph/edit.h"

namespace weft::fallback {
namespace {

using graph::Op;
using graph::ValueId;

#define SKIP_IF_NO_VNNI() \
  SKIP_IF_ABSENT();       \
  if (!HostRuns(Isa::kX86V4Vnni)) GTEST_SKIP() << "no AVX512-VNNI"

enum class Fill : uint8_t { kRandom, kHighest, kLowest, kMixed };

struct Case {
  Op op = Op::kMatMulInteger;
  Dtype x = Dtype::kU8, w = Dtype::kI8, y = Dtype::kU8;
  Shape src, weights, dst;
  int64_t zero_x = 0, zero_w = 0, zero_y = 0;
  bool channels = false;  // a scale of the weights for each
  bool bias = false, computed_zero = false, computed_weights = false;
  int64_t group = 1, stride = 1, pad = 0;
  float scale_w = 0.01f;
  Fill fill = Fill::kRandom;
};

Tensor FilledBytes(Dtype dtype, const Shape& shape, Fill fill, std::mt19937_64& random) {
  Tensor t(dtype, shape);
  const int64_t low = dtype == Dtype::kU8 ? 0 : -128, high = low + 255;
  for (int64_t i = 0; i < t.elems(); ++i) {
    const auto any = static_cast<int64_t>(random() % 256);
    SetElemInt(t, i,
               fill == Fill::kHighest  ? high
               : fill == Fill::kLowest ? low
               : fill == Fill::kMixed  ? (any % 2 == 0 ? low : high)
                                       : low + any);
  }
  return t;
}

Tensor One(Dtype dtype, double value) { return graph::TensorOfScalar(dtype, value); }

bool IsLinear(Op op) { return op == Op::kQLinearMatMul || op == Op::kQLinearConv; }
bool Convolves(Op op) { return op == Op::kConvInteger || op == Op::kQLinearConv; }

// The operator's own inputs, whose tensors lie in the map by name.
struct Network {
  graph::Graph graph;
  std::map<std::string, Tensor> tensors;
  std::vector<float> factors;
};

class Maker {
 public:
  Maker(const Case& c, uint64_t seed) : c_(c), random_(seed) { net_.graph.name = "g"; }

  Network Make() {
    const bool linear = IsLinear(c_.op);
    const ValueId x = Add("x", FilledBytes(c_.x, c_.src, c_.fill, random_), false);
    const ValueId w =
        Add("w", FilledBytes(c_.w, c_.weights, c_.fill, random_), !c_.computed_weights);
    const ValueId zx = Add("zx", One(c_.x, static_cast<double>(c_.zero_x)), !c_.computed_zero);
    const ValueId zw = Add("zw", One(c_.w, static_cast<double>(c_.zero_w)), true);
    std::vector<ValueId> inputs = {x, w, zx, zw};
    if (linear) {
      const ValueId sx = Add("sx", One(Dtype::kF32, 0.037), true), sw = Add("sw", Scales(), true),
                    sy = Add("sy", One(Dtype::kF32, 0.9), true);
      const ValueId zy = Add("zy", One(c_.y, static_cast<double>(c_.zero_y)), true);
      inputs = {x, sx, zx, w, sw, zw, sy, zy};
      if (c_.bias) inputs.push_back(Add("bias", Bias(), true));
    }
    const ValueId y = graph::AddNode(net_.graph, c_.op, inputs, "y", Attributes());
    net_.graph[y].dtype = linear ? c_.y : Dtype::kI32;
    net_.graph[y].shape = graph::ExtentsOf(c_.dst);
    net_.graph.outputs = {y};
    return std::move(net_);
  }

 private:
  ValueId Add(const std::string& name, Tensor tensor, bool constant) {
    net_.tensors[name] = tensor;
    if (constant) return graph::AddConstant(net_.graph, name, std::move(tensor));
    return graph::AddInput(net_.graph, name, tensor.dtype(), graph::ExtentsOf(tensor.shape()));
  }

  int64_t Channels() const { return Convolves(c_.op) ? c_.dst[1] : c_.dst.back(); }

  Tensor Scales() {
    Tensor scales(Dtype::kF32, c_.channels ? Shape{Channels()} : Shape{});
    for (int64_t i = 0; i < scales.elems(); ++i)
      SetElem(scales, i, c_.scale_w * (1 + static_cast<double>(i % 7) / 3));
    for (int64_t i = 0; i < Channels(); ++i)
      net_.factors.push_back(0.037f * scales.as<float>()[c_.channels ? i : 0] / 0.9f);
    return scales;
  }

  Tensor Bias() {
    Tensor bias(Dtype::kI32, {Channels()});
    for (int64_t i = 0; i < bias.elems(); ++i)
      SetElemInt(bias, i, static_cast<int64_t>(random_() % 20001) - 10000);
    return bias;
  }

  std::vector<graph::Attribute> Attributes() const {
    if (!Convolves(c_.op)) return {};
    const size_t n = c_.src.size() - 2;
    return {{"group", c_.group},
            {"pads", std::vector<int64_t>(2 * n, c_.pad)},
            {"strides", std::vector<int64_t>(n, c_.stride)}};
  }

  const Case& c_;
  std::mt19937_64 random_;
  Network net_;
};

// Element `at` of the result as the operator defines it.
int64_t Expected(const Case& c, const Network& net, const LibraryCall& call, const Tensors& plain,
                 const Shape& at) {
  LibraryCall bare = call;  // zero points as they are in the operator
  std::erase_if(bare.attributes, [](const CallAttribute& a) { return a.name.ends_with("_zero"); });
  bare.attributes.push_back({"src_zero", c.zero_x});
  bare.attributes.push_back({"weights_zero", c.zero_w});
  std::ranges::sort(bare.attributes, {}, &CallAttribute::name);
  const double sum = Convolves(c.op) ? ConvAt(bare, plain, at) : MatmulAt(bare, plain, at);
  if (!IsLinear(c.op)) return static_cast<int64_t>(sum);
  const auto channel = static_cast<size_t>(Convolves(c.op) ? at[1] : at.back());
  const float real = static_cast<float>(sum) * net.factors[channel];
  const float y = std::nearbyint(real) + static_cast<float>(c.zero_y);
  const float low = c.y == Dtype::kU8 ? 0 : -128;
  return static_cast<int64_t>(std::clamp(y, low, low + 255));
}

std::string Check(const Case& c, uint64_t seed) {
  const Network net = Maker(c, seed).Make();
  const graph::NodeId node(size_t{0});
  const auto call = Match(net.graph, std::span(&node, 1), Library::kOnednn, {},
                          {.bfloat16 = true, .dot_products = true});
  if (!call.yes()) return std::string(ReasonName(call.refusal().reason));
  BlobStore blobs;
  const std::string text = Print(*call, blobs);
  const LibraryCall read = Parsed(text);
  EXPECT_TRUE(Equal(read, *call)) << text;
  Tensors by_role, plain;
  for (const CallOperand& operand : call->inputs) {
    by_role[operand.role] = net.tensors.at(operand.value);
    if (operand.role != "src_zero") plain[operand.role] = net.tensors.at(operand.value);
  }
  for (int threads : {1, 2}) {
    const auto result = RunIn(read, by_role, threads);
    if (!result.ok()) return result.status().ToString() + "\n" + text;
    int wrong = 0;
    ForEach(c.dst, [&](const Shape& at) {
      const auto found = static_cast<int64_t>(At(*result, at));
      const int64_t expected = Expected(c, net, *call, plain, at);
      if (found != expected && wrong++ < 3)
        ADD_FAILURE() << text << "\nat " << weft::Print(at) << ": " << found << ", expected "
                      << expected;
    });
  }
  return "";
}

constexpr Fill kFills[] = {Fill::kRandom, Fill::kHighest, Fill::kLowest, Fill::kMixed};
constexpr Dtype kBytes[] = {Dtype::kU8, Dtype::kI8};

int64_t Low(Dtype dtype) { return dtype == Dtype::kU8 ? 0 : -128; }

TEST(OnednnBytes, MultipliesExactly) {
  SKIP_IF_NO_VNNI();
  uint64_t seed = 1;
  for (const Dtype x : kBytes)
    for (const Dtype w : kBytes)
      for (const Fill fill : kFills)
        for (const auto& [m, k, n] : {std::tuple(3, 37, 20), {1, 512, 33}, {5, 256, 24}}) {
          Case c{.x = x, .w = w, .src = {m, k}, .weights = {k, n}, .dst = {m, n}, .fill = fill};
          for (const int64_t zero : {0, 255}) {
            c.zero_x = Low(x) + zero;
            for (const int64_t zero_w : {128, 0, 255}) {
              if (zero_w != 128 && k > 256) continue;
              c.zero_w = Low(w) + zero_w;
              EXPECT_EQ(Check(c, seed++), "");
            }
          }
        }
}

TEST(OnednnBytes, TakesComputedZeroPointsAndBatches) {
  SKIP_IF_NO_VNNI();
  Case c{.src = {2, 3, 5, 40}, .weights = {3, 40, 12}, .dst = {2, 3, 5, 12}, .zero_x = 200};
  EXPECT_EQ(Check(c, 1), "");
  c.computed_zero = true;
  EXPECT_EQ(Check(c, 2), "");
  c.x = Dtype::kI8;
  c.zero_x = -100;
  EXPECT_EQ(Check(c, 3), "");
  c.computed_weights = true;
  EXPECT_EQ(Check(c, 4), "");
  c.w = Dtype::kU8;
  EXPECT_EQ(Check(c, 5), "dtype_unknown_to_library");
}

// Sums beyond 2^24, which f32 does not hold.
TEST(OnednnBytes, SumsOf32BitsStayExactOrAreRefused) {
  SKIP_IF_NO_VNNI();
  for (const Fill fill : kFills) {
    Case c{.src = {5, 4096}, .weights = {4096, 48}, .dst = {5, 48}, .fill = fill};
    EXPECT_EQ(Check(c, 1), "");
    Case one{.src = {1, 4095}, .weights = {4095, 33}, .dst = {1, 33}, .fill = fill};
    EXPECT_EQ(Check(one, 2), "");
    c.computed_weights = true;
    EXPECT_EQ(Check(c, 3), "");
    Case conv{.op = Op::kConvInteger,
              .src = {1, 256, 5, 5},
              .weights = {32, 256, 3, 3},
              .dst = {1, 32, 5, 5},
              .pad = 1,
              .fill = fill};
    EXPECT_EQ(Check(conv, 4), "");
    if (fill == Fill::kRandom) continue;  // whose signs cancel out
    c = {.src = {5, 4095}, .weights = {4095, 48}, .dst = {5, 48}, .zero_x = 2, .fill = fill};
    EXPECT_EQ(Check(c, 5), "rounds_in_library");
    conv.x = Dtype::kI8;
    EXPECT_EQ(Check(conv, 6), "rounds_in_library");
  }
}

TEST(OnednnBytes, RequantizesProducts) {
  SKIP_IF_NO_VNNI();
  uint64_t seed = 1;
  for (const Dtype x : kBytes)
    for (const Dtype y : kBytes)
      for (const Fill fill : kFills)
        for (const auto& [m, k, n] : {std::tuple(7, 64, 50), {3, 4096, 17}})
          for (const bool channels : {false, true})
            for (const int64_t zero : {1, 255}) {
              const Case c{.op = Op::kQLinearMatMul,
                           .x = x,
                           .w = channels ? Dtype::kI8 : Dtype::kU8,
                           .y = y,
                           .src = {m, k},
                           .weights = {k, n},
                           .dst = {m, n},
                           .zero_x = Low(x) + 255 - zero,
                           .zero_w = channels ? 0 : 128,
                           .zero_y = Low(y) + zero,
                           .channels = channels,
                           .scale_w = k > 1000 ? 0.001f : 0.01f,
                           .fill = fill};
              EXPECT_EQ(Check(c, seed++), "");
            }
}

// Sums that lie exactly between two bytes: to even, before the zero point is added.
TEST(OnednnBytes, RoundsTiesAsTheOperatorDoes) {
  SKIP_IF_NO_VNNI();
  graph::Graph graph{.name = "g"};
  Tensor w(Dtype::kI8, {1, 1});
  SetElemInt(w, 0, 1);
  const auto constant = [&](const char* name, Dtype dtype, double value) {
    return graph::AddConstant(graph, name, One(dtype, value));
  };
  const ValueId x = graph::AddInput(graph, "x", Dtype::kI8, graph::ExtentsOf(Shape{9, 1}));
  const ValueId y =
      graph::AddNode(graph, Op::kQLinearMatMul,
                     {x, constant("sx", Dtype::kF32, 0.5), constant("zx", Dtype::kI8, 0),
                      graph::AddConstant(graph, "w", w), constant("sw", Dtype::kF32, 1),
                      constant("zw", Dtype::kI8, 0), constant("sy", Dtype::kF32, 1),
                      constant("zy", Dtype::kU8, 7)},
                     "y");
  graph[y].dtype = Dtype::kU8;
  graph[y].shape = graph::ExtentsOf(Shape{9, 1});
  const graph::NodeId node(size_t{0});
  const auto call = Match(graph, std::span(&node, 1), Library::kOnednn, {}, {.dot_products = true});
  ASSERT_TRUE(call.yes());
  Tensor in(Dtype::kI8, {9, 1});
  for (int64_t i = 0; i < 9; ++i) SetElemInt(in, i, i - 4);
  const auto result = RunIn(*call, {{"src", in}, {"weights", w}}, 1);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  constexpr int64_t kExpected[] = {5, 5, 6, 7, 7, 7, 8, 9, 9};  // of -2, -1.5, … 2, and 7
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(ElemAsInt(*result, i), kExpected[i]) << i;
}

TEST(OnednnBytes, Convolves) {
  SKIP_IF_NO_VNNI();
  uint64_t seed = 1;
  for (const Op op : {Op::kConvInteger, Op::kQLinearConv})
    for (const Dtype x : kBytes)
      for (const Fill fill : kFills)
        for (const auto& [in, out, group, kernel, stride] : {std::tuple(16, 32, 1, 3, 1),
                                                             {3, 20, 1, 3, 2},
                                                             {24, 24, 24, 3, 1},
                                                             {32, 32, 4, 3, 1},
                                                             {64, 48, 1, 1, 1},
                                                             {7, 5, 1, 1, 2},
                                                             {6, 9, 3, 5, 1}}) {
          const int64_t pad = kernel / 2, size = (7 + 2 * pad - kernel) / stride + 1;
          for (const bool flag : {false, true}) {
            const Case c{.op = op,
                         .x = x,
                         .w = flag ? Dtype::kU8 : Dtype::kI8,
                         .y = flag ? Dtype::kI8 : Dtype::kU8,
                         .src = {1, in, 7, 7},
                         .weights = {out, in / group, kernel, kernel},
                         .dst = {1, out, size, size},
                         .zero_x = Low(x) + (flag ? 255 : 117),
                         .zero_w = flag ? 128 : 0,
                         .zero_y = flag ? -3 : 117,
                         .channels = flag,
                         .bias = true,
                         .computed_zero = flag,
                         .group = group,
                         .stride = stride,
                         .pad = pad,
                         .fill = fill};
            EXPECT_EQ(Check(c, seed++), "");
          }
        }
}

// A sum beyond 2^24 is rounded to f32 before the bias is added. Where such a sum saturates, nobody
// sees that.
TEST(OnednnBytes, ConvolvesDeeply) {
  SKIP_IF_NO_VNNI();
  uint64_t seed = 1;
  for (const Dtype x : kBytes)
    for (const Fill fill : kFills)
      for (const int64_t kernel : {1, 3}) {
        const int64_t in = kernel == 1 ? 2048 : 256;
        Case c{.op = Op::kQLinearConv,
               .x = x,
               .src = {1, in, 4, 4},
               .weights = {16, in, kernel, kernel},
               .dst = {1, 16, 4, 4},
               .zero_x = Low(x) + 117,
               .zero_y = 117,
               .bias = true,
               .pad = kernel / 2,
               .scale_w = 0.004f,
               .fill = fill};
        EXPECT_EQ(Check(c, seed++), "");
        c.bias = false;
        c.scale_w = 1e-5f;
        EXPECT_EQ(Check(c, seed++), "");
        c.bias = true;
        if (fill != Fill::kRandom) {
          EXPECT_EQ(Check(c, seed++), "rounds_in_library");
        }
      }
}

TEST(OnednnBytes, RefusesWhatWouldBeAnotherOperator) {
  Case c{.op = Op::kConvInteger,
         .src = {1, 4, 5, 5},
         .weights = {4, 4, 3, 3},
         .dst = {1, 4, 3, 3},
         .zero_w = 1};
  EXPECT_EQ(Check(c, 1), "pattern_unknown_to_library");
  c.zero_w = 0;
  c.computed_weights = true;
  EXPECT_EQ(Check(c, 1), "pattern_unknown_to_library");
  Case q{
      .op = Op::kQLinearMatMul, .src = {2, 3}, .weights = {3, 4}, .dst = {2, 4}, .scale_w = 1e-39f};
  EXPECT_EQ(Check(q, 1), "rounds_in_library");
}

}  // namespace
}  // namespace weft::fallback
