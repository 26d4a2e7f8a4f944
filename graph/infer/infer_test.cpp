#include "graph/infer.h"

#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

// The type of y after inference, or the error.
std::string Y(const std::string& inputs, const std::string& body) {
  Graph g = Parsed("graph g (" + inputs +
                   ") -> (y) {\nsymbol b\nsymbol h\nsymbol w\n_b: f32[b] = \"d::Use\"()\n_h: "
                   "f32[h] = \"d::Use\"()\n_w: f32[w] = \"d::Use\"()\n" +
                   body + "\n}");
  const Status status = InferShapes(g);
  if (!status.ok()) return status.ToString();
  EXPECT_TRUE(Verify(g).ok());
  return TypeOf(g, "y");
}
void ExpectError(const std::string& inputs, const std::string& body, const std::string& part) {
  const std::string found = Y(inputs, body);
  EXPECT_NE(found.find(part), std::string::npos) << found;
  EXPECT_NE(found.find("node"), std::string::npos) << "names no node: " << found;
}

TEST(Infer, Elementwise) {
  EXPECT_EQ(Y("x: f32[2, 1], z: f32[3]", "y = Add(x, z)"), "f32[2, 3]");
  EXPECT_EQ(Y("x: f32[b, 1], z: f32[b, h]", "y = Add(x, z)"), "f32[b, h]");
  EXPECT_EQ(Y("x: f32[b], z: f32[4]", "y = Add(x, z)"), "f32[4]");
  EXPECT_EQ(Y("x: f32[2], z: f32[2]", "y = Less(x, z)"), "bool[2]");
  EXPECT_EQ(Y("c: bool[2, 1], x: i32[3], z: i32[]", "y = Where(c, x, z)"), "i32[2, 3]");
  EXPECT_EQ(Y("x: f32[2]", "y = Cast(x) {to = 10}"), "f16[2]");
  EXPECT_EQ(Y("x: f32[2], z: f64[1]", "y = CastLike(x, z)"), "f64[2]");
  ExpectError("x: f32[2], z: f32[3]", "y = Add(x, z)", "shapes [2] and [3] do not broadcast");
  ExpectError("x: f32[2], z: f64[2]", "y = Add(x, z)", "is f64, expected f32");
  ExpectError("x: string[2]", "y = Relu(x)", "is string, expected");
  ExpectError("x: f32[2]", "y = Cast(x) {to = 14}", "no element type");
}

TEST(Infer, TensorsOfSequencesHaveTypes) {
  const std::string at = "\ny = SequenceAt(t, i)";
  EXPECT_EQ(Y("x: f16[b, 4], i: i64[]", "t = SplitToSequence(x)" + at), "f16");
  EXPECT_EQ(Y("x: i32[b], i: i64[]",
              "s = SequenceEmpty()\nr = SequenceInsert(s, x)\nt = Identity(r)" + at),
            "i32");
  EXPECT_EQ(Y("i: i64[]", "s = SequenceEmpty() {dtype = 11}\nt = SequenceErase(s, i)" + at), "f64");
  EXPECT_EQ(Y("i: i64[]", "t = SequenceEmpty()" + at), "_");
  EXPECT_EQ(Y("x: u8[b]", "s = SequenceConstruct(x, x)\ny = ConcatFromSequence(s) {axis = 0}"),
            "u8");
}

TEST(Infer, BodiesPassSequences) {
  const std::string at = "y = SequenceAt(t, i)\n";
  EXPECT_EQ(Y("x: f32[b, 4], i: i64[]",
              "s = SplitToSequence(x)\nt = SequenceMap(s) {body = graph1}\n" + at +
                  "subgraph graph1 body (e) -> (o) {\no = Cast(e) {to = 10}\n}"),
            "f16");
  EXPECT_EQ(Y("x: f32[b, 4], i: i64[], c: bool[]",
              "s = SplitToSequence(x)\nt = If(c) {else_branch = graph1, then_branch = graph2}\n" +
                  at + "subgraph graph1 e () -> (o) {\ncaptured s\no = SequenceErase(s)\n}\n" +
                  "subgraph graph2 t () -> (p) {\ncaptured s\np = Identity(s)\n}"),
            "f32");
  EXPECT_EQ(Y("x: f32[b, 4], i: i64[], n: i64[]",
              "s = SequenceEmpty()\nt = Loop(n, _, s) {body = graph1}\n" + at +
                  "subgraph graph1 body (k: i64[], c: bool[], v) -> (d, o) {\ncaptured x\n"
                  "d = Identity(c)\no = SequenceInsert(v, x)\n}"),
            "f32");
}

TEST(Infer, Convolutions) {
  const std::string w = "w: f32[8, 3, 3, 3], x: f32[b, 3, h, w]";
  EXPECT_EQ(Y("x: f32[1, 3, 9, 9], w: f32[8, 3, 3, 3]", "y = Conv(x, w)"), "f32[1, 8, 7, 7]");
  EXPECT_EQ(Y(w, "y = Conv(x, w) {pads = [1, 1, 1, 1]}"), "f32[b, 8, h, w]");
  EXPECT_EQ(Y("x: f32[1, 3, 9, 9], w: f32[8, 3, 3, 3]",
              "y = Conv(x, w) {auto_pad = \"SAME_UPPER\", strides = [2, 2]}"),
            "f32[1, 8, 5, 5]");
  EXPECT_EQ(Y("x: f32[1, 3, 9, 9], w: f32[8, 3, 3, 3]", "y = Conv(x, w) {dilations = [2, 2]}"),
            "f32[1, 8, 5, 5]");
  EXPECT_EQ(Y("x: f32[1, 4, 5], w: f32[4, 3, 2]", "y = ConvTranspose(x, w) {strides = [2]}"),
            "f32[1, 3, 10]");
  EXPECT_EQ(
      Y("x: f32[1, 4, h], w: f32[4, 3, 2]", "y = ConvTranspose(x, w) {group = 2, strides = [2]}"),
      "f32[1, 6, 2*h]");
  EXPECT_EQ(Y("x: f32[1, 4, 0], w: f32[4, 4, 1]", "y = Conv(x, w)"), "f32[1, 4, 0]");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 4, 3]", "y = Conv(x, w)", "found 3 channels");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3, 3]", "y = Conv(x, w)", "expected rank 3");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3]", "y = Conv(x, w) {group = 0}", "group");
  ExpectError("x: f32[1, 6, 9], w: f32[8, 2, 3]", "y = Conv(x, w) {group = 3}", "do not divide");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3]", "y = Conv(x, w) {strides = [0]}", "strides");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3]", "y = Conv(x, w) {dilations = [0]}", "dilations");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3]", "y = Conv(x, w) {pads = [1]}", "pads");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3]",
              "y = Conv(x, w) {pads = [9223372036854775807, 1]}", "pads");
  ExpectError("x: f32[1, 3, 2], w: f32[8, 3, 3]", "y = Conv(x, w)", "window reaches over 3");
  ExpectError("x: f32[1, 3, 9], w: f32[8, 3, 3], k: f32[7]", "y = Conv(x, w, k)", "bias");
}

