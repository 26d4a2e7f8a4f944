#include "fallback/match.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/edit.h"

namespace weft::fallback {
namespace {

using graph::Graph;
using graph::NodeId;

Graph Parsed(std::string_view text) {
  auto graph = graph::ParseGraph(text, "test", BlobStore());
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  return graph.ok() ? *std::move(graph) : Graph();
}

std::vector<NodeId> All(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) nodes.emplace_back(i);
  return nodes;
}

std::string Matched(const Graph& graph, Library library = Library::kOnednn,
                    const LayoutOf& layout = {}, const Abilities& can = {}) {
  auto call = Match(graph, All(graph), library, layout, can);
  if (!call.yes()) {
    return std::string(ReasonName(call.refusal().reason)) + ": " + call.refusal().detail;
  }
  EXPECT_TRUE(Verify(*call).ok()) << Verify(*call).ToString();
  BlobStore blobs;
  const std::string text = Print(*call, blobs);
  auto read = ParseCall(text, "test", blobs);
  EXPECT_TRUE(read.ok() && Equal(*call, *read)) << text;
  return text;
}
std::string Matched(std::string_view text, Library library = Library::kOnednn) {
  return Matched(Parsed(text), library);
}
std::string Matched(std::string_view text, const Abilities& can) {
  return Matched(Parsed(text), Library::kOnednn, {}, can);
}

TEST(Match, ConvolutionWithItsEpilogue) {
  EXPECT_EQ(
      Matched(R"(graph g (x: f32[1, 1, 8, 8], r: f32[1, 2, 4, 4]) -> (y) {
    w: f32[2, 1, 3, 3] = const(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0)
    b: f32[2] = const(0, 0)
    six: f32[] = const(6)
    c: f32[1, 2, 4, 4] = Conv(x, w, b) {pads = [1, 1, 0, 0], strides = [2, 2], name = "/c"}
    s: f32[1, 2, 4, 4] = Add(r, c)
    y: f32[1, 2, 4, 4] = Clip(s, _, six)
  })"),
      "onednn.convolution(src = x: f32[1, 1, 8, 8] abcd, weights = w: f32[2, 1, 3, 3] any const, "
      "bias = b: f32[2] a const, post0 = r: f32[1, 2, 4, 4] abcd) -> (dst = y: f32[1, 2, 4, 4] "
      "abcd) "
      "{dilations = [1, 1], group = 1, pads = [1, 1, 0, 0], strides = [2, 2], "
      "post = [binary_add, clip(-inf, 6.0)], from = [\"/c\", \"s\", \"y\"]}");
}

TEST(Match, AutoPadAndCeilModeBecomePads) {
  EXPECT_NE(Matched(R"(graph g (x: f32[1, 1, 5, 6]) -> (y) {
    y: f32[1, 1, 3, 3] = MaxPool(x) {auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [2, 2]} })")
                .find("pads = [1, 0, 1, 1]"),
            std::string::npos);
  EXPECT_NE(Matched(R"(graph g (x: f32[1, 1, 6]) -> (y) {
    y: f32[1, 1, 3] = AveragePool(x) {ceil_mode = 1, kernel_shape = [3], strides = [2]} })")
                .find("pads = [0, 1]"),
            std::string::npos);
  // where padding may be all that there is to average
  const std::pair<int, const char*> windows[] = {{1, "dilations = [3], pads = [1, 1]"},
                                                 {3, "pads = [2, 0]"}};
  for (const auto& [count, attributes] : windows) {
    const auto of = [&](const char* op) {
      return Matched(fmt::format(R"(graph g (x: f32[1, 1, 2]) -> (y) {{
    y: f32[1, 1, {}] = {}(x) {{{}, kernel_shape = [2]}} }})",
                                 count, op, attributes));
    };
    EXPECT_EQ(of("AveragePool").find("onednn"), std::string::npos);
    EXPECT_NE(of("MaxPool").find("onednn"), std::string::npos);
  }
  // whose computing in 32 bits would not hold
  EXPECT_EQ(Matched(R"(graph g (x: f32[1, 1, 4]) -> (y) {
    y: f32[1, 1, 1] = MaxPool(x) {kernel_shape = [2], strides = [16777216]} })")
                .find("onednn"),
            std::string::npos);
  EXPECT_NE(Matched(R"(graph g (x: f32[1, 2, 7, 7]) -> (y) {
    y: f32[1, 2, 1, 1] = GlobalAveragePool(x) })")
                .find("kernel = [7, 7]"),
            std::string::npos);
}

