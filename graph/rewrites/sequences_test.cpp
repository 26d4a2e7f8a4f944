// Sequences, optionals and loops whose elements and trips are known.

#include "graph/sequences.h"

#include <span>

#include "graph/infer.h"
#include "graph/simplify.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

std::string Simplified(const std::string& header, const std::string& body) {
  Graph graph = Parsed("graph g (" + header + ") -> (y) {\n" + body + "\n}");
  const Status status = Simplify(graph, Refuse);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Verify(graph).ok()) << Verify(graph).ToString();
  return OpsOf(graph) + " " + TypeOf(graph, "y");
}

constexpr const char* kTwo = "a: f32[2, 3], b: f32[2, 4]";

TEST(ResolveSequences, ElementsAreWhatWasPutIn) {
  EXPECT_EQ(Simplified(kTwo,
                       "i: i64[] = const(-1)\ns = SequenceConstruct(a, b)\nt = SequenceAt(s, i)\n"
                       "y = Relu(t)"),
            "Relu f32[2, 4]");
  EXPECT_EQ(Simplified(kTwo,
                       "i: i64[] = const(0)\ne = SequenceEmpty()\ns = SequenceInsert(e, a)\n"
                       "t = SequenceInsert(s, b, i)\ny = ConcatFromSequence(t) {axis = 1}"),
            "Concat f32[2, 7]");
  EXPECT_EQ(Simplified(kTwo,
                       "s = SequenceConstruct(a, b, a)\nt = SequenceErase(s)\n"
                       "y = ConcatFromSequence(t) {axis = 1}"),
            "Concat f32[2, 7]");
  EXPECT_EQ(Simplified(
                "a: f32[2], b: f32[2]",
                "s = SequenceConstruct(a, b)\ny = ConcatFromSequence(s) {axis = -1, new_axis = 1}"),
            "Unsqueeze Unsqueeze Concat f32[2, 2]");
  EXPECT_EQ(Simplified(kTwo, "s = SequenceConstruct(a, b)\nn = SequenceLength(s)\ny = Add(n, n)"),
            "Add i64[]");
}

TEST(ResolveSequences, Splits) {
  const std::string at = "i: i64[] = const(2)\nt = SequenceAt(s, i)\ny = Neg(t)";
  EXPECT_EQ(Simplified("a: f32[2, 7]",
                       "n: i64[] = const(3)\ns = SplitToSequence(a, n) {axis = 1}\n" + at),
            "Split Neg f32[2, 1]");
  EXPECT_EQ(Simplified("a: f32[2, 7]",
                       "n: i64[3] = const(1, 2, 4)\ns = SplitToSequence(a, n) {axis = -1}\n" + at),
            "Split Neg f32[2, 4]");
  EXPECT_EQ(Simplified("a: f32[3, 2]", "s = SplitToSequence(a) {keepdims = 0}\n" + at),
            "Split Squeeze Neg f32[2]");
}

TEST(ResolveSequences, WhatIsNotThereStays) {
  EXPECT_EQ(
      Simplified(kTwo, "i: i64[] = const(2)\ns = SequenceConstruct(a, b)\ny = SequenceAt(s, i)"),
      "SequenceConstruct SequenceAt f32");
  EXPECT_EQ(Simplified("a: f32[2], i: i64[]", "s = SequenceConstruct(a, a)\ny = SequenceAt(s, i)"),
            "SequenceConstruct SequenceAt f32");
}

TEST(ResolveSequences, Optionals) {
  EXPECT_EQ(Simplified("a: f32[2]", "o = Optional(a)\nt = OptionalGetElement(o)\ny = Neg(t)"),
            "Neg f32[2]");
  EXPECT_EQ(Simplified("a: f32[2]", "t = OptionalHasElement(a)\ny = Not(t)"), "Not bool[]");
  EXPECT_EQ(Simplified("a: f32[2]", "o = Optional()\nt = OptionalHasElement(o)\ny = Not(t)"),
            "Not bool[]");
}

