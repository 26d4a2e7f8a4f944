// The rewrites that only move and drop: constants, no-ops, duplicates, transposes, reshapes, If.

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "graph/infer.h"
#include "graph/testing.h"
#include "graph/widen.h"

namespace weft::graph {
namespace {

using namespace testing;

TEST(FoldConstants, ShapeArithmetic) {
  const Graph g = Simplified(
      "graph g (x: f32[2, 3, 4]) -> (y) {\ni: i64[] = const(0)\nm: i64[1] = const(-1)\naxes: "
      "i64[1] = const(0)\n"
      "s = Shape(x)\na = Gather(s, i) {axis = 0}\nb = Unsqueeze(a, axes)\nc = Concat(b, m) {axis = "
      "0}\ny = Reshape(x, c)\n}");
  EXPECT_EQ(OpsOf(g), "Reshape");
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 12]");
}

TEST(ScatterOfSlices, BoxesAreJoined) {
  const auto ops = [](const std::string& indices) {
    return OpsOf(Simplified("graph g (x: f32[4, 3], u: f32[2, 3]) -> (y) {\ni: i64[2, 1] = const(" +
                            indices + ")\ny = ScatterND(x, i, u)\n}"));
  };
  EXPECT_EQ(ops("1, 2"), "Slice Slice Concat");
  EXPECT_EQ(ops("-4, -3"), "Slice Concat");
  EXPECT_EQ(ops("2, 1"), "ScatterND");
  EXPECT_EQ(ops("1, 3"), "ScatterND");
  EXPECT_EQ(ops("3, 4"), "ScatterND");
  EXPECT_EQ(ops("9223372036854775807, -9223372036854775808"), "ScatterND");
}
TEST(ScatterOfSlices, OneJoinOfALoopUnlessItsStatesAreRead) {
  const auto ops = [](const std::string& read) {
    return OpsOf(
        Simplified("graph g (x: f32[2, 3], u: f32[1, 3], v: f32[1, 3]) -> (y) {\n"
                   "i: i64[1, 1] = const(0)\nj: i64[1, 1] = const(1)\n"
                   "s = ScatterND(x, i, u)\nt = ScatterND(s, j, v)\n" +
                   read + "}"));
  };
  EXPECT_EQ(ops("y = Relu(t)\n"), "Concat Relu");
  EXPECT_EQ(ops("y = Add(t, s)\n"), "Slice Concat Slice Concat Add");
}
TEST(ScatterOfSlices, OfElements) {
  const Graph g = Simplified(
      "graph g (x: f32[2, 4], u: f32[2, 2]) -> (y) {\ni: i64[2, 2] = const(1, 2, 1, 2)\n"
      "y = ScatterElements(x, i, u) {axis = 1}\n}");
  EXPECT_EQ(OpsOf(g), "Slice Slice Concat");
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 4]");
}

TEST(IndicesOfRows, NameRows) {
  const auto ops = [](const std::string& indices, const std::string& body) {
    return OpsOf(Simplified("graph g (x: f32[5, 4], u: f32[3, 4], i: i64[" + indices +
                            "]) -> (y) {\ns: i64[2] = const(3, 4)\ne = Expand(i, s)\n" + body +
                            "\n}"));
  };
  const std::string scatter = "y = ScatterElements(x, e, u) {axis = 0, reduction = \"add\"}";
  EXPECT_EQ(ops("3, 1", scatter), "ScatterND");
  EXPECT_EQ(ops("1, 4", scatter), "Expand ScatterElements");
  EXPECT_EQ(ops("3, 1", "y = GatherElements(x, e)"), "Reshape Gather");
  EXPECT_EQ(ops("1, 4", "y = GatherElements(x, e) {axis = 0}"), "Expand GatherElements");
  const Graph columns = Simplified(
      "graph g (x: f32[3, 9], i: i64[4]) -> (y) {\ns: i64[2] = const(3, 4)\ne = Expand(i, s)\n"
      "y = GatherElements(x, e) {axis = -1}\n}");
  EXPECT_EQ(OpsOf(columns), "Gather");
  EXPECT_EQ(IntAttr(columns.nodes[0], "axis", 0), 1);
  // Rows of x are longer than those of the indices.
  EXPECT_EQ(OpsOf(Simplified("graph g (x: f32[5, 6], i: i64[3, 1]) -> (y) {\ns: i64[2] = const(3, "
                             "4)\ne = Expand(i, s)\ny = GatherElements(x, e)\n}")),
            "Expand GatherElements");
}