TEST(Infer, PoolsCountWindowsAsFrameworksDo) {
  EXPECT_EQ(Y("x: f32[1, 3, 7, 7]", "y = MaxPool(x) {kernel_shape = [2, 2], strides = [2, 2]}"),
            "f32[1, 3, 3, 3]");
  EXPECT_EQ(Y("x: f32[1, 3, 7, 7]",
              "y = MaxPool(x) {ceil_mode = 1, kernel_shape = [2, 2], strides = [2, 2]}"),
            "f32[1, 3, 4, 4]");
  // the window that would start in the padding behind is left out
  EXPECT_EQ(Y("x: f32[1, 1, 2, 2]",
              "y = MaxPool(x) {ceil_mode = 1, kernel_shape = [1, 1], strides = [2, 2]}"),
            "f32[1, 1, 1, 1]");
  // one window is there as long as its stride reaches back into the input
  EXPECT_EQ(Y("x: f32[1, 1, 5, 1]",
              "y = MaxPool(x) {ceil_mode = 1, kernel_shape = [2, 2], strides = [3, 3]}"),
            "f32[1, 1, 2, 1]");
  ExpectError("x: f32[1, 1, 1]",
              "y = MaxPool(x) {ceil_mode = 1, kernel_shape = [4], strides = [3]}", "window");
  EXPECT_EQ(Y("x: f32[1, 3, h, 7]", "y = GlobalAveragePool(x)"), "f32[1, 3, 1, 1]");
  ExpectError("x: f32[1, 3, 7]", "y = AveragePool(x) {kernel_shape = [8]}", "window");
  ExpectError("x: f32[1, 3]", "y = AveragePool(x) {kernel_shape = [8]}", "rank 3 or more");
}

TEST(Infer, ScalesFitWhatTheyScale) {
  EXPECT_EQ(Y("x: f32[2, 5], s: f32[5]", "y = QuantizeLinear(x, s)"), "u8[2, 5]");
  EXPECT_EQ(Y("x: f32[2, h], s: f32[3]", "y = QuantizeLinear(x, s)"), "u8[2, h]");
  EXPECT_EQ(Y("x: f32[2], s: f32[h]", "y = QuantizeLinear(x, s)"), "u8[2]");
  EXPECT_EQ(Y("x: f32[2, 5], s: f32[2, 3]", "y = QuantizeLinear(x, s) {block_size = 2}"),
            "u8[2, 5]");
  ExpectError("x: f32[2, 5], s: f32[3]", "y = QuantizeLinear(x, s)",
              "input 1 is [3], expected a scalar or [5]: one for each element of axis 1");
  ExpectError("x: i8[2, 5], s: f32[5], z: i8[2]", "y = DequantizeLinear(x, s, z)", "input 2");
  ExpectError("x: f32[2, 5], s: f32[2, 2]", "y = QuantizeLinear(x, s) {block_size = 2}",
              "expected a scalar or [2, 3]: one for each block");
  ExpectError("x: f32[2, 5], s: f32[2]", "y = QuantizeLinear(x, s) {axis = 2}", "axis 2");
}

TEST(Infer, Linear) {
  EXPECT_EQ(Y("x: f32[b, 2, 3], z: f32[3, 4]", "y = MatMul(x, z)"), "f32[b, 2, 4]");
  EXPECT_EQ(Y("x: f32[3], z: f32[3]", "y = MatMul(x, z)"), "f32[]");
  EXPECT_EQ(Y("x: f32[5, 1, 2, 3], z: f32[6, 3, 4]", "y = MatMul(x, z)"), "f32[5, 6, 2, 4]");
  EXPECT_EQ(Y("x: u8[2, 3], z: i8[3, 4]", "y = MatMulInteger(x, z)"), "i32[2, 4]");
  EXPECT_EQ(
      Y("x: f32[3, 2], z: f32[4, 3], k: f32[4]", "y = Gemm(x, z, k) {transA = 1, transB = 1}"),
      "f32[2, 4]");
  EXPECT_EQ(
      Y("x: f32[b, 8, h], z: f32[b, h, 5]", "y = Einsum(x, z) {equation = \"bij, bjk -> bik\"}"),
      "f32[b, 8, 5]");
  EXPECT_EQ(Y("x: f32[2, 3, 4]", "y = Einsum(x) {equation = \"...ij->...ji\"}"), "f32[2, 4, 3]");
  // Sums of bfloat16 that stay float32.
  EXPECT_EQ(Y("x: bf16[2, 3], z: bf16[3, 4]", "y = MatMul(x, z) {out_dtype = 1}"), "f32[2, 4]");
  EXPECT_EQ(Y("x: bf16[2, 3], z: bf16[3, 4], b: f32[4]", "y = Gemm(x, z, b) {out_dtype = 1}"),
            "f32[2, 4]");
  ExpectError("x: f32[2, 3], z: f32[3, 4]", "y = MatMul(x, z) {out_dtype = 1}", "input 0 is f32");
  ExpectError("x: bf16[2, 3], z: bf16[3, 4]", "y = MatMul(x, z) {out_dtype = 10}", "says float32");
  ExpectError("x: bf16[2, 3]", "y = Relu(x) {out_dtype = 1}", "is for products");
  ExpectError("x: f32[2, 3], z: f32[4, 5]", "y = MatMul(x, z)", "inner extents");
  ExpectError("x: f32[2, 3], z: f32[3, 4], k: f32[3]", "y = Gemm(x, z, k)", "input 2");
  ExpectError("x: f32[2, 3]", "y = Einsum(x) {equation = \"ijk->i\"}", "gives it 3 axes");
  ExpectError("x: f32[2, 3]", "y = Einsum(x) {equation = \"ij->ijj\"}", "axis j");
  ExpectError("x: f32[2, 3]", "y = Einsum(x) {equation = \"(((((\"}", "equation");
}