TEST(ResolveSequences, InputsAndOutputs) {
  const auto form = [](InputForm::Kind kind, size_t parts) {
    return InputForm{kind, std::vector<InputForm::Part>(parts, {Dtype::kF32, {2}})};
  };
  const std::string text =
      "graph g (x: f32[2], s: _) -> (y) {\nt = SequenceInsert(s, x)\ny = Identity(t)\n}";
  Graph g = Parsed(text);
  EXPECT_FALSE(BindForm(g, "x", form(InputForm::Kind::kSequence, 1)).ok());
  EXPECT_FALSE(BindForm(g, "q", form(InputForm::Kind::kSequence, 1)).ok());
  ASSERT_TRUE(BindForm(g, "s", form(InputForm::Kind::kSequence, 2)).ok());
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).ToString();
  ASSERT_TRUE(Simplify(g, Refuse).ok());
  EXPECT_TRUE(ExpandSequences(g));
  ASSERT_TRUE(Simplify(g, Refuse).ok());
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).ToString();
  ASSERT_EQ(g.inputs.size(), 3u);
  EXPECT_EQ(g[g.inputs[1]].name, "s[0]");
  ASSERT_EQ(g.outputs.size(), 3u);
  EXPECT_EQ(g[g.outputs[2]].name, "y[2]");

  Graph absent =
      Parsed("graph g (o: _, x: f32[2]) -> (y) {\nh = OptionalHasElement(o)\ny = Not(h)\n}");
  ASSERT_TRUE(BindForm(absent, "o", form(InputForm::Kind::kAbsent, 0)).ok());
  ASSERT_TRUE(Simplify(absent, Refuse).ok());
  EXPECT_EQ(OpsOf(absent), "Not");
  Graph tensor = Parsed("graph g (o: _) -> (y) {\nt = OptionalGetElement(o)\ny = Neg(t)\n}");
  ASSERT_TRUE(BindForm(tensor, "o", form(InputForm::Kind::kTensor, 1)).ok());
  ASSERT_TRUE(Simplify(tensor, Refuse).ok());
  EXPECT_EQ(OpsOf(tensor), "Neg");
}

constexpr const char* kLoop =
    "y, rows = Loop(n, c, x) {body = graph1}\nsubgraph graph1 body (i: i64[], go: bool[], v: _) -> "
    "(on, w, w) {\non = Identity(go)\nw = Concat(v, v) {axis = 0}\n}";

TEST(UnrollLoops, ShapesMayChange) {
  EXPECT_EQ(
      Simplified("x: f32[1]", std::string("n: i64[] = const(3)\nc: bool[] = const(1)\n"
                                          "y = Loop(n, c, x) {body = graph1}\n"
                                          "subgraph graph1 body (i: i64[], go: bool[], v: _) -> "
                                          "(on, w) {\non = Identity(go)\nw = Concat(v, v) {axis "
                                          "= 0}\n}")),
      "Concat Concat Concat f32[8]");
}

TEST(UnrollLoops, OnlyWhatIsKnownAndSmall) {
  EXPECT_EQ(
      Simplified("x: f32[1], n: i64[]", std::string("c: bool[] = const(1)\n") + kLoop).substr(0, 4),
      "Loop");
  EXPECT_EQ(Simplified("x: f32[1]",
                       std::string("n: i64[] = const(1000000)\nc: bool[] = const(1)\n") + kLoop)
                .substr(0, 4),
            "Loop");
}

