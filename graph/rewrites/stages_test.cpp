// Cutting a graph where its extents end, and Scan as a Loop.

#include "graph/stages.h"

#include "graph/infer.h"
#include "graph/simplify.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

bool RunsNonZero(const Graph& graph, NodeId node) { return graph[node].op == Op::kNonZero; }

Graph Staged(const std::string& text, Cut* cut = nullptr) {
  Graph graph = Parsed(text);
  Status status = Simplify(graph, Refuse);
  EXPECT_TRUE(status.ok()) << status.ToString();
  auto made = MakeStages(graph, RunsNonZero);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  if (cut && made.ok()) *cut = *made;
  status = Verify(graph);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return graph;
}

const Graph& BodyOf(const Node& node, std::string_view name) {
  return *std::get<std::shared_ptr<Graph>>(FindAttribute(node, name)->value);
}

TEST(MakeStages, WhatReadsOpenExtentsWaits) {
  Cut cut;
  const Graph g = Staged(
      "graph g (x: f32[4, 3]) -> (y, z) {\naxis: i64[1] = const(0)\nn = NonZero(x)\ns = "
      "Gather(x, n) {axis = 0}\ny = Relu(s)\nz = Exp(x)\n}",
      &cut);
  EXPECT_FALSE(cut.is_all);
  EXPECT_FALSE(cut.wants_values);
  ASSERT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(OpsOf(g), "NonZero Exp Stage");
  const Graph& body = BodyOf(g.nodes[2], "body");
  EXPECT_EQ(OpsOf(body), "Gather Relu");
  EXPECT_EQ(body.inputs.size(), g.nodes[2].inputs.size());
  EXPECT_EQ(TypeOf(body, "x"), "f32[4, 3]");  // known extents are kept
  EXPECT_FALSE(body[FindValue(body, "n")].shape);
}

TEST(MakeStages, GraphOfKnownExtentsStaysWhole) {
  const Graph g = Staged("graph g (x: f32[4]) -> (y) {\na = Relu(x)\ny = Exp(a)\n}");
  EXPECT_EQ(OpsOf(g), "Relu Exp");
}

// What does not read them goes on; the body knows what was declared of them, and nothing else.
TEST(MakeStages, WhatReadsInputsOfOpenExtentsWaits) {
  const Graph g = Staged(
      "graph g (x: f32[n, 3], v: f32[3]) -> (y) {\nsymbol n in 1:9\nsymbol m in 1:9\n"
      "w = Exp(v)\na = Add(x, w)\ny = Neg(a)\n}");
  EXPECT_EQ(OpsOf(g), "Exp Stage");
  const Graph& body = BodyOf(g.nodes[1], "body");
  EXPECT_EQ(OpsOf(body), "Add Neg");
  EXPECT_EQ(TypeOf(body, "x"), "f32[n, 3]");
  EXPECT_EQ(TypeOf(body, "w"), "f32[3]");
  EXPECT_FALSE(body[FindValue(body, "a")].shape);
}

// In a general graph nothing waits for its extents but those that no native can take.
TEST(MakeGeneral, NodesWithoutANativeAreStagesOfTheirOwn) {
  Graph g = Parsed(
      "graph g (x: f32[n, 3]) -> (y) {\nsymbol n in 1:9\na = Exp(x)\nb = Neg(a)\n"
      "c = Hardmax(b)\nd = Exp(c)\ny = Neg(d)\n}");
  ASSERT_TRUE(InferShapes(g).ok());
  const auto runs_open = [](const Graph& graph, NodeId node) {
    return graph[node].op != Op::kHardmax;
  };
  const auto general = MakeGeneral(g, runs_open);
  ASSERT_TRUE(general.ok()) << general.status().ToString();
  EXPECT_TRUE(*general);
  EXPECT_EQ(OpsOf(g), "Exp Neg Stage Exp Neg");
  const Status status = Verify(g);
  EXPECT_TRUE(status.ok()) << status.ToString();
  const Graph& body = BodyOf(g.nodes[2], "body");
  EXPECT_EQ(OpsOf(body), "Hardmax");
  EXPECT_FALSE(body[body.inputs[0]].shape);  // n is a symbol of g
  EXPECT_EQ(body[body.outputs[0]].dtype, Dtype::kF32);
}

TEST(MakeGeneral, NotWhereMostNodesWouldBeBuiltAllTheSame) {
  Graph g =
      Parsed("graph g (x: f32[n, 3]) -> (y) {\nsymbol n in 1:9\na = Hardmax(x)\ny = Neg(a)\n}");
  ASSERT_TRUE(InferShapes(g).ok());
  const auto general =
      MakeGeneral(g, [](const Graph& graph, NodeId node) { return graph[node].op == Op::kNeg; });
  ASSERT_TRUE(general.ok()) << general.status().ToString();
  EXPECT_FALSE(*general);
}

TEST(MakeStages, ElementsThatDecideExtentsAreWanted) {
  Cut cut;
  const Graph g =
      Staged("graph g (x: f32[4], s: i64[2]) -> (y) {\na = Reshape(x, s)\ny = Relu(a)\n}", &cut);
  EXPECT_TRUE(cut.wants_values);
  EXPECT_TRUE(cut.is_all);
  EXPECT_EQ(OpsOf(g), "Stage");
}