TEST(FoldConstants, AsksTheEvaluator) {
  int calls = 0;
  const Evaluator evaluate = [&](const Graph& graph, const Node& node,
                                 std::span<const Tensor* const> in) -> Result<std::vector<Tensor>> {
    ++calls;
    EXPECT_EQ(node.op, Op::kRelu);
    EXPECT_EQ(graph[node.inputs[0]].name, "w");
    return std::vector<Tensor>{*in[0]};
  };
  const Graph g = Simplified(
      "graph g (x: f32[2]) -> (y) {\nw: f32[2] = const(1, 2)\na = Relu(w)\ny = Add(x, a)\n}",
      evaluate);
  EXPECT_EQ(OpsOf(g), "Add");
  EXPECT_EQ(calls, 1);
}

TEST(FoldConstants, NothingHuge) {
  const Evaluator never = [](const Graph&, const Node&,
                             std::span<const Tensor* const>) -> Result<std::vector<Tensor>> {
    ADD_FAILURE() << "asked for a tensor of 4 GB";
    return Unsupported("");
  };
  const Graph g = Simplified(
      "graph g () -> (y) {\ns: i64[1] = const(1000000000)\na = ConstantOfShape(s)\ny = Relu(a)\n}",
      never);
  EXPECT_EQ(OpsOf(g), "ConstantOfShape Relu");
}

// What is made of a constant is not much more than it, in however many ways a file asks for that.
TEST(FoldConstants, NothingHugeInManyParts) {
  constexpr int64_t kElems = 1 << 20;
  const auto folded = [](int count) {
    Graph graph;
    const ValueId x = AddInput(graph, "x", Dtype::kF32, {kElems}),
                  w = AddConstant(graph, "w", Tensor(Dtype::kF32, {kElems}));
    for (int i = 0; i < count; ++i) {
      const ValueId factor =
          AddConstant(graph, fmt::format("c{}", i), TensorOfScalar(Dtype::kF32, 2 + i));
      const ValueId product = AddNode(graph, Op::kMul, {w, factor}, fmt::format("p{}", i));
      graph.outputs.push_back(AddNode(graph, Op::kAdd, {x, product}, fmt::format("y{}", i)));
    }
    int calls = 0;
    const Evaluator evaluate = [&](const Graph&, const Node&, std::span<const Tensor* const> in) {
      ++calls;
      return Result<std::vector<Tensor>>(std::vector<Tensor>{*in[0]});
    };
    const Status status = Simplify(graph, evaluate);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return calls;
  };
  EXPECT_EQ(folded(2), 2);
  EXPECT_LE(folded(64), 4);
}

TEST(CommonSubexpressions, NumbersOfOneSeedAreDrawnOnce) {
  EXPECT_EQ(OpsOf(Simplified("graph g () -> (y) {\ns: i64[1] = const(2)\na = Draw(s) {stream = 0}\n"
                             "b = Draw(s) {stream = 1}\nc = Draw(s) {stream = 1}\n"
                             "y = Sum(a, b, c)\n}")),
            "Draw Draw Sum");
}