TEST(Infer, Reshapes) {
  EXPECT_EQ(Y("x: f32[b, 3, 4]", "s: i64[2] = const(0, -1)\ny = Reshape(x, s)"), "f32[b, 12]");
  EXPECT_EQ(Y("x: f32[b, 3, 4]", "s: i64[2] = const(-1, 6)\ny = Reshape(x, s)"), "f32[2*b, 6]");
  EXPECT_EQ(Y("x: f32[b, h, 4]", "s: i64[2] = const(-1, 4)\ny = Reshape(x, s)"), "f32[b*h, 4]");
  EXPECT_EQ(Y("x: f32[0, 3]", "s: i64[2] = const(3, 0)\ny = Reshape(x, s) {allowzero = 1}"),
            "f32[3, 0]");
  EXPECT_EQ(Y("x: f32[2, b, 3]", "y = Flatten(x) {axis = 2}"), "f32[2*b, 3]");
  EXPECT_EQ(Y("x: f32[2, 1, b]", "a: i64[1] = const(1)\ny = Squeeze(x, a)"), "f32[2, b]");
  EXPECT_EQ(Y("x: f32[2]", "a: i64[2] = const(0, -1)\ny = Unsqueeze(x, a)"), "f32[1, 2, 1]");
  EXPECT_EQ(Y("x: f32[2, 3, 4]", "y = Transpose(x) {perm = [1, 2, 0]}"), "f32[3, 4, 2]");
  EXPECT_EQ(Y("x: f32[3, 1]", "s: i64[3] = const(2, 1, 6)\ny = Expand(x, s)"), "f32[2, 3, 6]");
  EXPECT_EQ(Y("x: f32", "s: i64[3] = const(0, -1, 3)\ny = Reshape(x, s)"),
            "f32[reshaped, reshaped_1, 3]");
  ExpectError("x: f32[2, 3]", "s: i64[2] = const(-1, -1)\ny = Reshape(x, s)", "-1 twice");
  ExpectError("x: f32[2, 3]", "s: i64[2] = const(-1, 4)\ny = Reshape(x, s)", "do not divide");
  ExpectError("x: f32[2, 3]", "s: i64[2] = const(2, 2)\ny = Reshape(x, s)", "found 6 and 4");
  ExpectError("x: f32[2, 3]", "s: i64[3] = const(2, 3, 0)\ny = Reshape(x, s)", "0 at axis 2");
  ExpectError("x: f32[2, 3]", "s: i64[1] = const(-2)\ny = Reshape(x, s)", "would be -2");
  ExpectError("x: f32[2, 3]", "y = Transpose(x) {perm = [0, 0]}", "twice");
  ExpectError("x: f32[2, 3]", "a: i64[1] = const(0)\ny = Squeeze(x, a)", "expected 1");
  ExpectError("x: f32[2, 3]", "a: i64[1] = const(5)\ny = Unsqueeze(x, a)", "found axis 5");
}

TEST(Infer, ShapeArithmeticKeepsSymbols) {
  EXPECT_EQ(Y("x: f32[b, h, 12]",
              "zero: i64[] = const(0)\none: i64[] = const(1)\na: i64[1] = const(0)\ntail: i64[2] = "
              "const(3, 4)\n"
              "s = Shape(x)\np = Gather(s, zero)\nq = Gather(s, one)\nu = Unsqueeze(p, a)\nv = "
              "Unsqueeze(q, a)\n"
              "c = Concat(u, v, tail) {axis = 0}\ny = Reshape(x, c)"),
            "f32[b, h, 3, 4]");
  EXPECT_EQ(Y("x: f32[b, 3, h, w]",
              "two: i64[1] = const(2)\nst: i64[1] = const(2)\nen: i64[1] = const(4)\ns = "
              "Shape(x)\nhw = Slice(s, st, en)\n"
              "d = Mul(hw, two)\ns0: i64[1] = const(0)\ns2: i64[1] = const(2)\nnc = Slice(s, s0, "
              "s2)\nsz = Concat(nc, d) {axis = 0}\n"
              "y = Resize(x, _, _, sz)"),
            "f32[b, 3, 2*h, 2*w]");
  EXPECT_EQ(Y("x: f32[b, h]",
              "s = Shape(x) {start = 1}\nz: i64[] = const(0)\no: i64[] = const(1)\nn = "
              "Squeeze(s)\ny = Range(z, n, o)"),
            "i64[h]");
  EXPECT_EQ(Y("x: f32[b, h]", "n = Shape(x)\ny = ConstantOfShape(n) {value = i64[1] const(1)}"),
            "i64[b, h]");
  const std::string less = "z: i64[] = const(0)\no: i64[] = const(1)\nn = Size(x)\nm = Sub(n, o)\n";
  EXPECT_EQ(Y("x: f32[h]", less + "y = Range(z, m, o)"), "i64[range(h - 1, 1)]");
  EXPECT_EQ(Y("x: f32[h]", less + "y = Range(m, n, o)"), "i64[1]");
  EXPECT_EQ(Y("x: f32[h]", less + "y = Range(n, m, o)"), "i64[0]");
  EXPECT_EQ(Y("x: f32[h]", less + "l: i64[] = const(-9223372036854775808)\ny = Range(l, n, o)"),
            "i64[range]");
  EXPECT_EQ(
      Y("x: f32[h]", less + "t: i64[] = const(3)\nr = Mod(m, t) {fmod = 1}\ny = Range(z, r, o)"),
      "i64[range]");
  // Div rounds towards zero, a formula down.
  const std::string half =
      "two: i64[1] = const(2)\nfive: i64[1] = const(5)\nzero: i64[1] = const(0)\nn = Shape(x)\n"
      "q = Div(n, two)\nd = Sub(n, five)\nr = Div(d, two)\n";
  EXPECT_EQ(Y("x: f32[h]", half + "p = Concat(zero, q) {axis = 0}\ny = Pad(x, p)"),
            "f32[h + floor(h/2)]");
  EXPECT_EQ(Y("x: f32[h]", half + "p = Concat(zero, r) {axis = 0}\ny = Pad(x, p)"), "f32[padded]");
}

// Numbers of a file may have any size; what leaves int64 is not known.
TEST(Infer, ShapeArithmeticOfGreatNumbers) {
  const std::string great =
      "least: i64[1] = const(-9223372036854775807)\nmost: i64[1] = const(9223372036854775807)\n"
      "half: i64[1] = const(4971973988617027586)\n";
  for (const char* node :
       {"Mod(least, half)", "Sub(most, least)", "Mul(half, half)", "Less(most, least)",
        "Max(least, most)", "Mod(n, half)", "Sub(n, least)"})
    EXPECT_EQ(Y("x: f32[b]", great + "n = Shape(x)\ny = " + node).substr(1),
              node[0] == 'L' ? "ool[1]" : "64[1]")
        << node;
}

