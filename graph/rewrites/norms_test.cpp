// layernorm_from_parts, rmsnorm_from_parts, conv_batchnorm, conv_scale.

#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

void ExpectBecomes(const std::string& text, const std::string& ops, double tolerance = 1e-5) {
  const Graph before = Parsed(text);
  Graph after = Clone(before);
  const Status status = Simplify(after, Refuse);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Verify(after).ok());
  EXPECT_EQ(OpsOf(after), ops) << Printed(after);
  ExpectSameResults(before, after, tolerance);
}

constexpr const char* kLayerNorm =
    "graph g (x: f32[2, 3, 4]) -> (y) {\n"
    "axes: i64[1] = const(-1)\ntwo: f32[] = const(2)\neps: f32[] = const(0.00001)\n"
    "w: f32[4] = const(1, 2, 3, 0.5)\nv: f32[4] = const(0.1, 0.2, 0.3, 0.4)\n"
    "m = ReduceMean(x, axes)\nd = Sub(x, m)\n";

TEST(LayerNormFromParts, AsExportersWriteIt) {
  ExpectBecomes(std::string(kLayerNorm) +
                    "p = Pow(d, two)\nq = ReduceMean(p, axes)\nr = Add(q, eps)\ns = Sqrt(r)\nn = "
                    "Div(d, s)\no = Mul(n, w)\ny = Add(o, v)\n}",
                "LayerNormalization");
}
TEST(LayerNormFromParts, SecondDifference) {  // TensorFlow subtracts twice
  ExpectBecomes(std::string(kLayerNorm) +
                    "d2 = Sub(x, m)\np = Mul(d2, d2)\nq = ReduceMean(p, axes)\nr = Add(q, eps)\ns "
                    "= Sqrt(r)\nt = Reciprocal(s)\nn = Mul(d, t)\no = Mul(w, n)\ny = Add(v, o)\n}",
                "LayerNormalization");
}
TEST(LayerNormFromParts, WithoutScale) {
  ExpectBecomes(
      std::string(kLayerNorm) +
          "p = Mul(d, d)\nq = ReduceMean(p, axes)\nr = Add(q, eps)\ns = Sqrt(r)\ny = Div(d, s)\n}",
      "LayerNormalization");
}
TEST(LayerNormFromParts, ReadElsewhereStaysApart) {
  ExpectBecomes(std::string(kLayerNorm) +
                    "p = Mul(d, d)\nq = ReduceMean(p, axes)\nr = Add(q, eps)\ns = Sqrt(r)\nn = "
                    "Div(d, s)\no = Mul(n, w)\nk = Relu(n)\ny = Add(o, k)\n}",
                "LayerNormalization Relu Mul Add");
}
TEST(RmsNormFromParts, AsLlamaWritesIt) {
  ExpectBecomes(
      "graph g (x: f32[2, 4]) -> (y) {\naxes: i64[1] = const(-1)\ntwo: f32[] = const(2)\none: "
      "f32[] = const(1)\neps: f32[] = const(0.000001)\n"
      "w: f32[4] = const(1, 2, 3, 0.5)\np = Pow(x, two)\nm = ReduceMean(p, axes)\na = Add(m, "
      "eps)\ns = Sqrt(a)\nr = Div(one, s)\nn = Mul(x, r)\ny = Mul(w, n)\n}",
      "RMSNormalization");
}
TEST(RmsNormFromParts, AnEpsilonThatAnAttributeCantHoldStays) {
  const auto ops = [](const std::string& epsilon) {
    Graph graph = Parsed(
        "graph g (x: f64[2, 4]) -> (y) {\naxes: i64[1] = const(-1)\neps: f64[] = const(" + epsilon +
        ")\np = Mul(x, x)\nm = ReduceMean(p, axes)\na = Add(m, eps)\ns = Sqrt(a)\n"
        "y = Div(x, s)\n}");
    EXPECT_TRUE(Simplify(graph, Refuse).ok());
    return OpsOf(graph);
  };
  EXPECT_EQ(ops("0.001"), "Mul ReduceMean Add Sqrt Div");
  EXPECT_EQ(ops("0.0009765625"), "RMSNormalization");
}