TEST(DropNoOps, EachKind) {
  const Graph g = Simplified(
      "graph g (x: f32[2, 3]) -> (y) {\nz: i64[4] = const(0, 0, 0, 0)\ns: i64[2] = const(2, "
      "3)\none: f32[] = const(1)\n"
      "st: i64[2] = const(0, 0)\nen: i64[2] = const(9223372036854775807, 3)\nr: i64[2] = const(1, "
      "1)\n"
      "a = Identity(x)\nb = Dropout(a)\nc = Cast(b) {to = 1}\nd = Reshape(c, s)\ne = Transpose(d) "
      "{perm = [0, 1]}\nf = Pad(e, z)\n"
      "h = Slice(f, st, en)\ni = Expand(h, s)\nj = Tile(i, r)\nk = Concat(j) {axis = 0}\nl = "
      "Mul(k, one)\nm = Sum(l)\ny = Relu(m)\n}");
  EXPECT_EQ(OpsOf(g), "Relu");
}

TEST(DropNoOps, OutputsKeepTheirNames) {
  const Graph g = Simplified(
      "graph g (x: f32[2]) -> (y, z, w) {\na = Relu(x)\ny = Identity(a)\nz = Identity(a)\nw = "
      "Identity(x)\n}");
  EXPECT_EQ(g[g.outputs[0]].name, "y");
  EXPECT_EQ(g[g.outputs[1]].name, "z");
  EXPECT_EQ(g[g.outputs[2]].name, "w");
  EXPECT_EQ(OpsOf(g), "Identity Relu Identity");  // w copies the input, z copies y
}

TEST(CommonSubexpressions, EqualNodesAndConstants) {
  const Graph g = Simplified(
      "graph g (x: f32[2]) -> (y) {\nc: f32[] = const(2)\nd: f32[] = const(2)\na = Pow(x, c)\nb = "
      "Pow(x, d)\ny = Add(a, b)\n}");
  EXPECT_EQ(OpsOf(g), "Pow Add");
  const Graph h = Simplified(
      "graph g (x: f32[2, 2]) -> (y) {\na = Softmax(x) {axis = 0}\nb = Softmax(x) {axis = 1}\ny = "
      "Add(a, b)\n}");
  EXPECT_EQ(OpsOf(h), "Softmax Softmax Add");
}

TEST(ComposeTransposes, PairsAndInverses) {
  EXPECT_EQ(OpsOf(Simplified("graph g (x: f32[2, 3, 4]) -> (y) {\na = Transpose(x) {perm = [1, 2, "
                             "0]}\nb = Transpose(a) {perm = [2, 0, 1]}\ny = Relu(b)\n}")),
            "Relu");
  const Graph g = Simplified(
      "graph g (x: f32[2, 3, 4]) -> (y) {\na = Transpose(x) {perm = [1, 2, 0]}\ny = Transpose(a) "
      "{perm = [1, 0, 2]}\n}");
  EXPECT_EQ(OpsOf(g), "Transpose");
  EXPECT_EQ(TypeOf(g, "y"), "f32[4, 3, 2]");
}

TEST(ComposeReshapes, Chain) {
  const Graph g = Simplified(
      "graph g (x: f32[b, 3, 4]) -> (y) {\nsymbol b\na1: i64[1] = const(0)\ns: i64[2] = const(0, "
      "-1)\n"
      "a = Unsqueeze(x, a1)\nc = Flatten(a) {axis = 2}\nd = Squeeze(a, a1)\ny = Reshape(d, s)\n}");
  EXPECT_EQ(OpsOf(g), "Reshape");
  EXPECT_EQ(TypeOf(g, "y"), "f32[b, 12]");
}

