// Each rule of Verify, by a graph that breaks it.

#include <functional>

#include "graph/infer.h"
#include "graph/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

void ExpectBroken(const std::function<void(Graph&)>& harm, const std::string& part) {
  Graph g = Parsed(
      "graph g (x: f32[b]) -> (y) {\nsymbol b in 1:9\nc: f32[2] = const(1, 2)\na = Relu(x)\ny = "
      "Add(a, c)\n}");
  ASSERT_TRUE(Verify(g).ok());
  harm(g);
  const Status status = Verify(g);
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.ToString().find(part), std::string::npos) << status.ToString();
}

TEST(Verify, EachRule) {
  ExpectBroken([](Graph& g) { g.nodes[0].inputs[0] = ValueId(99); }, "no value of the graph");
  ExpectBroken([](Graph& g) { g.nodes[0].outputs[0] = ValueId(99); }, "no value of the graph");
  ExpectBroken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }, "used before");
  ExpectBroken([](Graph& g) { g.nodes[1].outputs = g.nodes[0].outputs; }, "two producers");
  ExpectBroken([](Graph& g) { g.nodes.pop_back(); }, "nobody");
  ExpectBroken([](Graph& g) { g.values[0].name = "a"; }, "defined twice");
  ExpectBroken([](Graph& g) { g.values[0].name = ""; }, "no name");
  ExpectBroken([](Graph& g) { g[FindValue(g, "c")].dtype = Dtype::kF64; }, "element type");
  ExpectBroken([](Graph& g) { (*g[FindValue(g, "c")].shape)[0] = 3; }, "shape");
  ExpectBroken([](Graph& g) { g.outputs[0] = ValueId(); }, "no value of the graph");
  ExpectBroken([](Graph& g) { g.inputs.clear(); }, "used before");
  ExpectBroken([](Graph& g) { g.inputs.push_back(g.inputs[0]); }, "input twice");
  ExpectBroken([](Graph& g) { g.nodes[0].inputs.clear(); }, "found 0 inputs, expected 1");
  ExpectBroken([](Graph& g) { g.nodes[0].outputs.clear(); }, "found 0 outputs");
  ExpectBroken([](Graph& g) { SetAttribute(g.nodes[0], "alpha", 1.0f); }, "unknown attribute");
  ExpectBroken([](Graph& g) { g.nodes[0].domain = "x"; }, "known and has the domain");
  ExpectBroken(
      [](Graph& g) {
        g.nodes[0].op = Op::kUnknown;
        g.nodes[0].domain = "a:";
      },
      "holds a colon");
  ExpectBroken([](Graph& g) { g.symbols[0].max = 0; }, "range");
  ExpectBroken([](Graph& g) { g[g.inputs[0]].shape = {{SymbolId(7)}}; }, "unknown extent");
  ExpectBroken([](Graph& g) { g.values.push_back({.name = "k", .kind = ValueKind::kCaptured}); },
               "captured");
}

TEST(Verify, ShapesAreThoseOfInference) {
  Graph g = Parsed("graph g (x: f32[2, 3]) -> (y) {\ny: f32[3, 2] = Transpose(x)\n}");
  EXPECT_TRUE(VerifyShapes(g).ok());
  (*g[g.outputs[0]].shape)[0] = 4;
  EXPECT_FALSE(VerifyShapes(g).ok());
}

}  // namespace
}  // namespace weft::graph
