#include <gtest/gtest.h>

#include "graph/edit.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

// The statements of a gather by constant indices along the last axis of 27 columns.
std::vector<Statement> Gathered(const std::vector<int64_t>& indices) {
  graph::Graph graph;
  const auto x = graph::AddInput(graph, "x", Dtype::kF32, {4, 27});
  const auto at = graph::AddConstant(graph, "at", graph::TensorOfInts(indices));
  const auto y = graph::AddNode(graph, graph::Op::kGather, {x, at}, "y", {{"axis", int64_t{1}}});
  graph[y].dtype = Dtype::kF32;
  graph[y].shape = {{4, std::ssize(indices)}};
  graph.outputs = {y};
  const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
  EXPECT_TRUE(alternatives.yes());
  return alternatives->at(0).program.statements;
}

TEST(Gather, ConstantIndicesThatCountUpAreCopied) {
  EXPECT_EQ(Gathered({3, 4, 5, 6, 7}).size(), 1u);  // a slice
  EXPECT_EQ(Gathered({3, 4, 5, 6, 20, 21, 22, 23}).size(), 2u);
  EXPECT_EQ(Gathered({0, 9, 10, 18, 19, 20, 21, 22, -4, -3, -2, -1}).size(), 3u);
  const auto looked_up = Gathered({3, 9, 1, 20, 4, 4, 5});  // runs too short
  EXPECT_EQ(looked_up.size(), 1u);
  EXPECT_EQ(looked_up[0].tag, Tag::kGather);
  std::vector<int64_t> many;
  for (int64_t run = 0; run < 40; ++run)
    for (int64_t i = 0; i < 5; ++i) many.push_back(run % 7 + i);
  EXPECT_EQ(Gathered(many).size(), 1u);
}

}  // namespace
}  // namespace weft::tc