TEST(ReshapesOfParts, VectorsAreJoinedAlongAnAxisOfTheirOwn) {
  const auto simplified = [](const std::string& body, const char* axis = "1") {
    return Simplified(
        "graph g (x: f32[b, 8], z: f32[b, 4], t: f32[9, 4], at: i64[b, 5]) -> (y) {\n"
        "symbol b\n" +
        body + "j = Concat(x, v) {axis = " + axis +
        "}\ns: i64[3] = const(-1, 3, 4)\ny = Reshape(j, s)\n}");
  };
  const Graph g = simplified("v = Identity(z)\n");
  EXPECT_EQ(OpsOf(g), "Reshape Reshape Concat");
  EXPECT_EQ(TypeOf(g, "y"), "f32[b, 3, 4]");
  // Of what is looked up the places are reshaped, and what they are looked up with.
  EXPECT_EQ(OpsOf(simplified("k: i64[] = const(2)\nc = Gather(at, k) {axis = 1}\n"
                             "v = Gather(t, c) {axis = 0}\n")),
            "Gather Gather Reshape Concat");
  // A row that others read, too, stays one.
  EXPECT_EQ(OpsOf(simplified("v = Relu(z)\n")), "Relu Reshape Reshape Concat");
  // A column that would get more than one axis is reshaped as any other part.
  EXPECT_EQ(OpsOf(Simplified("graph g (d: f32[b, 8, 5], z: f32[b, 8]) -> (y) {\nsymbol b\n"
                             "k: i64[] = const(2)\nc = Gather(d, k) {axis = 2}\n"
                             "j = Concat(c, z) {axis = 1}\n"
                             "s: i64[4] = const(-1, 8, 2, 1)\ny = Reshape(j, s)\n}")),
            "Gather Reshape Reshape Concat");
  // Parts that end within a vector, and those along another axis, stay as they are.
  EXPECT_EQ(OpsOf(Simplified("graph g (x: f32[2, 6], z: f32[2, 6]) -> (y) {\n"
                             "j = Concat(x, z) {axis = 1}\n"
                             "s: i64[3] = const(2, 3, 4)\ny = Reshape(j, s)\n}")),
            "Concat Reshape");
  EXPECT_EQ(OpsOf(Simplified("graph g (x: f32[2, 6], z: f32[2, 6]) -> (y) {\n"
                             "j = Concat(x, z) {axis = 0}\n"
                             "s: i64[3] = const(4, 3, 2)\ny = Reshape(j, s)\n}")),
            "Concat Reshape");
}

constexpr const char* kIf =
    "graph g (x: f32[2, 3]) -> (y) {\nk: f32[] = const(2)\ns = Shape(x)\nz = Size(s)\ntwo: i64[] = "
    "const(2)\n"
    "c = Equal(z, two)\nr = Relu(x)\ny = If(c) {else_branch = graph1, then_branch = graph2}\n"
    "subgraph graph1 no () -> (e) {\ncaptured x\naxes: i64[1] = const(0)\ne = Squeeze(x, axes)\n}\n"
    "subgraph graph2 yes () -> (t) {\ncaptured r\ncaptured k\na = Mul(r, k)\nt = Sigmoid(a)\n}\n}";

TEST(InlineIf, KnownCondition) {  // the branch that is never taken is wrong, as exporters write it
  const Graph g = Simplified(kIf);
  EXPECT_EQ(OpsOf(g), "Relu Mul Sigmoid");
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
}

TEST(CaptureConstants, BranchesFold) {  // k - k is computed in the branch, which knows k now
  const Evaluator evaluate = [](const Graph&, const Node& node, std::span<const Tensor* const> in) {
    EXPECT_EQ(node.op, Op::kSub);
    return Result<std::vector<Tensor>>(std::vector<Tensor>{*in[0]});
  };
  const Graph g = Simplified(
      "graph g (c: bool[], x: f32[2]) -> (y) {\nk: f32[2] = const(3, 4)\ny = If(c) "
      "{else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured x\ne = Neg(x)\n}\n"
      "subgraph graph2 yes () -> (t) {\ncaptured k\ncaptured x\nd = Sub(k, k)\nt = Add(d, x)\n}\n}",
      evaluate);
  ASSERT_EQ(OpsOf(g), "If");
  EXPECT_EQ(OpsOf(*Subgraphs(g.nodes[0])[1]), "Add");
}