// `i` counts to the limit in steps of 2, as a while loop of a script does.
TEST(UnrollLoops, ConditionsThatAreComputed) {
  const Evaluator evaluate = [](const Graph& graph, const Node& node,
                                std::span<const Tensor* const> in) -> Result<std::vector<Tensor>> {
    if (node.op == Op::kLess)
      return std::vector{
          TensorOfScalar(Dtype::kBool, ElemAsInt(*in[0], 0) < ElemAsInt(*in[1], 0) ? 1 : 0)};
    if (node.op == Op::kAdd && in[0]->dtype() == Dtype::kI64)
      return std::vector{TensorOfScalar(
          Dtype::kI64, static_cast<double>(ElemAsInt(*in[0], 0) + ElemAsInt(*in[1], 0)))};
    return Refuse(graph, node, in);
  };
  const auto simplified = [&](const std::string& header, const std::string& limit,
                              const std::string& trips = "_") {
    Graph graph = Parsed(
        "graph g (x: f32[1]" + header +
        ") -> (y) {\nzero: i64[] = const(0)\nc: bool[] = const(1)\n" + "n: i64[] = const(2)\n" +
        limit + "k, y = Loop(" + trips + ", c, zero, x) {body = graph1}\n" +
        "subgraph graph1 body (t: i64[], go: bool[], i: i64[], v: _) -> (on, j, w) {\n"
        "captured limit\ntwo: i64[] = const(2)\nj = Add(i, two)\non = Less(j, limit)\n"
        "w = Concat(v, v) {axis = 0}\n}\n}");
    const Status status = Simplify(graph, evaluate);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(Verify(graph).ok()) << Verify(graph).ToString();
    return OpsOf(graph);
  };
  EXPECT_EQ(simplified("", "limit: i64[] = const(5)\n"), "Concat Concat Concat");
  EXPECT_EQ(simplified("", "limit: i64[] = const(0)\n"), "Concat");
  EXPECT_EQ(simplified("", "limit: i64[] = const(5)\n", "n"), "Concat Concat");
  EXPECT_EQ(simplified("", "limit: i64[] = const(1000000)\n"), "Loop");
  EXPECT_EQ(simplified(", limit: i64[]", ""), "Loop");
}

TEST(UnrollLoops, LoopsInLoopsAreBounded) {  // 1000 * 1000 * 1000 copies
  Graph graph = Parsed(
      "graph g (x: f32[1]) -> (y) {\nn: i64[] = const(1000)\nc: bool[] = const(1)\n"
      "y = Loop(n, c, x) {body = graph1}\n"
      "subgraph graph1 one (i: i64[], go: bool[], v: _) -> (on, w) {\ncaptured n\ncaptured c\n"
      "on = Identity(go)\nw = Loop(n, c, v) {body = graph1}\n"
      "subgraph graph1 two (i2: i64[], go2: bool[], v2: _) -> (on2, w2) {\ncaptured n\ncaptured c\n"
      "on2 = Identity(go2)\nw2 = Loop(n, c, v2) {body = graph1}\n"
      "subgraph graph1 three (i3: i64[], go3: bool[], v3: _) -> (on3, w3) {\n"
      "on3 = Identity(go3)\nw3 = Neg(v3)\n}\n}\n}\n}");
  ASSERT_TRUE(Simplify(graph, Refuse).ok());
  EXPECT_LE(graph.nodes.size(), 32768u);
}

TEST(UnrollLoops, Scans) {
  EXPECT_EQ(
      Simplified("s: f32[2], x: f32[3, 2]",
                 "z, y = Scan(s, x) {body = graph1, num_scan_inputs = 1, scan_output_axes = [1]}\n"
                 "subgraph graph1 body (a: f32[2], v: f32[2]) -> (o, p) {\n"
                 "o = Add(a, v)\np = Neg(o)\n}")
          .substr(0, 6),
      "Gather");
}

TEST(UnrollLoops, Maps) {
  EXPECT_EQ(
      Simplified("a: f32[2], b: f32[3], k: f32[]",
                 "i: i64[] = const(1)\ns = SequenceConstruct(a, b)\nm = SequenceMap(s, k) {body = "
                 "graph1}\ny = SequenceAt(m, i)\n"
                 "subgraph graph1 body (v: _, f: _) -> (o) {\no = Mul(v, f)\n}"),
      "Mul f32[3]");
}

}  // namespace
}  // namespace weft::graph