// An element is what its type makes of it: a product of f32 is rounded before it is cut to an
// integer, and a sum that wraps is no extent.
TEST(Infer, ShapeArithmeticIsOfItsType) {
  const auto filled = [](const std::string& text) {
    return Y("x: f32[b]", text + "y = ConstantOfShape(s)");
  };
  EXPECT_EQ(filled("a: f32[1] = const(10)\nb: f32[1] = const(0.7)\np = Mul(a, b)\nf = Floor(p)\n"
                   "s = Cast(f) {to = 7}\n"),
            "f32[7]");
  EXPECT_EQ(filled("a: f16[1] = const(2048)\nb: f16[1] = const(1)\np = Add(a, b)\n"
                   "s = Cast(p) {to = 7}\n"),
            "f32[2048]");
  EXPECT_EQ(filled("a: f32[1] = const(2)\np = Sqrt(a)\nq = Mul(p, p)\nr = Sub(a, q)\n"
                   "t: f32[1] = const(16777216)\nu = Mul(r, t)\ns = Cast(u) {to = 7}\n"),
            "f32[2]");
  // By fmod the sign is that of the dividend.
  const std::string seven = "a: i64[1] = const(-7)\nb: i64[1] = const(3)\nc: i64[1] = const(5)\n";
  EXPECT_EQ(filled(seven + "p = Mod(a, b)\ns = Add(p, c)\n"), "f32[7]");
  EXPECT_EQ(filled(seven + "p = Mod(a, b) {fmod = 1}\ns = Add(p, c)\n"), "f32[4]");
  const std::string wrapped = filled(
      "a: i32[1] = const(2147483647)\nb: i32[1] = const(4)\np = Add(a, b)\n"
      "q = Add(p, a)\ns = Cast(q) {to = 7}\n");
  EXPECT_EQ(wrapped.find("429496"), std::string::npos) << wrapped;
}

TEST(Infer, BranchesOfEqualSizeAdd) {
  const std::string x = "x: f32[b, 4, h, w], w: f32[4, 4, 3, 3], v: f32[4, 4, 1, 1]";
  EXPECT_EQ(Y(x,
              "c = Conv(x, w) {pads = [1, 1, 1, 1], strides = [2, 2]}\nd = Conv(x, v) {strides = "
              "[2, 2]}\ny = Add(c, d)"),
            "f32[b, 4, floor((h + 1)/2), floor((w + 1)/2)]");
}

TEST(Infer, SlicesAndJoins) {
  const std::string ints =
      "s: i64[1] = const(1)\ne: i64[1] = const(9223372036854775807)\na: i64[1] = const(1)\nm: "
      "i64[1] = const(-1)\nt: i64[1] = const(2)\n";
  EXPECT_EQ(Y("x: f32[2, 7]", ints + "y = Slice(x, s, e, a)"), "f32[2, 6]");
  EXPECT_EQ(Y("x: f32[2, 7]", ints + "y = Slice(x, s, e, a, t)"), "f32[2, 3]");
  EXPECT_EQ(Y("x: f32[2, 7]",
              "s: i64[1] = const(-1)\ne: i64[1] = const(-9223372036854775808)\na: i64[1] = "
              "const(1)\nt: i64[1] = const(-1)\ny = Slice(x, s, e, a, t)"),
            "f32[2, 7]");
  EXPECT_EQ(Y("x: f32[2, 7]",  // a start is where an element is
              "s: i64[1] = const(-9)\ne: i64[1] = const(-9223372036854775808)\na: i64[1] = "
              "const(1)\nt: i64[1] = const(-1)\ny = Slice(x, s, e, a, t)"),
            "f32[2, 1]");
  EXPECT_EQ(Y("x: f32[2, 3], z: f32[b, 3]", "y = Concat(x, z) {axis = 0}"), "f32[b + 2, 3]");
  EXPECT_EQ(Y("x: f32[7]", "a, y = Split(x) {num_outputs = 2}"), "f32[3]");
  EXPECT_EQ(Y("x: f32[7]", "s: i64[2] = const(2, 5)\na, y = Split(x, s)"), "f32[5]");
  EXPECT_EQ(Y("x: f32[2, 3]", "p: i64[4] = const(0, 1, 2, -1)\ny = Pad(x, p)"), "f32[4, 3]");
  EXPECT_EQ(Y("x: f32[2, h]", "p: i64[2] = const(3, 2)\ny = Tile(x, p)"), "f32[6, 2*h]");
  ExpectError("x: f32[2, 7]", "s: i64[1] = const(0)\ny = Slice(x, s, s, s, s)", "step is 0");
  ExpectError("x: f32[7]", "s: i64[2] = const(2, 4)\na, y = Split(x, s)", "sum to 6");
  ExpectError("x: f32[7]", "s: i64[2] = const(-2, 9)\na, y = Split(x, s)", "would be -2");
  ExpectError("x: f32[2, 3], z: f32[2, 4]", "y = Concat(x, z) {axis = 0}", "found 3 and 4");
  ExpectError("x: f32[2]", "p: i64[2] = const(-3, 0)\ny = Pad(x, p)", "would be -1");
  ExpectError("x: f32[2]", "p: i64[3] = const(1, 0, 0)\ny = Pad(x, p)", "found 3 pads");
}

TEST(Infer, ResizeModes) {
  const std::string scales = "s: f32[2] = const(1, 2)\n";
  EXPECT_EQ(Y("x: f32[2, 3]", scales + "y = Resize(x, _, s) {mode = \"linear\"}"), "f32[2, 6]");
  for (const char* word : {"mode", "coordinate_transformation_mode", "nearest_mode"})
    ExpectError("x: f32[2, 3]",
                scales + fmt::format("y = Resize(x, _, s) {{{} = \"bogus\"}}", word), word);
}

TEST(Infer, WordsThatAreNone) {
  for (const char* node :
       {"DepthToSpace(x) {blocksize = 2, mode = \"bogus\"}", "Gelu(x) {approximate = \"bogus\"}",
        "Cast(x) {round_mode = \"bogus\", to = 1}"})
    ExpectError("x: f32[1, 4, 2, 2]", fmt::format("y = {}", node), "bogus");
  ExpectError("x: u8[4]", "y = BitShift(x, x) {direction = \"bogus\"}", "bogus");
}