TEST(InlineIf, CapturedNamesFollow) {  // Identity goes, and the branch must capture what it copied
  const Graph g = Simplified(
      "graph g (c: bool[], x: f32[2]) -> (y) {\na = Relu(x)\nb = Identity(a)\ny = If(c) "
      "{else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured a\ne = Neg(a)\n}\n"
      "subgraph graph2 yes () -> (t) {\ncaptured a\ncaptured b\nt = Add(a, b)\n}\n}");
  EXPECT_EQ(OpsOf(g), "Relu If");
}

TEST(InlineIf, TwoCopiesOfOneValue) {
  const Graph g = Simplified(
      "graph g (c: bool[], x: f32[2]) -> (y) {\na = Relu(x)\nb = Identity(a)\nd = Identity(a)\n"
      "y = If(c) {else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured d\ne = Neg(d)\n}\n"
      "subgraph graph2 yes () -> (t) {\ncaptured b\ncaptured d\nt = Add(b, d)\n}\n}");
  ASSERT_EQ(OpsOf(g), "Relu If");
  const Graph& branch = *Subgraphs(g.nodes[1])[1];
  ASSERT_EQ(branch.values.size(), 2u);
  EXPECT_EQ(branch.values[0].name, "a");
}

// Of two captured values that became one, the graphs inside find the one that stays.
TEST(InlineIf, TwoCopiesOfOneValueForGraphsInside) {
  const Graph g = Simplified(
      "graph g (c: bool[], x: f32[2]) -> (y) {\na = Abs(x)\nb = Abs(x)\n"
      "y = If(c) {else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured a\ne = Neg(a)\n}\n"
      "subgraph graph2 yes () -> (t) {\ncaptured c\ncaptured a\ncaptured b\nd = Exp(a)\n"
      "t = If(c) {else_branch = graph3, then_branch = graph4}\n"
      "subgraph graph3 no () -> (f) {\ncaptured d\ncaptured b\nf = Sub(d, b)\n}\n"
      "subgraph graph4 yes () -> (h) {\ncaptured b\nh = Neg(b)\n}\n}\n}");
  ASSERT_EQ(OpsOf(g), "Abs If");
  const Graph& branch = *Subgraphs(g.nodes[1])[1];
  ASSERT_EQ(OpsOf(branch), "Exp If");
  EXPECT_EQ(branch[branch.nodes[0].inputs[0]].name, "a");
  EXPECT_EQ(branch.values.size(), 4u);
}

// A value of a branch makes way for one around it, and the graphs inside know which is which.
TEST(InlineIf, LocalNamesMakeWay) {
  const Graph g = Simplified(
      "graph g (c: bool[], x: f32[2]) -> (y) {\na = Relu(x)\nb = Identity(a)\n"
      "y = If(c) {else_branch = graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured b\ne = Neg(b)\n}\n"
      "subgraph graph2 yes () -> (t) {\ncaptured c\ncaptured b\na = Exp(b)\n"
      "t = If(c) {else_branch = graph3, then_branch = graph4}\n"
      "subgraph graph3 no () -> (f) {\ncaptured a\nf = Neg(a)\n}\n"
      "subgraph graph4 yes () -> (h) {\ncaptured a\ncaptured b\nh = Sub(a, b)\n}\n}\n}");
  ASSERT_EQ(OpsOf(g), "Relu If");
  const Graph& branch = *Subgraphs(g.nodes[1])[1];
  ASSERT_EQ(OpsOf(branch), "Exp If");
  const std::string local = branch[branch.nodes[0].outputs[0]].name;
  EXPECT_NE(local, "a");
  const Graph& inside = *Subgraphs(branch.nodes[1])[1];
  ASSERT_EQ(OpsOf(inside), "Sub");
  EXPECT_EQ(inside[inside.nodes[0].inputs[0]].name, local);
  EXPECT_EQ(inside[inside.nodes[0].inputs[1]].name, "a");
}