TEST(Match, MatmulTakesOneBias) {
  const std::string text = Matched(R"(graph g (x: f32[2, 3]) -> (y) {
    w: f32[3, 2] = const(1,2,3,4,5,6)
    b: f32[2] = const(0, 0)
    m: f32[2, 2] = MatMul(x, w)
    s: f32[2, 2] = Add(b, m)
    t: f32[2, 2] = Add(s, b)
    y: f32[2, 2] = Gelu(t) })");
  EXPECT_NE(text.find("bias = b: f32[2] a const, post0 = b"), std::string::npos) << text;
  EXPECT_NE(text.find("post = [binary_add, gelu_erf]"), std::string::npos) << text;
}

TEST(Match, LibrariesOfADeviceTakeLess) {
  const auto convolution = [](const std::string& ends) {
    return "graph g (x: f32[1, 1, 8, 8], r: f32[1, 2, 8, 8]) -> (y) {"
           "  w: f32[2, 1, 3, 3] = const(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0)"
           "  b: f32[2] = const(0, 0)"
           "  c: f32[1, 2, 8, 8] = Conv(x, w, b) {pads = [1, 1, 1, 1], name = \"/c\"} " +
           ends + " }";
  };
  EXPECT_EQ(Matched(convolution("s: f32[1, 2, 8, 8] = Add(r, c) y: f32[1, 2, 8, 8] = Relu(s)"),
                    Library::kCudnn),
            "cudnn.convolution(src = x: f32[1, 1, 8, 8] abcd, weights = w: f32[2, 1, 3, 3] abcd "
            "const, bias = b: f32[2] a const, post0 = r: f32[1, 2, 8, 8] abcd) -> (dst = y: "
            "f32[1, 2, 8, 8] abcd) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = "
            "[1, 1], post = [binary_add, relu], from = [\"/c\", \"s\", \"y\"]}");
  EXPECT_EQ(Matched(convolution("y: f32[1, 2, 8, 8] = Tanh(c)"), Library::kCudnn),
            "pattern_unknown_to_library: tanh as post-op 0");
  EXPECT_EQ(Matched(convolution("y: f32[1, 2, 8, 8] = Relu(c)"), Library::kCublas),
            "op_unknown_to_library: convolution");
  EXPECT_EQ(
      Matched("graph g (x: f32[3, 5]) -> (y) { w: f32[5, 1] = const(0, 0, 0, 0, 0) b: f32[1] "
              "= const(0) m: f32[3, 1] = Gemm(x, w, b) y: f32[3, 1] = Relu(m) }",
              Library::kCublas),
      "cublas.matmul(src = x: f32[3, 5] ab, weights = w: f32[5, 1] ab const, bias = b: f32[1] "
      "a const) -> (dst = y: f32[3, 1] ab) {trans_a = 0, trans_b = 0, post = [relu], from = "
      "[\"m\", \"y\"]}");
}

// Of a device's library; a processor has no use for it.
TEST(Match, FactorsAreRoundedWhereThatIsAllowed) {
  const auto text =
      "graph g (x: f32[3, 5]) -> (y) { w: f32[5, 1] = const(0, 0, 0, 0, 0) y: f32[3, 1] = "
      "MatMul(x, w) }";
  const auto says = [&](Library library, const Abilities& can) {
    return Matched(Parsed(text), library, {}, can).find("tf32 = 1") != std::string::npos;
  };
  EXPECT_TRUE(says(Library::kCublas, {.tf32 = true}));
  EXPECT_FALSE(says(Library::kCublas, {}));
  EXPECT_FALSE(says(Library::kOnednn, {.tf32 = true}));
}