TEST(Infer, NormsThatThereAreNone) {
  const std::string norm = "y = LpNormalization(x) {p = ";
  for (const char* p : {"0}", "3}", "-1}"})
    ExpectError("x: f32[b, 5]", norm + p, "expected 1 or 2");
  EXPECT_EQ(Y("x: f32[b, 5]", norm + "1}"), "f32[b, 5]");
}

// A bound that lies outside of the axis for some extent is clamped there: no formula says how.
TEST(Infer, SlicesOfSymbols) {
  const std::string ints =
      "zero: i64[1] = const(0)\none: i64[1] = const(1)\ntwo: i64[1] = const(2)\n"
      "back: i64[1] = const(-1)\nall: i64[1] = const(9223372036854775807)\n"
      "pads: i64[2] = const(1, 2)\nl = Pad(x, pads)\n";
  const auto of = [&](const std::string& lines) { return Y("x: f32[h]", ints + lines); };
  EXPECT_EQ(of("y = Slice(x, zero, all)"), "f32[h]");
  EXPECT_EQ(of("y = Slice(x, zero, all, _, two)"), "f32[floor((h + 1)/2)]");
  EXPECT_EQ(of("y = Slice(x, zero, one)"), "f32[slice(h, 0, 1, 1)]");
  EXPECT_EQ(of("y = Slice(x, back, all)"), "f32[slice(h, -1, 9223372036854775807, 1)]");
  EXPECT_EQ(of("y = Slice(x, one, back)"), "f32[slice(h, 1, -1, 1)]");
  EXPECT_EQ(of("y = Slice(x, all, zero)"), "f32[0]");
  // l has h + 3.
  EXPECT_EQ(of("y = Slice(l, zero, two)"), "f32[2]");
  EXPECT_EQ(of("y = Slice(l, back, all)"), "f32[1]");
  EXPECT_EQ(of("y = Slice(l, one, back)"), "f32[h + 1]");
  EXPECT_EQ(of("y = Slice(l, two, back)"), "f32[h]");
  EXPECT_EQ(of("f: i64[1] = const(4)\ny = Slice(l, zero, f)"), "f32[slice(h + 3, 0, 4, 1)]");
  EXPECT_EQ(of("f: i64[1] = const(3)\ny = Slice(l, f, back)"), "f32[slice(h + 3, 3, -1, 1)]");
  EXPECT_EQ(of("n = Shape(l)\ne = Sub(n, one)\ny = Slice(l, zero, e)"), "f32[h + 2]");
  EXPECT_EQ(of("n = Shape(x)\ny = Slice(l, n, all)"), "f32[3]");
  EXPECT_EQ(of("n = Shape(x)\ne = Sub(n, one)\ny = Slice(x, zero, e)"),
            "f32[slice(h, 0, h - 1, 1)]");
}

TEST(Infer, ReductionsAndSelections) {
  EXPECT_EQ(Y("x: f32[2, b, 4]", "a: i64[2] = const(0, -1)\ny = ReduceSum(x, a) {keepdims = 0}"),
            "f32[b]");
  EXPECT_EQ(Y("x: f32[2, b, 4]", "y = ReduceMean(x)"), "f32[1, 1, 1]");
  EXPECT_EQ(Y("x: f32[2, 5], a: i64[1]", "y = ReduceMax(x, a) {keepdims = 0}"), "f32[reduced]");
  EXPECT_EQ(Y("x: f32[2, 5]", "y = ArgMax(x) {axis = 1, keepdims = 0}"), "i64[2]");
  EXPECT_EQ(Y("x: f32[2, 5]", "k: i64[1] = const(3)\nv, y = TopK(x, k)"), "i64[2, 3]");
  EXPECT_EQ(Y("x: f32[5, b]", "i: i64[2, 2] = const(0, 1, -1, 4)\ny = Gather(x, i) {axis = 0}"),
            "f32[2, 2, b]");
  EXPECT_EQ(Y("x: f32[2, 3]", "y = NonZero(x)"), "i64[2, nonzero]");
  EXPECT_EQ(Y("x: i64[2]", "d: i64[] = const(4)\nv: f32[2] = const(0, 1)\ny = OneHot(x, d, v)"),
            "f32[2, 4]");
  EXPECT_EQ(Y("x: f32[2, 3, 4], i: i64[5, 2]", "y = GatherND(x, i)"), "f32[5, 4]");
  ExpectError("x: f32[2]", "a: i64[1] = const(1)\ny = ReduceSum(x, a)", "found axis 1");
  ExpectError("x: f32[2, 5]", "k: i64[1] = const(6)\nv, y = TopK(x, k)", "k is 6");
  ExpectError("x: f32[5]", "i: i64[1] = const(-9223372036854775808)\ny = Gather(x, i)",
              "found index");
  ExpectError("x: f32[2, 3], i: i64[2]", "y = GatherElements(x, i)", "expected rank 2");
}

TEST(Infer, TooLarge) {
  ExpectError(
      "x: i64[0]",
      "s: i64[3] = const(4611686018427387904, 4611686018427387904, 4)\ny = ConstantOfShape(s)",
      "too large");
  EXPECT_EQ(Y("x: i64[0]", "s: i64[1] = const(1099511627776)\ny = ConstantOfShape(s)"),
            "f32[1099511627776]");
  ExpectError("x: f32[1, 1, 4, 4]", "r: f32[4] = const(1, 1, 1e18, 1e18)\ny = Resize(x, _, r)",
              "too large");
  EXPECT_EQ(Y("x: f32[b]", "t: i64[1] = const(9223372036854775807)\na = Tile(x, t)\ny = Relu(a)")
                .substr(0, 3),
            "f32");
}

TEST(Infer, Recurrent) {
  EXPECT_EQ(Y("x: f32[h, b, 3], w: f32[2, 20, 3], r: f32[2, 20, 5]",
              "y = LSTM(x, w, r) {direction = \"bidirectional\", hidden_size = 5}"),
            "f32[h, 2, b, 5]");
  EXPECT_EQ(Y("x: f32[7, 2, 3], w: f32[1, 15, 3], r: f32[1, 15, 5]",
              "_, y = GRU(x, w, r) {hidden_size = 5}"),
            "f32[1, 2, 5]");
  ExpectError("x: f32[7, 2, 3], w: f32[1, 15, 4], r: f32[1, 15, 5]",
              "y = GRU(x, w, r) {hidden_size = 5}", "input size");
  ExpectError("x: f32[7, 2], w: f32[1, 15, 4], r: f32[1, 15, 5]",
              "y = GRU(x, w, r) {hidden_size = 5}", "expected rank 3");
}