// Each element is converted once, constants here; a matrix for few rows stays as it is.
TEST(WidenProducts, SumsOfNarrowFloatsAreOfFloat32) {
  const auto widened = [](std::string_view type, int rows, std::string_view body) {
    Graph g =
        Simplified(fmt::format("graph g (x: {0}[{1}, 2], v: {0}[2, 2]) -> (y) {{\nw: {0}[2, 2] = "
                               "const(1.5, 2, 3, 4)\n{2}\n}}",
                               type, rows, body));
    WidenProducts(g, Dtype::kF16);
    return g;
  };
  constexpr char kTwice[] = "a = MatMul(x, w)\nb = MatMul(x, v)\ny = Add(a, b)";
  const Graph g = widened("f16", 8, kTwice);
  EXPECT_EQ(OpsOf(g), "Cast MatMul Cast Cast MatMul Cast Add");
  EXPECT_EQ(TypeOf(g, "y"), "f16[8, 2]");
  EXPECT_EQ(g[g.nodes[1].outputs[0]].dtype, Dtype::kF32);
  EXPECT_EQ(g[g.nodes[1].inputs[1]].constant.dtype(), Dtype::kF32);
  EXPECT_EQ(ElemAsDouble(g[g.nodes[1].inputs[1]].constant, 0), 1.5);
  EXPECT_EQ(OpsOf(widened("f16", 3, kTwice)), "MatMul Cast Cast MatMul Cast Add");
  EXPECT_EQ(OpsOf(widened("bf16", 8, kTwice)), "MatMul MatMul Add");
  EXPECT_EQ(OpsOf(widened("f16", 8, "y = Gemm(x, v) {alpha = 0.5}")), "Cast Cast Gemm Cast");
}

// Tokens and images: a transpose goes to the side with more axes, if axes that are split or joined
// move together.
TEST(TransposesOfImages, GoWhereThereAreMoreAxes) {
  const auto ops = [](const std::string& body) { return OpsOf(Simplified(body)); };
  const std::string head = "graph g (x: f32[2, 12, 5]) -> (y) {\n";
  const Graph g = Simplified(head +
                             "s: i64[4] = const(0, 0, 3, 4)\nt = Transpose(x) {perm = [0, 2, "
                             "1]}\nr = Reshape(t, s)\ny = Relu(r)\n}");
  EXPECT_EQ(OpsOf(g), "Reshape Transpose Relu");
  EXPECT_EQ(TypeOf(g, "r"), "f32[2, 5, 3, 4]");
  EXPECT_EQ(graph::IntsAttr(g.nodes[1], "perm"), (std::vector<int64_t>{0, 3, 1, 2}));
  EXPECT_EQ(ops(head + "s: i64[4] = const(2, 1, 5, 12)\nt = Transpose(x) {perm = [0, 2, 1]}\n"
                       "r = Reshape(t, s)\ny = Relu(r)\n}"),
            "Reshape Transpose Relu");
  // 5 and 12 are apart in x.
  EXPECT_EQ(ops(head + "s: i64[4] = const(2, 10, 2, 3)\nt = Transpose(x) {perm = [0, 2, 1]}\n"
                       "r = Reshape(t, s)\ny = Relu(r)\n}"),
            "Transpose Relu Reshape");
  const std::string image = "graph g (x: f32[2, 5, 3, 4]) -> (y) {\ns: i64[3] = const(2, 5, 12)\n";
  const Graph back = Simplified(image +
                                "t = Reshape(x, s)\nr = Transpose(t) {perm = [0, 2, 1]}\n"
                                "y = Relu(r)\n}");
  EXPECT_EQ(OpsOf(back), "Transpose Relu Reshape");
  EXPECT_EQ(graph::IntsAttr(back.nodes[0], "perm"), (std::vector<int64_t>{0, 2, 3, 1}));
  // The reshape is read twice.
  EXPECT_EQ(ops(image + "t = Reshape(x, s)\nr = Transpose(t) {perm = [0, 2, 1]}\nu = ReduceSum(r) "
                        "{keepdims = 0}\nv = ReduceSum(t) {keepdims = 0}\ny = Add(u, v)\n}"),
            "Reshape Transpose ReduceSum ReduceSum Add");
}

