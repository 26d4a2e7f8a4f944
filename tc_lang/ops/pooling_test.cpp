#include <gtest/gtest.h>

#include "graph/edit.h"
#include "tc_lang/to_tc.h"

namespace weft::tc {
namespace {

// The last of the ways to pool windows of k*k places, s apart, in images of 64x64.
std::string LastWay(graph::Op op, Dtype dtype, int64_t k, int64_t s) {
  graph::Graph graph;
  const int64_t out = (64 - k) / s + 1;
  const auto x = graph::AddInput(graph, "x", dtype, {1, 3, 64, 64});
  const auto y = graph::AddNode(
      graph, op, {x}, "y",
      {{"kernel_shape", std::vector<int64_t>{k, k}}, {"strides", std::vector<int64_t>{s, s}}});
  graph[y].dtype = dtype;
  graph[y].shape = {{1, 3, out, out}};
  graph.outputs = {y};
  const auto alternatives = ToTc(graph, graph::NodeId(size_t{0}));
  EXPECT_TRUE(alternatives.yes());
  return std::string(alternatives->back().name);
}

// Along one axis after the other where that takes fewer elements: by far, if windows leave places
// out, whose rows nobody asks for.
TEST(Pooling, WindowsGoByAxis) {
  for (const graph::Op op : {graph::Op::kMaxPool, graph::Op::kAveragePool}) {
    EXPECT_EQ(LastWay(op, Dtype::kF32, 2, 1), "direct");
    EXPECT_EQ(LastWay(op, Dtype::kF32, 3, 1), "by_axis");
    EXPECT_EQ(LastWay(op, Dtype::kF32, 2, 2), "direct");
    EXPECT_EQ(LastWay(op, Dtype::kF32, 3, 2), "direct");
    EXPECT_EQ(LastWay(op, Dtype::kF32, 4, 2), "by_axis");
  }
  EXPECT_EQ(LastWay(graph::Op::kMaxPool, Dtype::kF16, 3, 1), "by_axis");
  EXPECT_EQ(LastWay(graph::Op::kAveragePool, Dtype::kF16, 3, 1), "direct");  // would round twice
}

}  // namespace
}  // namespace weft::tc
