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

onnx::AttributeProto Reference(const std::string& name, onnx::AttributeProto::AttributeType type,
                               const std::string& to) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  a.set_ref_attr_name(to);
  return a;
}

TEST(Functions, AttributesAreDeclaredOnceAndOfOneType) {
  const auto kInts = onnx::AttributeProto::INTS;
  const auto with = [&](const onnx::AttributeProto& perm, const Strings& declared,
                        const std::vector<onnx::AttributeProto>& defaults) {
    auto f = Function("A", {"a"}, {"b"}, {NodeP("Transpose", {"a"}, {"b"}, {perm})});
    for (const std::string& name : declared) f.add_attribute(name);
    for (const auto& otherwise : defaults) *f.add_attribute_proto() = otherwise;
    return WithFunctions({Call("A", {"x"}, {"y"})}, {f});
  };
  const auto p = Reference("perm", kInts, "p"), order = IntsA("p", {1, 0});
  EXPECT_EQ(IntsAttr(Good(with(p, {"p"}, {})).nodes[0], "perm"), std::vector<int64_t>{});
  EXPECT_EQ(IntsAttr(Good(with(p, {}, {order})).nodes[0], "perm"), (std::vector<int64_t>{1, 0}));
  ExpectRefused(with(p, {"q"}, {}), "does not declare");
  ExpectRefused(with(p, {"p"}, {order}), "attribute \"p\" is declared twice");
  ExpectRefused(with(p, {}, {order, order}), "attribute \"p\" is declared twice");
  ExpectRefused(with(p, {"q"}, {Reference("p", kInts, "q")}), "refers to another attribute");
  ExpectRefused(with(Reference("perm", onnx::AttributeProto::FLOAT, "p"), {}, {order}),
                "is INTS, expected FLOAT");
  auto both = p;
  both.add_ints(1);
  ExpectRefused(with(both, {}, {order}), "has a value of its own");
}

// A default is of the function: it sees what the body sees, and each call has it anew.
TEST(Functions, GraphsByDefault) {
  auto branch = Branch({NodeP("Add", {"a", "w"}, {"q"})}, "q");
  onnx::TensorProto w = Floats("w", {2, 3}, {});
  w.set_raw_data(std::string(24, '\0'));
  *branch.add_initializer() = w;
  const auto kGraph = onnx::AttributeProto::GRAPH;
  auto f = Function(
      "A", {"a", "c"}, {"b"},
      {NodeP("If", {"c"}, {"b"},
             {Reference("then_branch", kGraph, "g"), Reference("else_branch", kGraph, "g")})});
  *f.add_attribute_proto() = GraphA("g", branch);
  auto model = WithFunctions({Call("A", {"x", "c"}, {"t"}), Call("A", {"t", "c"}, {"y"})}, {f});
  *model.mutable_graph()->add_input() = ValueP("c", {}, onnx::TensorProto::BOOL);
  EXPECT_EQ(OpsOf(Good(model)), "If If");
}

// A graph that a call gives may stand in a branch of the body, whose graphs then hand on what it
// captures.
TEST(Functions, GraphsInBranches) {
  const auto kGraph = onnx::AttributeProto::GRAPH;
  const auto given =
      NodeP("If", {"c"}, {"p"},
            {Reference("then_branch", kGraph, "g"), Reference("else_branch", kGraph, "g")});
  const auto branch = Branch({given}, "p");
  auto f = Function(
      "A", {"c"}, {"b"},
      {NodeP("If", {"c"}, {"b"}, {GraphA("then_branch", branch), GraphA("else_branch", branch)})});
  f.add_attribute("g");
  const auto neg = GraphA("g", Branch({NodeP("Neg", {"x"}, {"n"})}, "n"));
  auto model = WithFunctions({Call("A", {"c"}, {"y"}, {neg})}, {f});
  *model.mutable_graph()->add_input() = ValueP("c", {}, onnx::TensorProto::BOOL);
  Graph g = Good(model);
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeOf(g, "y"), "f32[2, 3]");
}