TEST(ActivationsFirst, StandBeforeViews) {
  const auto ops = [](const std::string& body) {
    return OpsOf(Simplified("graph g (x: f32[2, 12]) -> (y) {\ns: i64[3] = const(2, 3, 4)\n" +
                            body + "\n}"));
  };
  EXPECT_EQ(ops("a = Sqrt(x)\nr = Reshape(a, s)\ny = Gelu(r)"), "Sqrt Gelu Reshape");
  EXPECT_EQ(ops("a = Sqrt(x)\nr = Reshape(a, s)\nb = Relu(r)\ny = Tanh(b)"),
            "Sqrt Relu Tanh Reshape");
  EXPECT_EQ(ops("a = Sqrt(x)\nr = Reshape(a, s)\nb = Relu(r)\ny = Add(b, r)"),
            "Sqrt Reshape Relu Add");
  EXPECT_EQ(ops("r = Reshape(x, s)\ny = Relu(r)"), "Reshape Relu");  // nothing made it
}

// Each factor is rounded once, constants here; short sums stay as they are, and so do results.
TEST(NarrowProducts, FactorsAreRoundedAndSumsAreNot) {
  const auto narrowed = [](int depth, std::string_view body) {
    Graph g = Simplified(fmt::format(
        "graph g (x: f32[3, {0}], v: f32[{0}, 2], i: f32[1, {0}, 4, 4], f: f32[2, {0}, 1, 1]) -> "
        "(y) {{\nw: f32[{0}, 2] = const({1})\n{2}\n}}",
        depth, fmt::join(std::vector<double>(2 * static_cast<size_t>(depth), 1.00390625), ", "),
        body));
    NarrowProducts(g);
    const Status verified = Verify(g);
    EXPECT_TRUE(verified.ok()) << verified.ToString();
    return g;
  };
  constexpr char kTwice[] = "a = MatMul(x, w)\nb = MatMul(x, v)\ny = Add(a, b)";
  const Graph g = narrowed(16, kTwice);
  EXPECT_EQ(OpsOf(g), "Cast MatMul Cast MatMul Add");
  EXPECT_EQ(TypeOf(g, "y"), "f32[3, 2]");
  EXPECT_EQ(TypeOf(g, "a"), "f32[3, 2]");
  const Tensor& weights = g[g.nodes[1].inputs[1]].constant;
  EXPECT_EQ(weights.dtype(), Dtype::kBF16);
  EXPECT_EQ(ElemAsDouble(weights, 0), 1);  // half a unit, to even
  EXPECT_EQ(OpsOf(narrowed(15, kTwice)), "MatMul MatMul Add");
  EXPECT_EQ(OpsOf(narrowed(16, "y = Conv(i, f)")), "Cast Cast Conv");
  EXPECT_EQ(OpsOf(narrowed(15, "y = Conv(i, f)")), "Conv");
  EXPECT_EQ(OpsOf(narrowed(16, "y = Gemm(v, x) {transA = 1, transB = 1}")), "Cast Cast Gemm");
  EXPECT_EQ(OpsOf(narrowed(16, "c = Cast(x) {to = 16}\nd = Cast(v) {to = 16}\ny = MatMul(c, d)")),
            "Cast Cast MatMul");
}

TEST(Simplify, AnyOrderOfNodesGivesTheSameGraph) {
  const std::string head = "graph g (x: f32[2, 2]) -> (y) {\nw: f32[] = const(3)\n";
  const Graph a = Simplified(head +
                             "a = Relu(x)\nb = Neg(x)\nc = Mul(a, w)\nd = Mul(b, w)\ne = Mul(x, "
                             "w)\nf = Add(c, d)\ny = Add(f, e)\n}");
  const Graph b = Simplified(head +
                             "e = Mul(x, w)\nb = Neg(x)\nd = Mul(b, w)\na = Relu(x)\nc = Mul(a, "
                             "w)\nf = Add(c, d)\ny = Add(f, e)\n}");
  EXPECT_EQ(Printed(a), Printed(b));
}

