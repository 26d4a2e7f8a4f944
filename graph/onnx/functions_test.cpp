// Functions of models: calls become the nodes of bodies.

#include "graph/onnx/testing.h"

namespace weft::graph {
namespace {

using namespace testing;

onnx::FunctionProto Function(const std::string& name, const Strings& inputs, const Strings& outputs,
                             const std::vector<onnx::NodeProto>& nodes) {
  onnx::FunctionProto f;
  f.set_name(name);
  f.set_domain("f");
  for (const auto& i : inputs) f.add_input(i);
  for (const auto& o : outputs) f.add_output(o);
  for (const auto& n : nodes) *f.add_node() = n;
  f.add_opset_import()->set_version(17);
  auto* own = f.add_opset_import();
  own->set_domain("f");
  own->set_version(1);
  return f;
}
onnx::NodeProto Call(const std::string& name, const Strings& inputs, const Strings& outputs,
                     const std::vector<onnx::AttributeProto>& attributes = {}) {
  onnx::NodeProto node = NodeP(name, inputs, outputs, attributes);
  node.set_domain("f");
  return node;
}
onnx::ModelProto WithFunctions(const std::vector<onnx::NodeProto>& nodes,
                               const std::vector<onnx::FunctionProto>& functions) {
  onnx::ModelProto model = ModelOf(nodes);
  auto* import = model.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  for (const auto& f : functions) *model.add_functions() = f;
  return model;
}

TEST(Functions, AreExpanded) {
  auto leaky = NodeP("LeakyRelu", {"a"}, {"b"}, {FloatA("alpha", 0)});
  leaky.mutable_attribute(0)->clear_f();
  leaky.mutable_attribute(0)->set_ref_attr_name("slope");
  auto inner = Function("Inner", {"a", "unused"}, {"b"}, {leaky});
  inner.add_attribute("slope");
  auto call = Call("Inner", {"p"}, {"q"}, {FloatA("slope", 0.25f)});
  auto outer = Function("Outer", {"p"}, {"q", "p2"}, {call, NodeP("Identity", {"p"}, {"p2"})});
  const Graph g = Good(WithFunctions(
      {Call("Outer", {"x"}, {"t"}), Call("Outer", {"t"}, {"y", "z"})}, {inner, outer}));
  ASSERT_EQ(OpsOf(g), "LeakyRelu Identity LeakyRelu Identity");
  EXPECT_EQ(FloatAttr(g.nodes[0], "alpha", 0), 0.25f);
  EXPECT_EQ(g[g.outputs[0]].name, "y");
}

TEST(Functions, OnnxOwnBodies) {
  const Graph g = Good([] {
    onnx::ModelProto m = ModelOf({NodeP("HannWindow", {"n"}, {"y"})});
    onnx::TensorProto n = Floats("n", {}, {});
    n.set_data_type(onnx::TensorProto::INT64);
    n.add_int64_data(8);
    *m.mutable_graph()->add_initializer() = n;
    return m;
  }());
  EXPECT_EQ(OpsOf(g).find("HannWindow"), std::string::npos);
  EXPECT_GT(g.nodes.size(), 3u);
}

TEST(Functions, RecursionAndGrowthEnd) {
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})},
                              {Function("A", {"a"}, {"b"}, {Call("A", {"a"}, {"b"})})}),
                "calls itself");
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})},
                              {Function("A", {"a"}, {"b"}, {Call("B", {"a"}, {"b"})}),
                               Function("B", {"a"}, {"b"}, {Call("A", {"a"}, {"b"})})}),
                "calls itself");
  // through a subgraph
  const auto loop = NodeP("If", {"a"}, {"b"},
                          {GraphA("then_branch", Branch({Call("A", {"a"}, {"t"})}, "t")),
                           GraphA("else_branch", Branch({Call("A", {"a"}, {"e"})}, "e"))});
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})}, {Function("A", {"a"}, {"b"}, {loop})}),
                "calls itself");
  // each calls the next twice
  std::vector<onnx::FunctionProto> chain;
  for (int i = 0; i < 25; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    chain.push_back(Function("F" + std::to_string(i), {"a"}, {"b"},
                             {Call(next, {"a"}, {"t"}), Call(next, {"t"}, {"b"})}));
  }
  chain.push_back(Function("F25", {"a"}, {"b"}, {NodeP("Relu", {"a"}, {"b"})}));
  const auto refused =
      Imported(WithFunctions({Call("F0", {"x"}, {"y"})}, chain), "", {.max_nodes = 20'000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kLimit);
  // a long one
  std::vector<onnx::FunctionProto> deep;
  for (int i = 0; i < 5000; ++i)
    deep.push_back(Function("F" + std::to_string(i), {"a"}, {"b"},
                            {Call("F" + std::to_string(i + 1), {"a"}, {"b"})}));
  ExpectRefused(WithFunctions({Call("F0", {"x"}, {"y"})}, deep), "nest deeper");
}

TEST(Functions, WrongCalls) {
  const auto f = Function("A", {"a"}, {"b"}, {NodeP("Relu", {"a"}, {"b"})});
  ExpectRefused(WithFunctions({Call("A", {"x", "x"}, {"y"})}, {f}), "found 2 inputs");
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"}, {IntA("k", 1)})}, {f}), "has no attribute");
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})}, {f, f}), "defined twice");
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})},
                              {Function("A", {"a"}, {"b"}, {NodeP("Relu", {"x"}, {"b"})})}),
                "produced by nobody");
  ExpectRefused(WithFunctions({Call("A", {"x"}, {"y"})}, {Function("A", {"a"}, {"b"}, {})}),
                "produced by nobody");
}

// Nobody may read the output of a function before a node of its body makes it: not as an operand,
// through another call or from a branch.
TEST(Functions, OutputsAreReadBehindTheirNode) {
  const auto call = std::vector{Call("A", {"x"}, {"y"})};
  const auto with = [&](const std::vector<onnx::NodeProto>& nodes) {
    return WithFunctions(call,
                         {Function("A", {"a"}, {"b"}, nodes), Function("Same", {"a"}, {"a"}, {})});
  };
  const std::string early = "\"b\" is used before the node that defines it";
  ExpectRefused(with({NodeP("Relu", {"b"}, {"t"}), NodeP("Relu", {"t"}, {"b"})}), early);
  ExpectRefused(with({Call("Same", {"b"}, {"t"}), NodeP("Relu", {"t"}, {"b"})}), early);
  const auto branch = Branch({NodeP("Identity", {"b"}, {"q"})}, "q");
  ExpectRefused(with({NodeP("If", {"a"}, {"t"},
                            {GraphA("then_branch", branch), GraphA("else_branch", branch)}),
                      NodeP("Relu", {"t"}, {"b"})}),
                early);
}

}  // namespace
}  // namespace weft::graph