constexpr const char* kConv =
    "graph g (x: f32[2, 4, 3, 3]) -> (y) {\n"
    "w: f32[2, 2, 1, 1] = const(1, 2, 3, 4)\nb: f32[2] = const(0.5, -0.5)\n"
    "scale: f32[2] = const(1.5, 0.25)\nshift: f32[2] = const(1, 2)\nmean: f32[2] = const(0.3, "
    "-0.2)\nvar: f32[2] = const(0.9, 2)\n";

TEST(ConvBatchNorm, GroupsAndBias) {
  ExpectBecomes(
      std::string(kConv) +
          "c = Conv(x, w, b) {group = 2}\ny = BatchNormalization(c, scale, shift, mean, var)\n}",
      "Conv");
}
TEST(ConvBatchNorm, WithoutBias) {
  ExpectBecomes(std::string(kConv) +
                    "c = Conv(x, w) {group = 2}\ny = BatchNormalization(c, scale, shift, mean, "
                    "var) {epsilon = 0.01}\n}",
                "Conv");
}
TEST(ConvBatchNorm, ReadTwiceStaysApart) {
  ExpectBecomes(std::string(kConv) +
                    "c = Conv(x, w) {group = 2}\nn = BatchNormalization(c, scale, shift, mean, "
                    "var)\ny = Add(c, n)\n}",
                "Conv BatchNormalization Add");
}
TEST(ConvBatchNorm, Transposed) {  // two groups of two inputs and three outputs
  ExpectBecomes(
      "graph g (x: f32[1, 4, 2, 2]) -> (y) {\nw: f32[4, 3, 1, 1] = const(1, 2, 3, 4, 5, 6, 7, 8, "
      "9, 10, 11, 12)\n"
      "s: f32[6] = const(1, 2, 3, 4, 5, 6)\nz: f32[6] = const(0, 1, 0, 1, 0, 1)\nv: f32[6] = "
      "const(1, 2, 1, 2, 1, 2)\n"
      "c = ConvTranspose(x, w) {group = 2}\ny = BatchNormalization(c, s, z, z, v)\n}",
      "ConvTranspose");
}
TEST(ConvBatchNorm, Gemm) {
  ExpectBecomes(
      "graph g (x: f32[3, 2]) -> (y) {\nw: f32[2, 2] = const(1, 2, 3, 4)\nb: f32[] = const(0.5)\n"
      "scale: f32[2] = const(1.5, 0.25)\nshift: f32[2] = const(1, 2)\nmean: f32[2] = const(0.3, "
      "-0.2)\nvar: f32[2] = const(0.9, 2)\n"
      "c = Gemm(x, w, b) {alpha = 2.0, beta = 0.5, transB = 1}\ny = BatchNormalization(c, scale, "
      "shift, mean, var)\n}",
      "Gemm");
}
TEST(ConvScale, BiasAndLearnedScale) {
  ExpectBecomes(std::string(kConv) +
                    "k: f32[1, 2, 1, 1] = const(2, 3)\nl: f32[] = const(0.5)\nm: f32[2, 1, 1] = "
                    "const(1, -1)\n"
                    "c = Conv(x, w) {group = 2}\nd = Add(c, k)\ne = Mul(l, d)\ny = Add(e, m)\n}",
                "Conv");
}
TEST(ConvScale, AnotherAxisStays) {
  ExpectBecomes(std::string(kConv) +
                    "k: f32[3] = const(1, 2, 3)\nc = Conv(x, w) {group = 2}\ny = Add(c, k)\n}",
                "Conv Add");
}

}  // namespace
}  // namespace weft::graph