TEST(Simplify, TwiceIsOnce) {
  Graph g = Simplified(kIf);
  const std::string once = Printed(g);
  ASSERT_TRUE(Simplify(g, Refuse).ok());
  EXPECT_EQ(Printed(g), once);
}

TEST(Simplify, LongChain) {
  Graph g;
  ValueId last = AddInput(g, "x", Dtype::kF32, {2, 3});
  for (int i = 0; i < 20'000; ++i)
    last = AddNode(g, i % 3 ? Op::kRelu : Op::kSigmoid, {last}, "v" + std::to_string(i));
  g.outputs = {last};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(InferShapes(g).ok());
  ASSERT_TRUE(Simplify(g, Refuse).ok());
  EXPECT_TRUE(Verify(g).ok());
  EXPECT_EQ(g.nodes.size(), 20'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(60));  // quadratic time would take longer
}

std::string Halves(size_t count) {
  std::string list = "const(0.5";
  for (size_t i = 1; i < count; ++i) list += ", 0.5";
  return list + ")\n";
}

// Of x, and of z with as many channels and four times as many places.
std::string OpsOfPlaces(const std::string& body) {
  return OpsOf(Simplified(
      "graph g (x: f32[n, 32, 4, 6], z: f32[n, 32, 8, 12]) -> (y) {\nsymbol n\n"
      "v: f32[1, 64, 1, 1] = " +
      Halves(64) + "w: f32[1, 32, 1, 1] = " + Halves(32) + "u: f32[32, 32, 1, 1] = " +
      Halves(1024) + "b: f32[1] = const(2)\ndouble: f32[4] = const(1, 1, 2, 2)\n" + body + "}"));
}

TEST(ProductsOfPlaces, GoInFrontOfAResize) {
  const std::string large = "r = Resize(x, _, double)\n";
  EXPECT_EQ(OpsOfPlaces(large + "y = Conv(r, w)\n"), "Conv Resize");
  EXPECT_EQ(OpsOfPlaces(large + "y = Conv(r, w, b)\n"), "Conv Resize Add");
  const std::string joined = large + "j = Concat(r, z) {axis = 1}\n";
  EXPECT_EQ(OpsOfPlaces(joined + "y = Conv(j, v, b)\n"), "Conv Conv Resize Add");
  EXPECT_EQ(OpsOfPlaces(joined + "c = Conv(j, v, b)\nd = Conv(j, v)\ny = Mul(c, d)\n"),
            "Conv Conv Resize Add Conv Add Mul");
  EXPECT_EQ(OpsOfPlaces(joined + "c = Conv(j, v, b)\nd = Relu(j)\ny = Concat(c, d) {axis = 1}\n"),
            "Resize Concat Conv Relu Concat");
  EXPECT_EQ(OpsOfPlaces(large + "y = Conv(r, w) {strides = [2, 2]}\n"), "Resize Conv");
}
TEST(ProductsOfPlaces, GoBehindAnAveragePool) {
  const auto pooled = [](const std::string& attributes) {
    return OpsOfPlaces("c = Conv(x, u)\ny = AveragePool(c) {kernel_shape = [2, 2]" + attributes +
                       "}\n");
  };
  EXPECT_EQ(pooled(", strides = [2, 2]"), "AveragePool Conv");
  EXPECT_EQ(pooled(""), "Conv AveragePool");
  EXPECT_EQ(pooled(", strides = [2, 2], pads = [1, 1, 1, 1]"), "Conv AveragePool");
  EXPECT_EQ(pooled(", strides = [2, 2], ceil_mode = 1"), "Conv AveragePool");
}

}  // namespace
}  // namespace weft::graph
