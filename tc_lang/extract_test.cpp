#include "tc_lang/test_util.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

graph::ValueId V(int i) { return graph::ValueId(static_cast<size_t>(i)); }

// A graph whose values have these names; Extract asks for nothing else.
graph::Graph Named(const std::vector<std::string>& names) {
  graph::Graph graph;
  for (const std::string& name : names) {
    graph::Value value;
    value.name = name;
    graph.values.push_back(std::move(value));
  }
  return graph;
}

Alternative Part(const std::string& text, std::vector<graph::ValueId> inputs,
                 std::vector<graph::ValueId> outputs, const std::vector<std::string>& params = {}) {
  Result<Program> program = BindText(text, {}, params);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return {"direct", *std::move(program), std::move(inputs), std::move(outputs)};
}

TEST(Extract, JoinsWhatSharesValues) {
  const graph::Graph graph =
      Named({"x", "/fc/weight", "/fc/MatMul_output_0", "/act/Relu_output_0", "m"});
  const Alternative fc =
      Part("def fc(float(2, 3) X, float(3, 2) W) -> (Y) { Y(m, n) +=! X(m, k) * W(k, n)  # /fc\n}",
           {V(0), V(1)}, {V(2)});
  const Alternative relu = Part(
      "def relu(float(2, 2) X) -> (Y) { Y(i, j) = max(X(i, j), 0.0)  # /act\n}", {V(2)}, {V(3)});
  const Alternative add =
      Part("def add(float(2, 2) A, float(2, 2) B) -> (Y) { Y(i, j) = A(i, j) + B(i, j) }",
           {V(3), V(3)}, {V(4)});
  // A translator names the same value once; here it is twice on purpose.
  const std::vector<const Alternative*> parts = {&fc, &relu, &add};
  const auto group = Extract(graph, parts, {}, "g 0");
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  EXPECT_EQ(group->inputs, (std::vector<graph::ValueId>{V(0), V(1)}));
  EXPECT_EQ(group->outputs, std::vector<graph::ValueId>{V(4)});
  EXPECT_EQ(Print(group->program),
            "def g_0(float(2, 3) x, float(3, 2) fc_weight) -> (float(2, 2) m_2) {\n"
            "  @contraction fc_MatMul_output_0(m, n) +=! x(m, k) * fc_weight(k, n) where m in 0:2, "
            "n in 0:2, k in 0:3  # /fc\n"
            "  @pointwise act_Relu_output_0(i, j) = max(fc_MatMul_output_0(i, j), 0.0) where i in "
            "0:2, j in 0:2  # /act\n"
            "  @pointwise m_2(i, j) = act_Relu_output_0(i, j) + act_Relu_output_0(i, j) where i in "
            "0:2, j in 0:2\n"
            "}\n");
  const auto out =
      Interpret(group->program, std::vector<Tensor>{Floats({2, 3}, {1, 1, 1, -1, -1, -1}),
                                                    Floats({3, 2}, {1, 2, 1, 2, 1, 2})});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(Values(out->at(0)), (std::vector<double>{6, 12, 0, 0}));
}

TEST(Extract, KeptValuesAndUnreadOnesAreOutputs) {
  const graph::Graph graph = Named({"x", "a", "b", "c"});
  const Alternative one =
      Part("def one(float(2) X) -> (Y, Z) { t(i) = X(i) + 1.0 Y(i) = t(i) Z(i) = t(i) * 2.0 }",
           {V(0)}, {V(1), V(2)});
  const Alternative two =
      Part("def two(float(2) X) -> (Y) { t(i) = X(i) * 3.0 Y(i) = t(i) }", {V(1)}, {V(3)});
  const std::vector<const Alternative*> parts = {&one, &two};
  const auto plain = Extract(graph, parts, {}, "g");
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(plain->outputs, (std::vector<graph::ValueId>{V(2), V(3)}));
  const std::vector<graph::ValueId> kept = {V(1)};
  const auto more = Extract(graph, parts, kept, "g");
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->outputs, (std::vector<graph::ValueId>{V(1), V(2), V(3)}));
  EXPECT_EQ(Values(Interpret(more->program, std::vector<Tensor>{Floats({2}, {0, 1})})->at(2)),
            (std::vector<double>{3, 6}));
}

TEST(Extract, ParamsMeetByName) {
  const graph::Graph graph = Named({"x", "a", "b"});
  const Alternative one = Part("def one(float(batch, 2) X) -> (Y) { Y(i, j) = X(i, j) + 1.0 }",
                               {V(0)}, {V(1)}, {"batch"});
  const Alternative two =
      Part("def two(float(batch, 2) X) -> (Y) { Y(i, j) = X(i, j) / float(batch) }", {V(1)}, {V(2)},
           {"batch"});
  const std::vector<const Alternative*> parts = {&one, &two};
  const auto group = Extract(graph, parts, {}, "g");
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  EXPECT_EQ(group->program.params, std::vector<std::string>{"batch"});
  const Result<Program> again = Parse(Print(group->program), "again");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(Equal(group->program, *again));
}

TEST(Extract, RefusesWhatDoesNotFit) {
  const graph::Graph graph = Named({"x", "a", "b"});
  const Alternative one = Part("def one(float(2) X) -> (Y) { Y(i) = X(i) }", {V(0)}, {V(1)});
  const Alternative other = Part("def two(float(3) X) -> (Y) { Y(i) = X(i) }", {V(1)}, {V(2)});
  for (const auto& parts :
       {std::vector<const Alternative*>{&one, &other}, {&one, &one}, {&other, &one}}) {
    EXPECT_FALSE(Extract(graph, parts, {}, "g").ok());
  }
}

}  // namespace
}  // namespace weft::tc