// A body may call its own values as the caller calls what it captures.
TEST(Functions, NamesOfTheCallerInBodies) {
  onnx::GraphProto body;
  *body.add_input() = ValueP("i", {}, onnx::TensorProto::INT64);
  *body.add_input() = ValueP("on", {}, onnx::TensorProto::BOOL);
  *body.add_input() = ValueP("x", {2, 3});
  *body.add_node() = NodeP("Identity", {"on"}, {"still"});
  *body.add_node() = NodeP("Sub", {"x", "a"}, {"next"});
  *body.add_output() = ValueP("still", {}, onnx::TensorProto::BOOL);
  *body.add_output() = ValueP("next", {2, 3});
  const auto f = Function(
      "A", {"a", "m"}, {"b"},
      {NodeP("Neg", {"a"}, {"v"}), NodeP("Loop", {"m", "", "v"}, {"b"}, {GraphA("body", body)})});
  auto model = WithFunctions({Call("A", {"x", "m"}, {"y"})}, {f});
  *model.mutable_graph()->add_input() = ValueP("m", {}, onnx::TensorProto::INT64);
  const Graph g = Good(model);
  ASSERT_EQ(OpsOf(g), "Neg Loop");
  const Graph& inner = *Subgraphs(g.nodes[1])[0];
  ASSERT_EQ(OpsOf(inner), "Identity Sub");
  const Node& sub = inner.nodes[1];
  EXPECT_EQ(sub.inputs[0], inner.inputs[2]);
  EXPECT_EQ(inner[sub.inputs[1]].kind, ValueKind::kCaptured);
  EXPECT_EQ(inner[sub.inputs[1]].name, "x");
}

TEST(Functions, DomainsAreImported) {
  auto f = Function("A", {"a"}, {"b"}, {NodeP("Relu", {"a"}, {"b"})});
  auto model = WithFunctions({Call("A", {"x"}, {"y"})}, {f});
  model.mutable_opset_import()->RemoveLast();
  ExpectRefused(model, "domain \"f\" is not imported");
}

// A file pays once for what each call has anew.
TEST(Functions, CallsAreBounded) {
  const auto refusal = [](const onnx::FunctionProto& f) {
    std::vector<onnx::NodeProto> calls;
    for (int i = 0; i < 100; ++i)
      calls.push_back(Call(f.name(), {i == 0 ? "x" : "t" + std::to_string(i - 1)},
                           {i == 99 ? "y" : "t" + std::to_string(i)}));
    const auto graph = Imported(WithFunctions(calls, {f}), "", {.max_expanded = 1 << 19});
    return graph.ok() ? "accepted" : graph.status().ToString();
  };
  const std::string bounded = "functions expand to more than";
  const auto relu = NodeP("Relu", {"a"}, {"b"});
  EXPECT_EQ(refusal(Function("A", {"a"}, {"b"}, {relu})), "accepted");
  EXPECT_NE(refusal(Function(std::string(10'000, 'A'), {"a"}, {"b"}, {relu})).find(bounded),
            std::string::npos);
  const std::vector<int64_t> list(10'000, 1);
  EXPECT_NE(refusal(Function("A", {"a"}, {"b"},
                             {relu, NodeP("Constant", {}, {"c"}, {IntsA("value_ints", list)})}))
                .find(bounded),
            std::string::npos);
  onnx::AttributeProto constant;  // whose elements all calls share
  constant.set_name("value");
  constant.set_type(onnx::AttributeProto::TENSOR);
  *constant.mutable_t() = Floats("", {10'000}, std::vector<float>(10'000, 1));
  EXPECT_EQ(refusal(Function("A", {"a"}, {"b"}, {relu, NodeP("Constant", {}, {"c"}, {constant})})),
            "accepted");
}

}  // namespace
}  // namespace weft::graph