TEST(Match, ProductsOfBfloat16WhereTheyAreFastAndAllowed) {
  const auto text = R"(graph g (x: bf16[2, 3]) -> (y) {
    w: bf16[3, 2] = const(1,2,3,4,5,6)
    b: bf16[2] = const(0, 0)
    half: bf16[] = const(0.5)
    m: bf16[2, 2] = MatMul(x, w)
    s: bf16[2, 2] = Add(m, b)
    t: bf16[2, 2] = Add(s, half)
    y: bf16[2, 2] = Relu(t) })";
  EXPECT_EQ(Matched(text, {.bfloat16 = true}),
            "onednn.matmul(src = x: bf16[2, 3] ab, weights = w: bf16[3, 2] any const, bias = b: "
            "bf16[2] a const) -> (dst = y: bf16[2, 2] ab) {trans_a = 0, trans_b = 0, post = "
            "[linear(1.0, 0.5), relu], from = [\"m\", \"s\", \"t\", \"y\"]}");
  EXPECT_TRUE(Matched(text, Abilities{}).starts_with("dtype_unknown_to_library: x is bf16"));
  EXPECT_TRUE(Matched(text, {.bfloat16 = true, .flushes = false}).starts_with("inaccurate: x"));
  EXPECT_TRUE(Matched("graph g (x: bf16[2]) -> (y) { y: bf16[2] = Relu(x) }", {.bfloat16 = true})
                  .starts_with("dtype_unknown_to_library"));
  EXPECT_TRUE(Matched(R"(graph g (x: bf16[1, 4, 5], w: bf16[6, 2, 3]) -> (y) {
    y: bf16[1, 6, 3] = Conv(x, w) {group = 2} })",
                      {.bfloat16 = true})
                  .starts_with("onednn.convolution(src = x: bf16[1, 4, 5] abc"));
}

constexpr Abilities kBytes{.dot_products = true};

TEST(Match, ProductsOfBytesSayTheirArithmetic) {
  const auto product = R"(graph g (x: u8[2, 3], z: u8[]) -> (y) {
    w: i8[3, 2] = const(1,-2,3,-4,5,-6)
    y: i32[2, 2] = MatMulInteger(x, w, z) })";
  EXPECT_EQ(Matched(product, kBytes),
            "onednn.matmul(src = x: u8[2, 3] ab, weights = w: i8[3, 2] any const, src_zero = z: "
            "u8[] -) -> (dst = y: i32[2, 2] ab) {trans_a = 0, trans_b = 0, from = [\"y\"]}");
  EXPECT_EQ(Matched(product), "saturates_in_library: MatMulInteger without VNNI");
  const auto convolution = R"(graph g (x: i8[1, 1, 4]) -> (y) {
    one: f32[] = const(0.5)
    zx: i8[] = const(-3)
    w: u8[2, 1, 3] = const(1, 128, 255, 4, 5, 6)
    sw: f32[2] = const(0.25, 0.5)
    zw: u8[] = const(128)
    zy: u8[] = const(7)
    b: i32[2] = const(10, -20)
    y: u8[1, 2, 2] = QLinearConv(x, one, zx, w, sw, zw, one, zy, b) })";
  EXPECT_EQ(Matched(convolution, kBytes),
            "onednn.convolution(src = x: i8[1, 1, 4] abc, weights = w: u8[2, 1, 3] any const, bias "
            "= b: i32[2] a const) -> (dst = y: u8[1, 2, 2] abc) {dilations = [1], factors = [0.25, "
            "0.5], group = 1, pads = [0, 0], src_zero = -3, strides = [1], weights_zero = 128, "
            "post = [factors, round, linear(1.0, 7.0)], from = [\"y\"]}");
}

TEST(Match, ProductsOfBytesFuseNothing) {
  const Graph graph = Parsed(R"(graph g (x: u8[2, 3], r: i32[2, 2]) -> (y) {
    w: i8[3, 2] = const(1,-2,3,-4,5,-6)
    m: i32[2, 2] = MatMulInteger(x, w)
    y: i32[2, 2] = Add(m, r) })");
  EXPECT_EQ(LongestMatch(graph, NodeId(size_t{0}), Library::kOnednn, kBytes).size(), 1u);
}

