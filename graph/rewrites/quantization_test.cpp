// The rewrites of quantized networks: products of integers, moves between conversions, scales.

#include <fmt/format.h>

#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

// Weights of products with few rows stay integers, around zero; zero points that say nothing go.
TEST(DequantizeMatMul, ProductsOfFewRowsOnly) {
  const auto text = [](int64_t rows, std::string_view zero) {
    return fmt::format(
        "graph g (x: f32[{}, 4]) -> (y) {{\nw: u4[4, 2] = const(0, 15, 8, 7, 1, 2, 3, 4)\n"
        "s: f32[2, 2] = const(1.0, 2.0, 3.0, 4.0)\nz: u4[2, 2] = const({})\n"
        "d = DequantizeLinear(w, s, z) {{axis = 0, block_size = 2}}\ny = MatMul(x, d)\n}}",
        rows, zero);
  };
  const Graph few = Simplified(text(64, "8, 8, 8, 8"));
  ASSERT_EQ(OpsOf(few), "DequantizeMatMul");
  EXPECT_EQ(TypeOf(few, "y"), "f32[64, 2]");
  const Node& product = few.nodes[0];
  ASSERT_EQ(product.inputs.size(), 3u);
  const Tensor& w = few[product.inputs[1]].constant;
  EXPECT_EQ(w.dtype(), Dtype::kI4);
  EXPECT_EQ(ElemAsInt(w, 0), -8);
  EXPECT_EQ(ElemAsInt(w, 1), 7);
  const Graph near = Simplified(text(1, "8, 8, 0, 8"));
  ASSERT_EQ(near.nodes[0].inputs.size(), 3u);
  EXPECT_EQ(ElemAsInt(near[near.nodes[0].inputs[1]].constant, 4), 1);
  EXPECT_EQ(OpsOf(Simplified(text(65, "8, 8, 8, 8"))), "DequantizeLinear MatMul");
  EXPECT_EQ(OpsOf(Simplified("graph g (x: f16[2, 1]) -> (y) {\nw: i8[1, 2] = const(1, 2)\n"
                             "s: f32[] = const(1.0)\nd = DequantizeLinear(w, s) {output_dtype = "
                             "10}\ny = MatMul(x, d)\n}")),
            "DequantizeLinear MatMul");
}

// Zero points that are taken off sums are as small as they can be, and none where sums would
// cancel.
TEST(DequantizeMatMul, ZeroPointsFarFromTheWeights) {
  const auto of = [](std::string_view weights, int zero) {
    return Simplified(fmt::format(
        "graph g (x: f32[1, 4]) -> (y) {{\nw: i8[4, 1] = const({})\ns: f32[] = const(2.0)\n"
        "z: i8[] = const({})\nd = DequantizeLinear(w, s, z)\ny = MatMul(x, d)\n}}",
        weights, zero));
  };
  const auto at = [](const Graph& g, size_t input, int64_t i) {
    return ElemAsInt(g[g.nodes[0].inputs[input]].constant, i);
  };
  const Graph near = of("-128, -127, -126, -1", -128);
  ASSERT_EQ(OpsOf(near), "DequantizeMatMul");
  ASSERT_EQ(near.nodes[0].inputs.size(), 3u);
  EXPECT_EQ(at(near, 1, 1), 1);
  EXPECT_EQ(at(near, 1, 3), 127);
  const Graph wide = of("-128, 22, 12, 2", -128);
  ASSERT_EQ(OpsOf(wide), "DequantizeMatMul");
  ASSERT_EQ(wide.nodes[0].inputs.size(), 4u);
  EXPECT_EQ(at(wide, 1, 1), 127);
  EXPECT_EQ(at(wide, 3, 0), -23);
  EXPECT_EQ(OpsOf(of("-128, 127, -128, -128", -128)), "DequantizeLinear MatMul");
}