TEST(Infer, Attention) {
  const std::string qkv = "q: f32[b, 4, h, 8], k: f32[b, 2, w, 8], v: f32[b, 2, w, 6]";
  EXPECT_EQ(Y(qkv, "y = Attention(q, k, v)"), "f32[b, 4, h, 6]");
  EXPECT_EQ(Y(qkv + ", p: f32[b, 2, 5, 8], r: f32[b, 2, 5, 6]",
              "_, _, _, y = Attention(q, k, v, _, p, r)"),
            "f32[b, 4, h, w + 5]");
  const std::string packed = "q: f32[b, h, 32], k: f32[b, w, 16], v: f32[b, w, 12]";
  EXPECT_EQ(Y(packed, "y = Attention(q, k, v) {kv_num_heads = 2, q_num_heads = 4}"),
            "f32[b, h, 24]");
  ExpectError(packed, "y = Attention(q, k, v)", "q_num_heads");
  ExpectError(packed, "y = Attention(q, k, v) {kv_num_heads = 3, q_num_heads = 4}", "divide");
  ExpectError(qkv, "y = Attention(q, k, v) {left_window_size = -2}", "left_window_size");
  ExpectError(qkv, "y = Attention(q, k, v) {qk_matmul_output_mode = 4}", "expected 0 to 3");
  ExpectError(qkv + ", p: f32[b, 2, 5, 8]", "y = Attention(q, k, v, _, p)", "come together");
  ExpectError(qkv + ", c: f32[3, h, w]", "y = Attention(q, k, v, c)", "the mask");
  ExpectError(qkv + ", c: i64[3, 1]", "y = Attention(q, k, v, _, _, _, c)", "expected rank 1");
  ExpectError("q: f32[1, 3, 2, 8], k: f32[1, 2, 2, 8], v: f32[1, 2, 2, 8]",
              "y = Attention(q, k, v)", "3 heads of queries");
}

TEST(Infer, Samples) {
  const std::string x = "x: f32[b, 3, h, w], ";
  EXPECT_EQ(Y(x + "g: f32[b, 5, 6, 2]", "y = GridSample(x, g)"), "f32[b, 3, 5, 6]");
  ExpectError(x + "g: f32[b, 5, 6, 3]", "y = GridSample(x, g)", "the grid's last axis");
  ExpectError(x + "g: f32[b, 5, 6, 2]", "y = GridSample(x, g) {mode = \"best\"}", "nearest");
  ExpectError(x + "r: f32[b, 4], i: i64[b]", "y = RoiAlign(x, r, i) {sampling_ratio = -1}",
              "sampling_ratio");
  ExpectError(x + "r: f32[b, 5], i: i64[b]", "y = RoiAlign(x, r, i)", "numbers of a region");
  EXPECT_EQ(
      Y("x: f32[b, 4, 5, 5], f: f32[6, 4, 2, 2], o: f32[b, 8, 4, 4]", "y = DeformConv(x, f, o)"),
      "f32[b, 6, 4, 4]");
  ExpectError("x: f32[b, 4, 5, 5], f: f32[6, 4, 2, 2], o: f32[b, 9, 4, 4]",
              "y = DeformConv(x, f, o)", "axis 1 of input 2");
  ExpectError("x: f32[b, 4, 5, 5], f: f32[6, 4, 2, 2], o: f32[b, 24, 4, 4]",
              "y = DeformConv(x, f, o) {offset_group = 3}", "groups of offsets");
  const std::string block = "i: i64[2] = const(5, 5)\nk: i64[2] = const(2, 2)\n";
  EXPECT_EQ(Y("x: f32[b, 12, 16]", block + "y = Col2Im(x, i, k)"), "f32[b, 3, 5, 5]");
  ExpectError("x: f32[b, 12, 15]", block + "y = Col2Im(x, i, k)", "the blocks that");
  ExpectError("x: f32[b, 13, 16]", block + "y = Col2Im(x, i, k)", "13 channels");
  EXPECT_EQ(Y("x: f32[b, 3, h, 4], i: i64[b, 3, h, 4]",
              "y = MaxUnpool(x, i) {kernel_shape = [2, 2], strides = [2, 2]}"),
            "f32[b, 3, 2*h, 8]");
  ExpectError("x: f32[1, 1, 2, 2], i: i64[1, 1, 2, 2]",
              "s: i64[4] = const(1, 1, 2, 9)\ny = MaxUnpool(x, i, s) {kernel_shape = [2, 2]}",
              "expected 3 or more");
  EXPECT_EQ(Y("x: f32[b, 7]", "s: i64[1] = const(4)\ny = CenterCropPad(x, s) {axes = [-1]}"),
            "f32[b, 4]");
  ExpectError("x: f32[b, 7]", "s: i64[1] = const(4)\ny = CenterCropPad(x, s)", "1 extents for 2");
}

TEST(Infer, SignalsAndLosses) {
  EXPECT_EQ(Y("x: f32[b, h, 1]", "y = DFT(x) {onesided = 1}"), "f32[b, floor(h/2) + 1, 2]");
  EXPECT_EQ(Y("x: f32[b, h, 2]", "y = DFT(x) {inverse = 1, onesided = 1}"), "f32[b, 2*h - 2, 1]");
  ExpectError("x: f32[b, h, 2]", "y = DFT(x) {onesided = 1}", "has 2 parts");
  ExpectError("x: f32[b, h, 3]", "y = DFT(x)", "expected 1 (real) or 2 (complex)");
  ExpectError("x: f32[b, h, 2]", "n: i64[] = const(0)\ny = DFT(x, n)", "input 1 is 0");
  ExpectError("x: f32[b, h, 2]", "a: i64[] = const(2)\ny = DFT(x, _, a)", "that of the parts");
  EXPECT_EQ(Y("x: f32[b, 20, 1], v: f32[8]", "s: i64[] = const(3)\ny = STFT(x, s, v)"),
            "f32[b, 5, 5, 2]");
  EXPECT_EQ(Y("x: f32[b, 20], v: f32[8]", "s: i64[] = const(3)\ny = STFT(x, s, v)"),
            "f32[b, 5, 5, 2]");
  ExpectError("x: f32[20], v: f32[8]", "s: i64[] = const(3)\ny = STFT(x, s, v)", "expected rank 3");
  ExpectError("x: f32[b, 20, 1], v: f32[21]", "s: i64[] = const(3)\ny = STFT(x, s, v)", "longer");
  EXPECT_EQ(Y("x: f32[b, 5, h], t: i64[b, h]",
              "y = NegativeLogLikelihoodLoss(x, t) {reduction = \"none\"}"),
            "f32[b, h]");
  EXPECT_EQ(Y("x: f32[b, 5], t: i64[b]", "_, y = SoftmaxCrossEntropyLoss(x, t)"), "f32[b, 5]");
  ExpectError("x: f32[b, 5], t: i64[b], v: f32[4]", "y = SoftmaxCrossEntropyLoss(x, t, v)",
              "the weights");
}