TEST(Match, SumsThatTheLibraryWouldRound) {
  const auto product = [](std::string_view inputs, std::string_view w) {
    return fmt::format("graph g ({}) -> (y) {{ {} y: i32[2, 2] = MatMulInteger(x, w, z) }}", inputs,
                       w);
  };
  EXPECT_TRUE(Matched(product("x: u8[2, 512], w: i8[512, 2], z: u8[]", ""), kBytes)
                  .starts_with("onednn.matmul"));
  EXPECT_TRUE(Matched(product("x: u8[2, 513], w: i8[513, 2], z: u8[]", ""), kBytes)
                  .starts_with("rounds_in_library: sums up to 16809984, and zero points"));
  const std::string exact =
      Matched(product("x: u8[2, 513], w: i8[513, 2]", "z: u8[] = const(0)"), kBytes);
  EXPECT_NE(exact.find("wide = 1"), std::string::npos) << exact;
}

TEST(Match, LongestGrowsThroughSingleReaders) {
  Graph graph = Parsed(R"(graph g (x: f32[1, 2, 4, 4], w: f32[2, 2, 1, 1]) -> (y, t) {
    c: f32[1, 2, 4, 4] = Conv(x, w)
    r: f32[1, 2, 4, 4] = Relu(c)
    s: f32[1, 2, 4, 4] = Sigmoid(r)
    t: f32[1, 2, 4, 4] = Tanh(s)
    y: f32[1, 2, 4, 4] = Mul(t, s) })");
  EXPECT_EQ(LongestMatch(graph, NodeId(size_t{0}), Library::kOnednn).size(), 3u);
  EXPECT_EQ(LongestMatch(graph, NodeId(size_t{3}), Library::kOnednn).size(), 1u);  // t is a result
  EXPECT_EQ(LongestMatch(graph, NodeId(size_t{0}), Library::kNative).size(), 1u);
}

TEST(Match, NativeCopiesAttributes) {
  EXPECT_EQ(Matched(R"(graph g (x: f32[n, 4]) -> (y) {
    symbol n in 1:9
    y: f32[4, n] = Transpose(x) {perm = [1, 0]} })",
                    Library::kNative),
            "native.Transpose(in0 = x: f32[?, 4] ab) -> (out0 = y: f32[4, ?] ab) {perm = [1, 0], "
            "from = [\"y\"]}");
}

