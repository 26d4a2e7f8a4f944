#include "graph/graph.h"

#include "graph/schema.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

Graph Small() {
  return Parsed(
      "graph g (x: f32[2, 3]) -> (y) {\naxes: i64[2] = const(1, -1)\nr = Relu(x) {name = "
      "\"/a/Relu.1\"}\ny = Add(r, x)\nu = \"com.x::Foo\"(x, _, r)\n}");
}

TEST(Graph, Questions) {
  Graph g = Small();
  Node& node = g.nodes[0];
  SetAttribute(node, "b", int64_t{4});
  SetAttribute(node, "a", 0.5f);
  SetAttribute(node, "c", std::vector<int64_t>{1, 2});
  SetAttribute(node, "b", int64_t{5});
  EXPECT_EQ(node.attributes.size(), 3u);
  EXPECT_EQ(node.attributes[0].name, "a");
  EXPECT_EQ(IntAttr(node, "b", 0), 5);
  EXPECT_EQ(IntAttr(node, "a", 7), 7);  // of another type: absent
  EXPECT_EQ(FloatAttr(node, "a", 0), 0.5f);
  EXPECT_EQ(StringAttr(node, "s", "no"), "no");
  EXPECT_EQ(IntsAttr(node, "c"), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(InputAt(node, 1).valid());
  EXPECT_EQ(FindValue(g, "r"), node.outputs[0]);
  EXPECT_EQ(StaticShape(g[g.inputs[0]]), (Shape{2, 3}));
  EXPECT_EQ(Consumers(g)[static_cast<size_t>(g.inputs[0].index)].size(), 3u);
}

TEST(Graph, Names) {
  const Graph g = Small();
  EXPECT_EQ(Describe(g, NodeId(0)), "node \"/a/Relu.1\" (Relu)");
  EXPECT_EQ(Describe(g, NodeId(1)), "node of \"y\" (Add)");
  EXPECT_EQ(Describe(g, NodeId(2)), "node of \"u\" (com.x::Foo)");
  EXPECT_EQ(ShortName(g, NodeId(0)), "a_relu_1");
  EXPECT_EQ(ShortName(g, NodeId(1)), "y");
  EXPECT_EQ(NodeName(g, NodeId(0)), "/a/Relu.1");
  EXPECT_EQ(NodeName(g, NodeId(1)), "y");
}

TEST(Graph, OperatorsAreSortedAndKnown) {
  EXPECT_EQ(ParseOp("", "Conv"), Op::kConv);
  EXPECT_EQ(ParseOp("ai.onnx", "Div"), Op::kDiv);
  EXPECT_FALSE(ParseOp("", "Nothing"));
  EXPECT_FALSE(ParseOp("com.microsoft", "Conv"));
  std::string_view last;
#define WEFT_OP(name, domain)                                                                 \
  if (Op::k##name != Op::kUnknown) {                                                          \
    EXPECT_LT(last, OpName(Op::k##name));                                                     \
    EXPECT_EQ(FindSchema(OpName(Op::k##name)) == nullptr, std::string_view(domain) == "weft") \
        << #name;                                                                             \
    last = OpName(Op::k##name);                                                               \
  }
#include "graph/ops.def"
#undef WEFT_OP
}

TEST(Schema, ByOpset) {
  EXPECT_EQ(FindSchema("Clip", 10)->since, 6);
  EXPECT_EQ(FindSchema("Clip", 28)->since, 13);
  EXPECT_EQ(FindSchema("Gelu", 19), nullptr);
  EXPECT_TRUE(FindSchema("Upsample", 10)->deprecated);
  const Schema& conv = *FindSchema("Conv");
  EXPECT_TRUE(conv.Input(2)->optional);
  EXPECT_EQ(conv.Input(3), nullptr);
  EXPECT_TRUE(conv.Input(0)->dtypes & SetOf(Dtype::kF16));
  EXPECT_FALSE(conv.Input(0)->dtypes & SetOf(Dtype::kI32));
  EXPECT_TRUE(FindSchema("Concat")->Input(99)->variadic);
}

TEST(Schema, OfAText) {
  const Schema schema = ParseSchema("x:T scale?:=f32 axes:U zero?:T", "y:T rest*:T",
                                    "T=i8|u8 U=i64", "mode!:s axis:i");
  EXPECT_EQ(schema.min_inputs, 3);  // up to the axes
  EXPECT_EQ(schema.max_inputs, 4);
  EXPECT_EQ(schema.min_outputs, 1);
  EXPECT_EQ(schema.max_outputs, -1);
  EXPECT_EQ(schema.Input(1)->dtypes, SetOf(Dtype::kF32));
  Node node{.inputs = {ValueId(0), ValueId(), ValueId(1)}, .outputs = {ValueId(2)}};
  EXPECT_EQ(CheckAgainst(schema, node).ToString(), "required attribute \"mode\" is absent");
  SetAttribute(node, "mode", std::string("fast"));
  EXPECT_TRUE(CheckAgainst(schema, node).ok());
  SetAttribute(node, "axis", 1.0F);
  EXPECT_EQ(CheckAgainst(schema, node).ToString(),
            "attribute \"axis\" is a float, expected an integer");
}

TEST(Edit, DropDeadKeepsWhatSubgraphsCapture) {
  Graph g = Parsed(
      "graph g (c: bool[], x: f32[2]) -> (y) {\na = Relu(x)\nb = Neg(x)\ny = If(c) {else_branch = "
      "graph1, then_branch = graph2}\n"
      "subgraph graph1 no () -> (e) {\ncaptured a\ncaptured b\ne = Exp(a)\n}\nsubgraph graph2 yes "
      "() -> (t) {\ncaptured a\nt = Abs(a)\n}\n}");
  DropDead(g);
  EXPECT_EQ(OpsOf(g), "Relu If");
  EXPECT_TRUE(Verify(g).ok());
}

}  // namespace
}  // namespace weft::graph
