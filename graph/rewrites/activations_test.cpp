// gelu, hard_sigmoid, hard_swish and swish, in the spellings of exporters.

#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

void ExpectBecomes(const std::string& body, const std::string& ops) {
  const std::string text = "graph g (x: f32[2, 8]) -> (y) {\n" + body + "\n}\n";
  const Graph before = Parsed(text);
  Graph after = Clone(before);
  const Status status = Simplify(after, Refuse);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Verify(after).ok());
  EXPECT_EQ(OpsOf(after), ops) << Printed(after);
  ExpectSameResults(before, after, 1e-5);
}

constexpr const char* kNumbers =
    "half: f32[] = const(0.5)\none: f32[] = const(1)\ntwo: f32[] = const(2)\nthree: f32[] = "
    "const(3)\nsix: f32[] = const(6)\n"
    "zero: f32[] = const(0)\nroot2: f32[] = const(1.4142135)\ninv: f32[] = const(0.70710678)\nc: "
    "f32[] = const(0.044715)\n"
    "s: f32[] = const(0.7978846)\nsixth: f32[] = const(0.16666667)\nq: f32[] = const(1.702)\n";

TEST(Gelu, AsPyTorchWritesIt) {
  ExpectBecomes(
      std::string(kNumbers) +
          "a = Div(x, root2)\nb = Erf(a)\nd = Add(b, one)\ne = Mul(x, d)\ny = Mul(e, half)",
      "Gelu");
}
TEST(Gelu, HalfFirst) {
  ExpectBecomes(std::string(kNumbers) +
                    "a = Mul(x, inv)\nb = Erf(a)\nd = Add(one, b)\ne = Mul(half, x)\ny = Mul(e, d)",
                "Gelu");
}
TEST(Gelu, HalfOnTheSum) {
  ExpectBecomes(
      std::string(kNumbers) +
          "a = Div(x, root2)\nb = Erf(a)\nd = Add(b, one)\ne = Div(d, two)\ny = Mul(e, x)",
      "Gelu");
}
TEST(Gelu, Tanh) {
  ExpectBecomes(std::string(kNumbers) +
                    "p = Pow(x, three)\na = Mul(p, c)\nb = Add(x, a)\nd = Mul(b, s)\ne = "
                    "Tanh(d)\nf = Add(e, one)\ng = Mul(x, half)\ny = Mul(g, f)",
                "Gelu");
}
TEST(Gelu, TanhOfAProduct) {
  ExpectBecomes(std::string(kNumbers) +
                    "m = Mul(x, x)\na = Mul(m, c)\nb = Add(a, one)\nt = Mul(x, s)\nd = Mul(t, "
                    "b)\ne = Tanh(d)\nf = Add(e, one)\ng = Mul(x, half)\ny = Mul(g, f)",
                "Gelu");
}
TEST(Gelu, ANumberOfAnotherTypesPrecisionIsAnotherNumber) {
  const std::string body =
      "a = Div(x, r)\nb = Erf(a)\nd = Add(b, one)\ne = Mul(x, d)\ny = Mul(e, half)";
  ExpectBecomes(std::string(kNumbers) + "r: f32[] = const(1.4137)\n" + body, "Div Erf Add Mul Mul");
  const auto typed = [&](const std::string& type) {
    const std::string text = "graph g (x: " + type + "[2, 8]) -> (y) {\nhalf: " + type +
                             "[] = const(0.5)\none: " + type + "[] = const(1)\nr: " + type +
                             "[] = const(1.4142135)\n" + body + "\n}\n";
    Graph graph = Parsed(text);
    EXPECT_TRUE(Simplify(graph, Refuse).ok());
    return OpsOf(graph);
  };
  EXPECT_EQ(typed("f16"), "Gelu");
  EXPECT_EQ(typed("f64"), "Div Erf Add Mul Mul");
}
TEST(Gelu, AnotherNumberIsNoGelu) {
  ExpectBecomes(std::string(kNumbers) +
                    "a = Div(x, two)\nb = Erf(a)\nd = Add(b, one)\ne = Mul(x, d)\ny = Mul(e, half)",
                "Div Erf Add Mul Mul");
}
TEST(Gelu, AnotherValueIsNoGelu) {
  ExpectBecomes(std::string(kNumbers) +
                    "r = Relu(x)\na = Div(x, root2)\nb = Erf(a)\nd = Add(b, one)\ne = Mul(r, d)\ny "
                    "= Mul(e, half)",
                "Div Erf Add Relu Mul Mul");
}
TEST(HardSigmoid, FromClip) {
  ExpectBecomes(
      std::string(kNumbers) + "a = Add(x, three)\nb = Clip(a, zero, six)\ny = Div(b, six)",
      "HardSigmoid");
}
TEST(HardSwish, FromClip) {
  ExpectBecomes(std::string(kNumbers) +
                    "a = Add(x, three)\nb = Clip(a, zero, six)\nd = Mul(x, b)\ny = Div(d, six)",
                "HardSwish");
}
TEST(HardSwish, DividedFirst) {
  ExpectBecomes(std::string(kNumbers) +
                    "a = Add(three, x)\nb = Clip(a, zero, six)\nd = Mul(b, sixth)\ny = Mul(x, d)",
                "HardSwish");
}
TEST(HardSwish, FromHardSigmoid) {
  ExpectBecomes("a = HardSigmoid(x) {alpha = 0.16666667, beta = 0.5}\ny = Mul(a, x)", "HardSwish");
  ExpectBecomes("a = HardSigmoid(x) {alpha = 0.2, beta = 0.5}\ny = Mul(a, x)", "HardSigmoid Mul");
}
TEST(Mish, FromSoftplus) {
  const auto ops = [](const std::string& text) {
    Graph graph = Parsed("graph g (x: f32[2, 3]) -> (y) {\n" + text + "}");
    EXPECT_TRUE(Simplify(graph, Refuse).ok());
    return OpsOf(graph);
  };
  EXPECT_EQ(ops("a = Softplus(x)\nb = Tanh(a)\ny = Mul(x, b)\n"), "Mish");
  EXPECT_EQ(ops("a = Softplus(x)\nb = Tanh(a)\ny = Mul(b, x)\n"), "Mish");
  EXPECT_EQ(ops("a = Softplus(x)\nb = Tanh(a)\nc = Mul(x, b)\ny = Add(c, a)\n"),
            "Softplus Tanh Mul Add");
  EXPECT_EQ(ops("n = Neg(x)\na = Softplus(n)\nb = Tanh(a)\ny = Mul(x, b)\n"),
            "Neg Softplus Tanh Mul");
}
TEST(Swish, FromSigmoid) {
  ExpectBecomes("a = Sigmoid(x)\ny = Mul(x, a)", "Swish");
  ExpectBecomes(std::string(kNumbers) + "b = Mul(x, q)\na = Sigmoid(b)\ny = Mul(a, x)", "Swish");
}

// An attribute is a float: what it would round stays an operand.
TEST(Activations, DoublesKeepTheirNumbers) {
  const auto ops = [](const std::string& body) {
    Graph graph = Parsed(
        "graph g (x: f64[2, 8]) -> (y) {\nzero: f64[] = const(0)\nk: f64[] = "
        "const(1.702)\nhalf: f64[] = const(0.5)\nc: f64[] = const(2)\n" +
        body + "\n}\n");
    EXPECT_TRUE(Simplify(graph, Refuse).ok());
    return OpsOf(graph);
  };
  EXPECT_EQ(ops("a = Mul(x, k)\nb = Sigmoid(a)\ny = Mul(x, b)"), "Mul Sigmoid Mul");
  EXPECT_EQ(ops("a = Mul(x, half)\nb = Sigmoid(a)\ny = Mul(x, b)"), "Swish");
  EXPECT_EQ(ops("a = Add(x, k)\nb = Clip(a, zero, c)\ny = Mul(b, half)"), "Add Clip Mul");
  EXPECT_EQ(ops("a = Add(x, half)\nb = Clip(a, zero, c)\ny = Mul(b, half)"), "HardSigmoid");
}

}  // namespace
}  // namespace weft::graph