TEST(Match, EveryRefusalHasItsReason) {
  const auto reason = [](std::string_view text, Library library = Library::kOnednn) {
    const std::string said = Matched(text, library);
    return said.substr(0, said.find(':'));
  };
  const auto pool = R"(graph g (x: f32[1, 1, 4]) -> (y) {
    y: f32[1, 1, 2] = MaxPool(x) {kernel_shape = [2], strides = [2]} })";
  EXPECT_TRUE(Matched(pool, Library::kCudnn).starts_with("cudnn.pooling(src = x"));
  EXPECT_EQ(reason("graph g (x: f32[2, 2]) -> (y) { y: f32[2, 2] = Softmax(x) }", Library::kCudnn),
            "op_unknown_to_library");
  EXPECT_EQ(reason(pool, Library::kCublas), "op_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f32[2, 2]) -> (y) { y: f32[2, 2] = Hardmax(x) }", Library::kNative),
            "op_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f32[2]) -> (y) { y: i64[1, n] = NonZero(x) symbol n in 0:2 }"),
            "op_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f64[2, 2]) -> (y) { y: f64[2, 2] = MatMul(x, x) }"),
            "dtype_unknown_to_library");
  EXPECT_EQ(reason("graph g (x) -> (y) { y = Relu(x) }", Library::kNative),
            "dtype_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f32[n, 2]) -> (y) { symbol n in 1:2 y: f32[n, 2] = Relu(x) }"),
            "shape_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f32[0, 2]) -> (y) { y: f32[0, 2] = Relu(x) }"),
            "shape_unknown_to_library");
  EXPECT_EQ(reason("graph g (x: f32[2], m: f32[2, 2]) -> (y) { y: f32[2] = MatMul(x, m) }"),
            "shape_unknown_to_library");
  EXPECT_EQ(
      reason(
          R"(graph g (x: f32[2, 2]) -> (y) { s: f32[2, 2] = Softmax(x) y: f32[2, 2] = Relu(s) })"),
      "pattern_unknown_to_library");
  const auto keeps_nan = [](std::string_view text) {
    return Matched(text, Abilities{.loses_nan = false});
  };
  for (const std::string op : {"Relu", "Exp", "Softmax", "HardSigmoid", "Gelu"}) {
    const std::string text = "graph g (x: f32[2, 2]) -> (y) { y: f32[2, 2] = " + op + "(x) }";
    EXPECT_TRUE(keeps_nan(text).starts_with("loses_nan_in_library: "));
    EXPECT_TRUE(Matched(text, Abilities{}).starts_with("onednn."));
  }
  const auto pooled = [&](const std::string& op) {
    return keeps_nan("graph g (x: f32[2, 2, 4]) -> (y) { y: f32[2, 2, 1] = " + op + "(x) }");
  };
  EXPECT_TRUE(pooled("GlobalMaxPool").starts_with("loses_nan_in_library: "));
  EXPECT_TRUE(pooled("GlobalAveragePool").starts_with("onednn."));
  EXPECT_TRUE(
      keeps_nan("graph g (x: f32[2, 2]) -> (y) { y: f32[2, 2] = Tanh(x) }").starts_with("onednn."));
  EXPECT_TRUE(
      keeps_nan("graph g (x: f32[2, 2]) -> (y) { a: f32[2, 2] = Add(x, x) y: f32[2, 2] = Relu(a) }")
          .starts_with("loses_nan"));
  EXPECT_TRUE(
      keeps_nan(
          "graph g (x: f32[2, 2]) -> (y) { a: f32[2, 2] = MatMul(x, x) y: f32[2, 2] = Relu(a) }")
          .starts_with("onednn."));
  const auto pool_and = [&](const std::string& addend) {
    return reason("graph g (x: f32[2, 3, 4], z: f32" + addend +
                  ") -> (y) { a: f32[2, 3, 1] = GlobalMaxPool(x) y: f32[2, 3, 1] = Add(a, z) }");
  };
  EXPECT_EQ(pool_and("[2, 3, 1]"), "shape_unknown_to_library");
  EXPECT_TRUE(pool_and("[3, 1]").starts_with("onednn.pooling")) << pool_and("[3, 1]");
  const auto scaled_and = [&](const std::string& extents) {
    return reason("graph g (x: f32" + extents + ", z: f32[3, 1]) -> (y) { a: f32" + extents +
                  " = Mul(x, z) y: f32" + extents + " = Add(a, z) }");
  };
  EXPECT_EQ(scaled_and("[2, 3, 1]"), "shape_unknown_to_library");
  EXPECT_TRUE(scaled_and("[2, 3, 4]").starts_with("onednn.binary")) << scaled_and("[2, 3, 4]");
  EXPECT_EQ(reason(R"(graph g (x: f32[8, 2, 9], m: f32[9, 9], z: f32[8, 1, 9]) -> (y) {
    a: f32[8, 2, 9] = MatMul(x, m) y: f32[8, 2, 9] = Add(a, z) })"),
            "shape_unknown_to_library");
  EXPECT_EQ(
      reason(R"(graph g (x: f32[2, 2]) -> (y) { a: f32[2, 2] = Abs(x) y: f32[2, 2] = Relu(a) })"),
      "pattern_unknown_to_library");
  EXPECT_EQ(reason(R"(graph g (x: f32[1, 1, 4]) -> (y, i) {
    y: f32[1, 1, 2], i: i64[1, 1, 2] = MaxPool(x) {kernel_shape = [2], strides = [2]} })"),
            "pattern_unknown_to_library");
  EXPECT_EQ(
      reason(
          R"(graph g (x: f32[2, 2]) -> (y, m) { m: f32[2, 2] = MatMul(x, x) y: f32[2, 2] = Relu(m) })"),
      "pattern_unknown_to_library");
  EXPECT_EQ(
      reason(R"(graph g (x: f32[2, 2]) -> (y) { m: f32[2, 2] = Relu(x) y: f32[2, 2] = Relu(m) })",
             Library::kNative),
      "pattern_unknown_to_library");
  const auto blocked = [](graph::ValueId) { return *ParseLayout("aBcd4b"); };
  EXPECT_TRUE(
      Matched(Parsed("graph g (x: f32[1, 8, 2, 2]) -> (y) { y: f32[1, 8, 2, 2] = Relu(x) }"),
              Library::kOnednn, blocked)
          .starts_with("layout_unknown_to_library: x in aBcd4b"));
}

}  // namespace
}  // namespace weft::fallback