TEST(Infer, Sequences) {
  const std::string x = "x: f32[b, 3, h, 6], c: f32[99, 3], s: f32[99, 3], i: i64[b, h]";
  EXPECT_EQ(Y(x, "y = RotaryEmbedding(x, c, s, i)"), "f32[b, 3, h, 6]");
  ExpectError(x, "y = RotaryEmbedding(x, c, s)", "expected rank 3");
  ExpectError(x, "y = RotaryEmbedding(x, c, s, i) {rotary_embedding_dim = 4}", "the angles");
  ExpectError(x, "y = RotaryEmbedding(x, c, s, i) {rotary_embedding_dim = 8}", "up to 6");
  const std::string cache = "x: f32[b, 9, 4], u: f32[b, 3, 4], i: i64[b]";
  EXPECT_EQ(Y(cache, "y = TensorScatter(x, u, i)"), "f32[b, 9, 4]");
  ExpectError(cache, "y = TensorScatter(x, u, i) {axis = 0}", "is the batch");
  ExpectError(cache, "y = TensorScatter(u, x, i)", "9 steps do not fit a cache of 3");
  ExpectError(cache, "y = TensorScatter(x, u, i) {mode = \"square\"}", "linear, circular");
  const std::string conv = "x: f32[b, 3, h], f: f32[3, 1, 4]";
  EXPECT_EQ(Y(conv, "_, y = CausalConvWithState(x, f)"), "f32[b, 3, 3]");
  ExpectError(conv, "y, _ = CausalConvWithState(x, f) {activation = \"relu\"}",
              "none, silu, swish");
  ExpectError("x: f32[b, 3, h], f: f32[3, 1, 0]", "y, _ = CausalConvWithState(x, f)",
              "would be -1");
  const std::string qkv = "q: f32[b, h, 12], k: f32[b, h, 6], v: f32[b, h, 10]";
  const std::string heads = "kv_num_heads = 2, q_num_heads = 4, update_rule = ";
  EXPECT_EQ(Y(qkv, "y, _ = LinearAttention(q, k, v) {" + heads + "\"linear\"}"), "f32[b, h, 20]");
  EXPECT_EQ(Y(qkv, "_, y = LinearAttention(q, k, v) {" + heads + "\"linear\"}"), "f32[b, 2, 3, 5]");
  ExpectError(qkv, "y, _ = LinearAttention(q, k, v) {" + heads + "\"gated\"}", "needs a decay");
  ExpectError(qkv,
              "y, _ = LinearAttention(q, k, v) {kv_num_heads = 0, q_num_heads = 4, update_rule = "
              "\"linear\"}",
              "1 or more");
}

TEST(Infer, ControlFlow) {
  EXPECT_EQ(
      Y("c: bool[], x: f32[2, 3]",
        "y = If(c) {else_branch = graph1, then_branch = graph2}\nsubgraph graph1 e () -> (p) "
        "{\ncaptured x\np = Relu(x)\n}\n"
        "subgraph graph2 t () -> (q) {\ncaptured x\ns: i64[2] = const(2, 3)\nq = Reshape(x, s)\n}"),
      "f32[2, 3]");
  EXPECT_EQ(Y("n: i64[], x: f32[2, 3]",
              "z, y = Loop(n, _, x) {body = graph1}\nsubgraph graph1 body (i: i64[], c: bool[], v: "
              "f32) -> (d, o, p) {\n"
              "d = Identity(c)\no = Relu(v)\na: i64[1] = const(0)\np = ReduceSum(v, a)\n}"),
            "f32[trips, 1, 3]");
  EXPECT_EQ(Y("n: i64[], x: f32[1, 3]",  // grows by a row each time
              "y = Loop(n, _, x) {body = graph1}\nsubgraph graph1 body (i: i64[], c: bool[], v: "
              "f32) -> (d, o) {\n"
              "captured x\nd = Identity(c)\no = Concat(v, x) {axis = 0}\n}")
                .substr(0, 3),
            "f32");
  EXPECT_EQ(Y("s: f32[4], x: f32[b, 4]",
              "z, y = Scan(s, x) {body = graph1, num_scan_inputs = 1}\nsubgraph graph1 body (a: "
              "f32, v: f32) -> (o, p) {\n"
              "o = Add(a, v)\np = Neg(o)\n}"),
            "f32[b, 4]");
  const std::string_view grows =
      "z, y = Scan(s, x) {body = graph1, num_scan_inputs = 1}\n"
      "subgraph graph1 body (a: f32, v: f32) -> (o, p) {\no = Add(a, v)\np = Neg(o)\n}";
  ExpectError("s: f32[1], x: f32[3, 4]", std::string(grows), "the body makes [4] of it");
}

TEST(Bind, Ranges) {
  Graph g = Parsed("graph g (x: f32[b, 3], z: f32[b]) -> (y) {\nsymbol b in 2:64\ny = Relu(x)\n}");
  EXPECT_FALSE(BindRange(g, "q", 0, {1, 2}).ok());
  EXPECT_FALSE(BindRange(g, "x", 2, {1, 2}).ok());
  EXPECT_FALSE(BindRange(g, "x", 1, {4, 5}).ok());
  EXPECT_FALSE(BindRange(g, "x", 0, {65, 70}).ok());
  ASSERT_TRUE(BindRange(g, "x", 1, {1, 3}).ok());
  ASSERT_TRUE(BindRange(g, "x", 0, {1, 8}).ok());
  EXPECT_EQ(g.symbols[0].min, 2);
  EXPECT_EQ(g.symbols[0].max, 8);
  EXPECT_FALSE(BindShape(g, "z", std::vector<int64_t>{9}).ok());
  EXPECT_TRUE(BindShape(g, "z", std::vector<int64_t>{8}).ok());
}

