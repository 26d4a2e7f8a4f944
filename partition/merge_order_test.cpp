#include "partition/merge_order.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "graph/edit.h"

namespace weft::partition {
namespace {

using graph::ValueId;

bool IsAcyclic(const Clusters& clusters) {
  size_t sets = 0;
  for (size_t s = 0; s < clusters.size(); ++s)
    sets += !clusters.Members(static_cast<int32_t>(s)).empty();
  return clusters.TopologicalOrder().size() == sets;
}

// Whether a path from one of the sets back to one of them leads outside: by looking everywhere.
bool SearchedPathAround(const Clusters& clusters, std::span<const int32_t> sets) {
  const std::set<int32_t> inside(sets.begin(), sets.end());
  std::set<int32_t> seen;
  std::vector<int32_t> todo;
  const auto leave = [&](int32_t set) {
    for (const int32_t r : clusters.Readers(set))
      if (!inside.contains(r) && seen.insert(r).second) todo.push_back(r);
  };
  for (const int32_t set : sets) leave(set);
  while (!todo.empty()) {
    const int32_t set = todo.back();
    todo.pop_back();
    for (const int32_t r : clusters.Readers(set))
      if (inside.contains(r)) return true;
    leave(set);
  }
  return false;
}

// {c, v} is entered by its late node and left by its early one: the way from a through u to b leads
// past the end of b in the graph's order.
TEST(MergeOrder, SeesPathsThroughLaterNodes) {
  auto graph = graph::ParseGraph(
      "graph g (x: f32[4]) -> (b, v) {\na: f32[4] = Relu(x)\nc: f32[4] = Exp(x)\n"
      "b: f32[4] = Add(a, c)\nu: f32[4] = Tanh(a)\nv: f32[4] = Add(u, c)\n}",
      "test", BlobStore());
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  const GraphFacts facts(*graph);
  Clusters clusters(facts);
  MergeOrder order(clusters);
  constexpr int32_t kA = 0, kC = 1, kB = 2, kU = 3, kV = 4;
  constexpr std::array kAB = {kA, kB}, kCV = {kC, kV}, kCB = {kC, kB};
  EXPECT_FALSE(order.PathAround(kAB));
  EXPECT_FALSE(order.PathAround(kCV));
  EXPECT_EQ(order.Merge(kCV), kC);
  EXPECT_TRUE(order.PathAround(kAB));
  EXPECT_TRUE(order.PathAround(std::array{kA, kC}));
  EXPECT_FALSE(order.PathAround(kCB));
  EXPECT_FALSE(order.PathAround(std::array{kA, kU, kC}));
  EXPECT_FALSE(order.PathAround(std::array{kU, kC}));
  EXPECT_EQ(order.Merge(std::array{kA, kU, kC}), kA);
  EXPECT_TRUE(IsAcyclic(clusters));
}

TEST(MergeOrder, AgreesWithASearchOfEverything) {
  int refused = 0, merged = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    graph::Graph graph{.name = "dag"};
    std::vector<ValueId> values = {graph::AddInput(graph, "x", Dtype::kF32, {4})};
    for (size_t i = 0, count = 5 + below(60); i < count; ++i) {
      const auto near = [&] {
        return values[values.size() - 1 - below(std::min<size_t>(values.size(), 9))];
      };
      values.push_back(graph::AddNode(graph, graph::Op::kAdd, {near(), near()}, std::to_string(i)));
    }
    graph.outputs = {values.back()};
    const GraphFacts facts(graph);
    Clusters clusters(facts);
    MergeOrder order(clusters);
    for (int trial = 0; trial < 60; ++trial) {
      std::set<int32_t> chosen;
      for (size_t k = 0, count = 2 + below(3); k < count; ++k)
        chosen.insert(clusters.Of(graph::NodeId(below(graph.nodes.size()))));
      const std::vector<int32_t> sets(chosen.begin(), chosen.end());
      const bool around = order.PathAround(sets);
      ASSERT_EQ(around, SearchedPathAround(clusters, sets)) << "seed " << seed;
      ++(around ? refused : merged);
      if (around) continue;
      EXPECT_EQ(order.Merge(sets), sets[0]);
      ASSERT_TRUE(IsAcyclic(clusters)) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(merged, 1000);
}

}  // namespace
}  // namespace weft::partition
