// layernorm_from_parts, rmsnorm_from_parts, conv_pads, conv_batchnorm, conv_scale.

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
constexpr const char* kRows =
    "graph g (x: f32[2, 3, 2]) -> (y) {\nw: f32[2, 2] = const(1, 2, 3, 4)\nb: f32[2] = const(0.5, "
    "1)\n"
    "scale: f32[2] = const(1.5, 0.25)\nshift: f32[2] = const(1, 2)\nmean: f32[2] = const(0.3, "
    "-0.2)\nvar: f32[2] = const(0.9, 2)\nrows: i64[2] = const(-1, 2)\npairs: i64[2] = const(3, 4)\n"
    "four: f32[4] = const(1, 2, 3, 4)\n";

TEST(MatMulBatchNorm, BehindAReshapeThatKeepsColumns) {
  ExpectBecomes(std::string(kRows) +
                    "p = MatMul(x, w)\nf = Reshape(p, rows)\n"
                    "y = BatchNormalization(f, scale, shift, mean, var)\n}",
                "MatMul Add Reshape");
}
TEST(MatMulBatchNorm, TakesABias) {
  ExpectBecomes(std::string(kRows) +
                    "p = MatMul(x, w)\nq = Add(b, p)\nf = Reshape(q, rows)\n"
                    "y = BatchNormalization(f, scale, shift, mean, var)\n}",
                "MatMul Add Reshape");
}
TEST(MatMulBatchNorm, AlikeWithoutAReshape) {
  std::string text = kRows;
  text.replace(text.find("[2, 3, 2]"), 9, "[3, 2]");
  ExpectBecomes(text + "p = MatMul(x, w)\ny = BatchNormalization(p, scale, shift, mean, var)\n}",
                "MatMul Add");
}
TEST(MatMulBatchNorm, OtherColumnsStay) {
  ExpectBecomes(std::string(kRows) +
                    "p = MatMul(x, w)\nf = Reshape(p, pairs)\n"
                    "y = BatchNormalization(f, four, four, four, four)\n}",
                "MatMul Reshape BatchNormalization");
}
TEST(MatMulBatchNorm, ReadTwiceStaysApart) {
  ExpectBecomes(std::string(kRows) +
                    "p = MatMul(x, w)\nf = Reshape(p, rows)\n"
                    "n = BatchNormalization(f, scale, shift, mean, var)\ny = Add(n, f)\n}",
                "MatMul Reshape BatchNormalization Add");
}

std::string OpsAfter(const std::string& text) {
  Graph graph = Parsed(text);
  const Status status = Simplify(graph, Refuse);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return OpsOf(graph);
}

// Groups of an x [n, 6, h, 5], as exporters write them.
std::string OpsOfGroups(const std::string& behind) {
  return OpsAfter(
      "graph g (x: f32[n, 6, h, 5]) -> (y) {\nsymbol n\nsymbol h\n"
      "one: f32[2] = const(1, 1)\nnone: f32[2] = const(0, 0.5)\nrows: i64[3] = const(0, 2, -1)\n"
      "image: i64[4] = const(0, 6, -1, 5)\nw: f32[6, 1, 1] = const(1, 2, 3, 4, 5, 6)\n"
      "b: f32[1, 6, 1, 1] = const(1, 2, 3, 4, 5, 6)\nv: f32[5] = const(1, 2, 3, 4, 5)\n"
      "a = Reshape(x, rows)\nc = InstanceNormalization(a, one, none)\nd = Reshape(c, image)\n" +
      behind + "}");
}

TEST(GroupnormFromParts, WithScaleAndBias) {
  EXPECT_EQ(OpsOfGroups("e = Mul(w, d)\ny = Add(e, b)\n"), "GroupNormalization");
  EXPECT_EQ(OpsOfGroups("y = Relu(d)\n"), "GroupNormalization Relu");
  EXPECT_EQ(OpsOfGroups("e = Mul(w, d)\ny = Add(e, v)\n"), "GroupNormalization Add");
}
TEST(GroupnormFromParts, ReadTwiceStaysApart) {
  EXPECT_EQ(OpsOfGroups("e = Mul(w, d)\ny = Add(e, d)\n"), "GroupNormalization Mul Add");
}
TEST(GroupnormFromParts, OfOneChannelEach) {
  EXPECT_EQ(OpsAfter("graph g (x: f32[n, 2, 5]) -> (y) {\nsymbol n\nw: f32[2] = const(1, 2)\n"
                     "s: f32[2, 1] = const(2, 3)\nc = InstanceNormalization(x, w, w)\n"
                     "y = Mul(c, s)\n}"),
            "InstanceNormalization");
}