TEST(Bind, ShapesAndSymbols) {
  Graph g = Parsed(
      "graph g (x: f32[b, 3, h], z: f32[b]) -> (y) {\nsymbol b in 1:64\nsymbol h\ny = Relu(x)\n}");
  EXPECT_EQ(FreeSymbols(g), (std::vector<std::string>{"b", "h"}));
  EXPECT_FALSE(BindShape(g, "q", std::vector<int64_t>{1}).ok());
  EXPECT_FALSE(BindShape(g, "x", std::vector<int64_t>{1, 3}).ok());
  EXPECT_FALSE(BindShape(g, "x", std::vector<int64_t>{1, 4, 5}).ok());
  EXPECT_FALSE(BindSymbol(g, "b", 65).ok());
  EXPECT_FALSE(BindSymbol(g, "q", 1).ok());
  ASSERT_TRUE(BindShape(g, "x", std::vector<int64_t>{8, -1, -1}).ok());
  EXPECT_EQ(TypeOf(g, "z"), "f32[8]");
  EXPECT_EQ(FreeSymbols(g), (std::vector<std::string>{"h"}));
  ASSERT_TRUE(BindSymbol(g, "h", 5).ok());
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[8, 3, 5]");
  EXPECT_TRUE(g.symbols.empty());
}

TEST(Infer, AgainFromScratch) {
  Graph g = Parsed(
      "graph g (x: f32[b, 4]) -> (y) {\nsymbol b\ny: f32[7, 7] = Concat(x, x) {axis = 0}\n}");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2*b, 4]");  // what was declared is not trusted
  EXPECT_EQ(g.symbols.size(), 2u);
}

// Names of the inputs that decide extents, in their order.
std::string ShapeInputsOf(const std::string& inputs, const std::string& body) {
  const Graph g = Parsed("graph g (" + inputs + ") -> (y) {\n" + body + "\n}");
  const auto ids = ShapeInputs(g);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  std::string names;
  if (ids.ok())
    for (ValueId id : *ids) names += g[id].name + " ";
  return names;
}

TEST(Infer, BodiesThatMayNeverRun) {
  // Wrong for these shapes: an error where it runs, the run's to say where that is not known.
  const std::string body =
      "subgraph graph1 body (i: i64[], c: bool[], v: f32) -> (d, o) {\n"
      "captured x\nd = Identity(c)\ns: i64[1] = const(7)\no = Reshape(x, s)\n}";
  const std::string loop = "y = Loop(n, _, x) {body = graph1}\n" + body;
  EXPECT_EQ(Y("n: i64[], x: f32[2, 3]", loop).substr(0, 3), "f32");
  EXPECT_EQ(Y("x: f32[2, 3]", "n: i64[] = const(0)\n" + loop), "f32[2, 3]");
  ExpectError("x: f32[2, 3]", "n: i64[] = const(1)\n" + loop, "in its body");
  const std::string branches =
      "y = If(c) {else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 e () -> (p) {\ncaptured x\ns: i64[1] = const(7)\np = Reshape(x, s)\n}\n"
      "subgraph graph2 t () -> (q) {\ncaptured x\nq = Neg(x)\n}";
  EXPECT_EQ(Y("c: bool[], x: f32[2, 3]", branches), "f32");
  EXPECT_EQ(Y("x: f32[2, 3]", "c: bool[] = const(1)\n" + branches), "f32[2, 3]");
  ExpectError("x: f32[2, 3]", "c: bool[] = const(0)\n" + branches, "in its else_branch");
  const std::string scan =
      "_, y = Scan(z, x) {body = graph1, num_scan_inputs = 1}\n"
      "subgraph graph1 body (v: f32, w: f32) -> (a, o) {\na = Identity(v)\no = Add(v, w)\n}";
  EXPECT_EQ(Y("z: f32[4], x: f32[0, 3]", scan), "f32");
  ExpectError("z: f32[4], x: f32[1, 3]", scan, "in its body");
  // Wrong for all shapes.
  ExpectError("n: i64[], x: f32[2, 3]",
              "y = Loop(n, _, x) {body = graph1}\n"
              "subgraph graph1 body (i: i64[], c: bool[], v: f32) -> (d, o) {\n"
              "d = Identity(c)\ns: i64[1] = const(-2)\no = Reshape(v, s)\n}",
              "in its body");
}

TEST(Infer, InputsThatDecideExtents) {
  EXPECT_EQ(ShapeInputsOf("x: f32[6], s: i64[2]", "y = Reshape(x, s)"), "s ");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], s: i64[2]", "n = Neg(s)\nm = Neg(n)\ny = Reshape(x, m)"),
            "s ");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], z: f32[2, 3]", "s = Shape(z)\ny = Reshape(x, s)"), "");
  EXPECT_EQ(ShapeInputsOf("x: f32[2, 3], s: i64[2]", "y = Expand(x, s)"), "s ");  // may not fit
  EXPECT_EQ(ShapeInputsOf("x: f32[6], i: i64[2]", "y = Gather(x, i)"), "");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], n: f32[]",
                          "a: f32[] = const(0.0)\nb: f32[] = const(1.0)\n"
                          "y = Range(a, n, b)"),
            "n ");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], c: bool[6]", "y = Compress(x, c)"), "c ");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], n: bool[], s: i64[1]",
                          "y = If(n) {else_branch = graph1, then_branch = graph2}\n"
                          "subgraph graph1 no () -> (e) {\ncaptured x\ne = Neg(x)\n}\n"
                          "subgraph graph2 yes () -> (t) {\ncaptured x\ncaptured s\n"
                          "t = Reshape(x, s)\n}"),
            "n s ");
  EXPECT_EQ(ShapeInputsOf("x: f32[6], s: i64[2000]", "y = Expand(x, s)"), "");  // too many
}

TEST(Infer, BindsValues) {
  Graph g = Parsed("graph g (x: f32[6], s: i64[2]) -> (y) {\ny = Reshape(x, s)\n}");
  EXPECT_FALSE(BindValue(g, "q", TensorOfInts(std::vector<int64_t>{2, 3})).ok());
  EXPECT_FALSE(BindValue(g, "s", TensorOfInts(std::vector<int64_t>{2})).ok());
  EXPECT_FALSE(BindValue(g, "s", Tensor(Dtype::kI32, {2})).ok());
  ASSERT_TRUE(BindValue(g, "s", TensorOfInts(std::vector<int64_t>{2, 3})).ok());
  ASSERT_TRUE(Verify(g).ok());
  EXPECT_EQ(g.inputs.size(), 1U);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
}

}  // namespace
}  // namespace weft::graph