// Of dequantized operands the integers are multiplied, and the sums scaled.
TEST(IntegerProducts, BehindDequantizeLinear) {
  constexpr std::string_view kHead =
      "a: f32[] = const(0.5)\np: u8[] = const(128)\nd = DequantizeLinear(x, a, p)\n";
  const auto conv = [&](std::string_view weights, std::string_view axis) {
    return Simplified(
        fmt::format("graph g (x: u8[1, 2, 4, 4]) -> (y) {{\n{}w: {}\ns: f32[2] = const(2.0, 4.0)\n"
                    "e = DequantizeLinear(w, s) {{axis = {}}}\nq: i32[2] = const(7, 9)\n"
                    "t: f32[2] = const(1.0, 2.0)\nb = DequantizeLinear(q, t) {{axis = 0}}\n"
                    "y = Conv(d, e, b)\n}}",
                    kHead, weights, axis));
  };
  // What is left to fold: the bias, and the product of the scales.
  constexpr std::string_view kProduct = "DequantizeLinear Reshape Mul ConvInteger Cast Mul Add",
                             kLeft = "DequantizeLinear DequantizeLinear DequantizeLinear Conv";
  const Graph g = conv("i8[2, 2, 1, 1] = const(1, -2, 3, -4)", "0");
  ASSERT_EQ(OpsOf(g), kProduct);
  EXPECT_EQ(TypeOf(g, "y"), "f32[1, 2, 4, 4]");
  EXPECT_EQ(g[g.nodes[2].inputs[1]].constant.shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(g.nodes[3].inputs.size(), 3u);  // with the zero point of x
  // Scales along the inputs, or weights that are no i8, say something else.
  EXPECT_EQ(OpsOf(conv("i8[2, 2, 1, 1] = const(1, -2, 3, -4)", "1")), kLeft);
  EXPECT_EQ(OpsOf(conv("u8[2, 2, 1, 1] = const(1, 2, 3, 200)", "0")), kLeft);
  EXPECT_EQ(OpsOf(conv("u8[2, 2, 1, 1] = const(1, 2, 3, 127)", "0")), kProduct);
}

TEST(IntegerProducts, OfMatrices) {
  const auto product = [](std::string_view node) {
    return Simplified(
        fmt::format("graph g (x: i8[100, 2], a: f32[]) -> (y) {{\nd = DequantizeLinear(x, a)\n"
                    "w: u8[3, 2] = const(128, 129, 130, 131, 132, 133)\ns: f32[1] = const(2.0)\n"
                    "z: u8[1] = const(128)\ne = DequantizeLinear(w, s, z) {{axis = 0}}\n"
                    "c: f32[3] = const(1, 2, 3)\n{}\n}}",
                    node));
  };
  const Graph g = product("y = Gemm(d, e, c) {transB = 1}");
  ASSERT_EQ(OpsOf(g), "Mul Transpose MatMulInteger Cast Mul Add");
  const Tensor& w = g[g.nodes[1].inputs[0]].constant;
  EXPECT_EQ(w.dtype(), Dtype::kI8);
  EXPECT_EQ(w.shape(), (Shape{3, 2}));
  EXPECT_EQ(ElemAsInt(w, 5), 5);  // 133 - 128
  EXPECT_EQ(OpsOf(product("f = DequantizeLinear(x, a) {output_dtype = 10}\n"
                          "h = DequantizeLinear(w, s, z) {axis = 0, output_dtype = 10}\n"
                          "y = Gemm(f, h) {transB = 1}")),
            "DequantizeLinear DequantizeLinear Gemm");
  EXPECT_EQ(OpsOf(product("t = Transpose(e)\ny = MatMul(d, t)")),
            "DequantizeLinear DequantizeLinear Transpose MatMul");
  EXPECT_EQ(OpsOf(product("y = Gemm(d, e, c) {transB = 1, alpha = 2.0}")),
            "DequantizeLinear DequantizeLinear Gemm");
}

// Weights that fit signed bytes less their zero point are those, and no zero point is left.
TEST(IntegerProducts, SignedWeights) {
  const auto of = [](std::string_view body) {
    return Simplified(fmt::format(
        "graph g (x: u8[1, 2, 4, 4], a: i8[3, 2]) -> (y) {{\np: u8[] = const(7)\n{}\n}}", body));
  };
  const auto weight = [](const Graph& g, size_t at, int64_t i) {
    const Tensor& w = g[g.nodes[0].inputs[at]].constant;
    EXPECT_EQ(w.dtype(), Dtype::kI8);
    return ElemAsInt(w, i);
  };
  const auto shifts = [](const Graph& g, size_t at) {
    return ElemAsInt(g[g.nodes[0].inputs[at]].constant, 0) != 0;
  };
  const auto conv = [&](std::string_view weights, std::string_view zero) {
    return of(fmt::format("w: {} = const({})\nz: {}\ny = ConvInteger(x, w, p, z)", "u8[2, 2, 1, 1]",
                          weights, zero));
  };
  const Graph by_channel = conv("0, 100, 100, 255", "u8[2] = const(100, 128)");
  EXPECT_EQ(weight(by_channel, 1, 0), -100);
  EXPECT_EQ(weight(by_channel, 1, 3), 127);
  EXPECT_FALSE(shifts(by_channel, 3));
  EXPECT_TRUE(shifts(conv("0, 100, 100, 255", "u8[] = const(127)"), 3));  // 128 is too much
  const Graph product =
      of("w: u8[2, 3] = const(1, 2, 3, 4, 5, 6)\nz: u8[3] = const(1, 2, 3)\n"
         "q: i8[] = const(0)\ny = MatMulInteger(a, w, q, z)");
  EXPECT_EQ(weight(product, 1, 5), 3);
  EXPECT_EQ(weight(of("w: u8[2, 3] = const(1, 2, 3, 4, 5, 127)\ny = MatMulInteger(a, w)"), 1, 5),
            127);
  const Graph linear =
      of("w: i8[2, 2, 1, 1] = const(-100, 20, 30, 40)\nz: i8[] = const(20)\n"
         "s: f32[] = const(1.0)\ny = QLinearConv(x, s, p, w, s, z, s, p)");
  EXPECT_EQ(weight(linear, 3, 0), -120);
  EXPECT_FALSE(shifts(linear, 5));
}

// `body` makes y of d, integers with the scale a and zero point p as numbers.
Graph Quantized(std::string_view body, std::string_view more = "", std::string_view scale = "0.5") {
  return Simplified(fmt::format(
      "graph g (x: u8[1, 4, 6, 6], r: f32[1, 4, 6, 6]) -> (y{}) {{\na: f32[] = const({})\n"
      "b: f32[] = const(0.25)\np: u8[] = const(128)\nd = DequantizeLinear(x, a, p)\n{}\n}}",
      more, scale, body));
}

TEST(IntegerMoves, BetweenTheSameConversions) {
  constexpr char kPool[] = "MaxPool(t) {kernel_shape = [3, 3]}\ny = QuantizeLinear(m, a, p)";
  const Graph g = Quantized(fmt::format("t = Transpose(d) {{perm = [0, 1, 3, 2]}}\nm = {}", kPool));
  EXPECT_EQ(OpsOf(g), "Transpose MaxPool");
  EXPECT_EQ(TypeOf(g, "y"), "u8[1, 4, 4, 4]");
  EXPECT_EQ(OpsOf(Quantized("y = QuantizeLinear(d, a, p)")), "Identity");
  // All parts or none.
  EXPECT_EQ(
      OpsOf(Quantized("s, t = Split(d) {axis = 1}\nq = QuantizeLinear(s, a, p)\n"
                      "e = DequantizeLinear(q, a, p)\nf = Relu(e)\nu = Relu(t)\n"
                      "c = Concat(f, u) {axis = 1}\ny = QuantizeLinear(c, a, p)")),
      "DequantizeLinear Split QuantizeLinear DequantizeLinear Relu Relu Concat QuantizeLinear");
  EXPECT_EQ(OpsOf(Quantized("s, t = Split(d) {axis = 1}\ny = QuantizeLinear(s, a, p)\n"
                            "z = QuantizeLinear(t, a, p)",
                            ", z")),
            "Split");
  EXPECT_EQ(OpsOf(Quantized("q = QuantizeLinear(r, a, p)\ne = DequantizeLinear(q, a, p)\n"
                            "c = Concat(d, e) {axis = 1}\ny = QuantizeLinear(c, a, p)")),
            "QuantizeLinear Concat");
}

// They are moved once, also where somebody reads real numbers.
TEST(IntegerMoves, GiveRealNumbersToo) {
  EXPECT_EQ(OpsOf(Quantized("m = MaxPool(d) {kernel_shape = [3, 3]}\n"
                            "t = Transpose(m) {perm = [0, 1, 3, 2]}\ny = QuantizeLinear(t, a, p)\n"
                            "z = Relu(t)",
                            ", z")),
            "MaxPool Transpose DequantizeLinear Relu");
}

TEST(IntegerMoves, WhatIsNotTheSameStays) {
  constexpr char kKept[] = "DequantizeLinear Transpose QuantizeLinear";
  const auto transposed = [](std::string_view to, std::string_view scale = "0.5") {
    return OpsOf(
        Quantized(fmt::format("t = Transpose(d) {{perm = [0, 1, 3, 2]}}\ny = {}", to), "", scale));
  };
  EXPECT_EQ(transposed("QuantizeLinear(t, a, p)"), "Transpose");
  EXPECT_EQ(transposed("QuantizeLinear(t, b, p)"), kKept);
  EXPECT_EQ(transposed("QuantizeLinear(t, a)"), kKept);
  EXPECT_EQ(transposed("QuantizeLinear(t, a) {output_dtype = 3}"), kKept);
  // Where a product may be infinite or subnormal, and where larger integers are smaller numbers.
  EXPECT_EQ(transposed("QuantizeLinear(t, a, p)", "1e38"), kKept);
  EXPECT_EQ(transposed("QuantizeLinear(t, a, p)", "1e-40"), kKept);
  EXPECT_EQ(transposed("QuantizeLinear(t, a, p)", "-0.5"), kKept);
  // Sixteen bits of a real number do not give the integer back.
  EXPECT_EQ(OpsOf(Quantized("h = DequantizeLinear(x, a, p) {output_dtype = 10}\n"
                            "t = Transpose(h) {perm = [0, 1, 3, 2]}\n"
                            "y = QuantizeLinear(t, a, p)")),
            kKept);
  EXPECT_EQ(transposed("QuantizeLinear(t, a, p) {precision = 10}"), kKept);
  EXPECT_EQ(OpsOf(Quantized("c = Concat(d, r) {axis = 1}\ny = QuantizeLinear(c, a, p)")),
            "DequantizeLinear Concat QuantizeLinear");
  EXPECT_EQ(OpsOf(Quantized("m = AveragePool(d) {kernel_shape = [3, 3]}\n"
                            "y = QuantizeLinear(m, a, p)")),
            "DequantizeLinear AveragePool QuantizeLinear");
}

// `body` makes y of c, sums of products times 0.5 and 1 plus 3 and 4, and of d and e, bytes as
// numbers.
Graph Requantized(std::string_view body) {
  return Simplified(fmt::format(
      "graph g (x: u8[5, 2], v: u8[5, 2], r: f32[5, 2]) -> (y) {{\nw: i8[2, 2] = const(1, 2, 3, "
      "4)\n"
      "s: f32[2] = const(0.5, 1.0)\nb: f32[2] = const(3.0, 4.0)\na: f32[] = const(0.75)\n"
      "f: f32[] = const(0.25)\ni: f32[] = const(0.3)\nh: f32[] = const(0.1)\nu: f32[] = "
      "const(0.2)\n"
      "p: u8[] = const(128)\nq: u8[] = const(0)\n"
      "d = DequantizeLinear(x, a, p)\ne = DequantizeLinear(v, a, p)\nt = DequantizeLinear(x, h)\n"
      "z = MatMulInteger(x, w)\nn = Cast(z) {{to = 1}}\nm = Mul(n, s)\nc = Add(m, b)\n{}\n}}",
      body));
}

// Element i of a constant operand of the first node of an operator.
double Operand(const Graph& g, Op op, size_t input, int64_t i = 0) {
  const auto node = std::ranges::find(g.nodes, op, &Node::op);
  return node == g.nodes.end() ? NAN : ElemAsDouble(g[node->inputs[input]].constant, i);
}

TEST(Requantize, ConstantsTakeTheScale) {
  const Graph g = Requantized("o = LeakyRelu(c)\ny = QuantizeLinear(o, f, p)");
  ASSERT_EQ(OpsOf(g), "MatMulInteger Cast Mul Add LeakyRelu QuantizeLinear");
  EXPECT_EQ(Operand(g, Op::kMul, 1, 0), 2.0);
  EXPECT_EQ(Operand(g, Op::kMul, 1, 1), 4.0);
  EXPECT_EQ(Operand(g, Op::kAdd, 1, 1), 16.0);
  EXPECT_EQ(Operand(g, Op::kQuantizeLinear, 1), 1.0);
  const Graph sum = Requantized("o = Add(c, d)\ny = QuantizeLinear(o, f, p)");
  EXPECT_EQ(Operand(sum, Op::kDequantizeLinear, 1), 3.0);
  EXPECT_EQ(Operand(sum, Op::kMul, 1, 0), 2.0);
  EXPECT_EQ(Operand(sum, Op::kQuantizeLinear, 1), 1.0);
}

// Bytes alone, where no value of theirs comes out otherwise.
TEST(Requantize, BytesTakeTheScaleWhereNothingChanges) {
  const auto scale = [](std::string_view body) {
    return Operand(Requantized(body), Op::kQuantizeLinear, 1);
  };
  EXPECT_EQ(scale("o = Add(d, e)\ny = QuantizeLinear(o, f, p)"), 1.0);
  // 0.1f / 0.2f is a half, and half of an odd number is even or odd as its product was rounded.
  EXPECT_FLOAT_EQ(static_cast<float>(scale("y = QuantizeLinear(t, u)")), 0.2f);
  EXPECT_EQ(scale("y = QuantizeLinear(t, i)"), 1.0);
}

// Where the nearest quotients of the scales change an integer, others close by may not.
TEST(Requantize, BytesTakeOtherScalesNearby) {
  int nearest = 0, nearby = 0, none = 0;
  for (int i = 1; i < 40; ++i) {
    const float left = 0.0123f + 0.00071f * static_cast<float>(i), to = 0.0371f;
    const Graph g = Requantized(
        fmt::format("k: f32[] = const({})\nl: f32[] = const({})\nj = DequantizeLinear(x, k, p)\n"
                    "o = Add(j, e)\ny = QuantizeLinear(o, l, p)",
                    left, to));
    const auto over = [to](float scale) { return static_cast<float>(double{scale} / double{to}); };
    int off = 0;  // how many scales are
    for (const Node& node : g.nodes) {
      if (node.op != Op::kDequantizeLinear) continue;
      const auto scale = static_cast<float>(ElemAsDouble(g[node.inputs[1]].constant, 0));
      off += scale != over(left) && scale != over(0.75f);
    }
    const bool divides = Operand(g, Op::kQuantizeLinear, 1) != 1.0;
    ++(divides ? none : off == 0 ? nearest : nearby);
  }
  EXPECT_GT(nearest, 0);
  EXPECT_GT(nearby, 0);
  EXPECT_LT(none, nearest);
}

TEST(Requantize, MovesBeforeAPool) {
  const auto ops = [](std::string_view pooled) {
    return OpsOf(Requantized(fmt::format(
        "j: i64[3] = const(1, 5, 2)\nk = Reshape(x, j)\nl = DequantizeLinear(k, a, p)\ng = "
        "Reshape(r, j)\nn1 = Relu({})\no = MaxPool(n1) {{kernel_shape = [2]}}\ny = "
        "QuantizeLinear(o, f, q)",
        pooled)));
  };
  EXPECT_EQ(ops("l"), "Reshape DequantizeLinear QuantizeLinear MaxPool");
  EXPECT_EQ(ops("g"), "Reshape Relu MaxPool QuantizeLinear");  // may be a NaN
}

TEST(Requantize, WhatElseIsReadStays) {
  const auto scale = [](std::string_view body) {
    return Operand(Requantized(body), Op::kQuantizeLinear, 1);
  };
  EXPECT_EQ(scale("o = Add(c, r)\ny = QuantizeLinear(o, f, p)"), 0.25);
  EXPECT_EQ(scale("o = Sigmoid(c)\ny = QuantizeLinear(o, f, p)"), 0.25);
  EXPECT_EQ(scale("o = Mul(r, s)\ny = QuantizeLinear(o, f, p)"), 0.25);
  EXPECT_EQ(scale("j = QuantizeLinear(c, f, p)\nk = DequantizeLinear(j, a, p)\ny = Add(c, k)"),
            0.25);
}

// What is less than the least integer or more than the largest is bounded by the conversion.
TEST(Requantize, BoundsBeforeItsOwnGo) {
  const auto ops = [](std::string_view body) { return OpsOf(Requantized(body)); };
  constexpr char kBare[] = "DequantizeLinear QuantizeLinear";
  EXPECT_EQ(ops("o = Relu(d)\ny = QuantizeLinear(o, i, q)"), kBare);
  EXPECT_EQ(ops("o = Relu(d)\ny = QuantizeLinear(o, i, p)"),
            "DequantizeLinear Relu QuantizeLinear");
  EXPECT_EQ(ops("l: f32[] = const(0.0)\nk: f32[] = const(76.5)\no = Clip(d, l, k)\n"
                "y = QuantizeLinear(o, i, q)"),
            kBare);
  EXPECT_EQ(ops("l: f32[] = const(0.0)\nk: f32[] = const(76.0)\no = Clip(d, l, k)\n"
                "y = QuantizeLinear(o, i, q)"),
            "DequantizeLinear Clip QuantizeLinear");
  EXPECT_EQ(ops("o = Relu(d)\nk = QuantizeLinear(o, i, q)\nl = DequantizeLinear(k, a, p)\n"
                "y = Add(o, l)"),
            "DequantizeLinear Relu QuantizeLinear DequantizeLinear Add");
}

}  // namespace
}  // namespace weft::graph