TEST(ParallelConvs, SumsAndDifferences) {
  const std::string head = std::string(kConv) + "v: f32[2, 2, 1, 1] = const(0.5, -1, 2, 0.25)\n";
  ExpectBecomes(
      head + "c = Conv(x, w, b) {group = 2}\nd = Conv(x, v) {group = 2}\ny = Add(c, d)\n}", "Conv");
  ExpectBecomes(
      head + "c = Conv(x, w) {group = 2}\nd = Conv(x, v, b) {group = 2}\ny = Sub(c, d)\n}", "Conv");
}
TEST(ParallelConvs, ANormalizationOfTheSameValue) {
  ExpectBecomes(
      "graph g (x: f32[2, 2, 3, 3]) -> (y) {\nw: f32[2, 2, 1, 1] = const(1, 2, 3, 4)\n"
      "scale: f32[2] = const(1.5, 0.25)\nshift: f32[2] = const(1, 2)\nmean: f32[2] = const(0.3, "
      "-0.2)\nvar: f32[2] = const(0.9, 2)\nc = Conv(x, w)\n"
      "n = BatchNormalization(x, scale, shift, mean, var)\nd = Sub(n, c)\ny = Add(d, n)\n}",
      "Conv");
}
TEST(ParallelConvs, OtherValuesAndStridesStay) {
  ExpectBecomes(
      std::string(kConv) +
          "r = Relu(x)\nc = Conv(x, w) {group = 2}\nd = Conv(r, w) {group = 2}\ny = Add(c, d)\n}",
      "Conv Relu Conv Add");
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

constexpr const char* kRow =
    "graph g (x: f32[2, 1, 5]) -> (y) {\nw: f32[2, 1, 3] = const(1, 2, 3, -1, 0.5, 2)\n";

// The pads of what is left, a Conv alone. (tests/e2e/simplify_test.py compares results.)
void ExpectConvPads(const std::string& text, const std::vector<int64_t>& pads) {
  Graph after = Parsed(text);
  const Status status = Simplify(after, Refuse);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(OpsOf(after), "Conv") << Printed(after);
  EXPECT_EQ(IntsAttr(after.nodes[0], "pads"), pads);
}

TEST(ConvPads, ZerosOfAPad) {
  ExpectConvPads(std::string(kRow) +
                     "p: i64[6] = const(0, 0, 2, 0, 0, 0)\nz = Pad(x, p)\n"
                     "y = Conv(z, w) {pads = [0, 1]}\n}",
                 {2, 1});
}
TEST(ConvPads, ZerosAlongTheAxesThatAreNamed) {
  ExpectConvPads(std::string(kRow) +
                     "p: i64[2] = const(1, 2)\nnought: f32[] = const(0)\naxis: i64[1] = const(-1)\n"
                     "z = Pad(x, p, nought, axis)\ny = Conv(z, w) {strides = [2]}\n}",
                 {1, 2});
}
TEST(ConvPads, RowsThatASliceCutsOff) {  // a causal filter
  ExpectConvPads(
      std::string(kRow) +
          "from: i64[1] = const(0)\nto: i64[1] = const(-4)\naxis: i64[1] = const(2)\n"
          "c = Conv(x, w) {pads = [4, 4], dilations = [2]}\ny = Slice(c, from, to, axis)\n}",
      {4, 0});
}
TEST(ConvPads, RowsOfAnyLength) {
  const auto cut = [](const std::string& from) {
    return OpsAfter(
        "graph g (x: f32[1, 1, t]) -> (y) {\nsymbol t in 1:64\nw: f32[1, 1, 3] = const(1, 2, 3)\n"
        "from: i64[1] = const(" +
        from +
        ")\nto: i64[1] = const(-1)\naxis: i64[1] = const(2)\nc = Conv(x, w) {pads = [2, 1]}\n"
        "y = Slice(c, from, to, axis)\n}");
  };
  EXPECT_EQ(cut("0"), "Conv");
  EXPECT_EQ(cut("1"), "Conv Slice");  // of one element the Slice leaves nothing
}
TEST(ConvPads, OthersStay) {
  const auto ops = [](const std::string& text) { return OpsAfter(std::string(kRow) + text + "}"); };
  const auto padded = [&](const std::string& pads, const std::string& value = "0") {
    return ops("p: i64[6] = const(" + pads + ")\nv: f32[] = const(" + value +
               ")\nz = Pad(x, p, v)\ny = Conv(z, w)\n");
  };
  EXPECT_EQ(padded("0, 0, 2, 0, 0, 0"), "Conv");
  EXPECT_EQ(padded("0, 0, 2, 0, 0, 0", "1"), "Pad Conv");
  EXPECT_EQ(padded("0, 0, 3, 0, 0, 0"), "Pad Conv");
  EXPECT_EQ(padded("1, 0, 0, 0, 0, 0"), "Pad Conv");
  EXPECT_EQ(padded("0, 0, 2, 0, 0, -1"), "Pad Conv");
  const auto cut = [&](const std::string& axis, const std::string& attributes) {
    return ops("from: i64[1] = const(0)\nto: i64[1] = const(-1)\naxis: i64[1] = const(" + axis +
               ")\nc = Conv(x, w) {" + attributes + "}\ny = Slice(c, from, to, axis)\n");
  };
  EXPECT_EQ(cut("2", "pads = [1, 1]"), "Conv");
  EXPECT_EQ(cut("1", "pads = [1, 1]"), "Conv Slice");
  EXPECT_EQ(cut("2", "pads = [1, 0]"), "Conv Slice");
  EXPECT_EQ(cut("2", "pads = [1, 1], strides = [2]"), "Conv Slice");
}

// The filter's extents and the pads of what is left.
void ExpectConvTaps(const std::string& x, const std::string& conv, const Shape& filter,
                    const std::vector<int64_t>& pads) {
  Graph after = Parsed("graph g (x: f32[" + x + "]) -> (y) {\n" + conv + "\n}");
  const Status status = Simplify(after, Refuse);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(OpsOf(after), "Conv") << Printed(after);
  EXPECT_EQ(after[after.nodes[0].inputs[1]].constant.shape(), filter);
  EXPECT_EQ(IntsAttr(after.nodes[0], "pads"), pads);
}

TEST(ConvTaps, ThoseThatMeetPadsAloneGo) {
  const std::string row = "w: f32[1, 1, 3] = const(1, 2, 3)\ny = Conv(x, w) ";
  ExpectConvTaps("1, 1, 1", row + "{pads = [1, 1]}", {1, 1, 1}, {0, 0});
  ExpectConvTaps("1, 1, 5", row + "{pads = [5, 5], dilations = [5]}", {1, 1, 1}, {0, 0});
  ExpectConvTaps("1, 1, 6", row + "{pads = [5, 5], dilations = [5]}", {1, 1, 3}, {5, 5});
  ExpectConvTaps("1, 1, 3", row + "{pads = [2, 0]}", {1, 1, 3}, {2, 0});
  ExpectConvTaps("1, 1, 2", row + "{pads = [2, 0]}", {1, 1, 2}, {1, 0});
  ExpectConvTaps("1, 1, 2", row + "{pads = [1, 1], strides = [2]}", {1, 1, 2}, {0, 1});
  ExpectConvTaps("1, 1, 1, 2",
                 "w: f32[1, 1, 3, 2] = const(1, 2, 3, 4, 5, 6)\n"
                 "y = Conv(x, w) {pads = [1, 0, 1, 1]}",
                 {1, 1, 1, 2}, {0, 0, 0, 1});
}

}  // namespace
}  // namespace weft::graph