TEST(MakeStages, SequencesWaitWithWhatReadsThem) {
  const Graph g = Staged(
      "graph g (x: f32[4], s: i64[2]) -> (y, n, z) {\nlist = SequenceConstruct(x, x)\n"
      "a = Reshape(x, s)\nm = ReduceMax(a) {keepdims = 0}\nk = Cast(m) {to = 7}\n"
      "y = SequenceAt(list, k)\nshorter = SequenceErase(list, k)\nn = SequenceLength(shorter)\n"
      "z = Relu(x)\n}");
  EXPECT_EQ(OpsOf(g), "Relu Stage");
  EXPECT_NE(OpsOf(BodyOf(g.nodes[1], "body")).find("SequenceConstruct"), std::string::npos);
}

TEST(MakeStages, NamesTheOperatorThatNobodyKnows) {
  Graph graph = Parsed(
      "graph g (x: f32[4], s: i64[2]) -> (y) {\nu = \"com.who::What\"(x)\na = Reshape(x, s)\n"
      "y = Add(a, u)\n}");
  const auto cut = MakeStages(graph, RunsNonZero);
  ASSERT_EQ(cut.status().code(), Code::kUnsupported);
  EXPECT_NE(cut.status().what().find("What"), std::string::npos) << cut.status().ToString();
}

// What waits is built once extents are known. That node never is: whoever builds says so.
TEST(MakeStages, OperatorThatNobodyKnowsDoesNotWaitForExtents) {
  const Graph g =
      Staged("graph g (x: f32[n, 3]) -> (y) {\nsymbol n in 1:9\ny = \"com.who::What\"(x)\n}");
  EXPECT_EQ(OpsOf(g), "What");
}

TEST(MakeStages, BranchesShareTheirOperands) {
  const Graph g = Staged(
      "graph g (c: bool[], x: f32[4], w: f32[4]) -> (y) {\ny = If(c) {else_branch = graph1, "
      "then_branch = graph2}\nsubgraph graph1 g1 () -> (a) {\ncaptured x: f32[4]\na = Relu(x)\n}\n"
      "subgraph graph2 g2 () -> (b) {\ncaptured w: f32[4]\nb = Exp(w)\n}\n}");
  ASSERT_EQ(OpsOf(g), "Branch");
  ASSERT_EQ(g.nodes[0].inputs.size(), 3u);
  for (const char* name : {"then_branch", "else_branch"}) {
    const Graph& body = BodyOf(g.nodes[0], name);
    ASSERT_EQ(body.inputs.size(), 2u);
    EXPECT_EQ(body[body.inputs[0]].name, "x");
    EXPECT_EQ(body[body.inputs[1]].name, "w");
    EXPECT_TRUE(Verify(body).ok());
  }
}

constexpr std::string_view kLoop =
    "graph g (n: i64[], x: f32[4]) -> (y, rows) {\ny, rows = Loop(n, _, x) {body = graph1}\n"
    "subgraph graph1 b (i: i64[], c: bool[], s: f32[4]) -> (d, t, r) {\ncaptured x: f32[4]\nd = "
    "Identity(c)\nt = Add(s, x)\nr = Relu(t)\n}\n}";

TEST(MakeStages, LoopTakesWhatItsBodyCaptures) {
  const Graph g = Staged(std::string(kLoop));
  ASSERT_EQ(OpsOf(g), "Repeat");
  EXPECT_EQ(IntAttr(g.nodes[0], "states", 0), 1);
  EXPECT_EQ(g.nodes[0].inputs.size(), 4u);
  EXPECT_EQ(BodyOf(g.nodes[0], "body").inputs.size(), 4u);
}

TEST(LoopRule, StacksAsManyRowsAsThereAreTrips) {
  std::string text(kLoop);
  text.replace(text.find("n: i64[], "), 10, "");
  text.replace(text.find("{\ny"), 1, "{\nn: i64[] = const(100000)\n");
  const Graph g = Staged(text);
  EXPECT_EQ(TypeOf(g, "rows"), "f32[100000, 4]");
}

TEST(ScanToLoop, LongScansGatherTheirRows) {
  const Graph g = Staged(
      "graph g (s: f32[3], xs: f32[3, 50000]) -> (e, ys) {\ne, ys = Scan(s, xs) {body = graph1, "
      "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = "
      "[-1]}\nsubgraph graph1 b (a: f32[3], x: f32[3]) -> (b, r) {\nb = Add(a, x)\nr = Mul(b, "
      "x)\n}\n}");
  EXPECT_EQ(OpsOf(g), "Repeat Transpose");
  EXPECT_EQ(TypeOf(g, "ys"), "f32[3, 50000]");
  const Graph& body = BodyOf(g.nodes[0], "body");
  EXPECT_EQ(OpsOf(body), "Sub Gather Add Mul");
  EXPECT_EQ(body.inputs.size(), 4u);  // trip, condition, state, and what was scanned, whole
}

}  // namespace
}  // namespace weft::graph
