// Graphs that are partitioned by made-up prices: what tests share.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/infer.h"
#include "partition/partition.h"

namespace weft::partition {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

inline Graph Parsed(const std::string& text) {
  auto graph = graph::ParseGraph(text, "test.graph", BlobStore());
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_TRUE(graph::InferShapes(*graph).ok());
  return *std::move(graph);
}

inline NodeComprehensions ComprehensionsOf(const Graph& graph) {
  NodeComprehensions c{.of = std::vector<std::vector<tc::Alternative>>(graph.nodes.size()),
                       .refusals = std::vector<std::optional<Refusal>>(graph.nodes.size())};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto alternatives = tc::ToTc(graph, NodeId(i));
    if (alternatives.yes())
      c.of[i] = *std::move(alternatives);
    else
      c.refusals[i] = alternatives.refusal();
  }
  return c;
}

// Any kernel costs the same, so that all fuses that may.
struct Flat : Pricer {
  Price Own(const tc::Program&, bool) override { return {.us = 1}; }
  Price Call(const fallback::LibraryCall&) override { return {.us = 100}; }
};

// A kernel costs the square of its statements, so that nothing fuses.
struct Square : Flat {
  Price Own(const tc::Program& p, bool) override {
    return {.us = static_cast<double>(p.statements.size() * p.statements.size())};
  }
};

inline Result<Grouping> Grouped(const Graph& graph, Pricer&& pricer = Flat(),
                                const PartitionOptions& options = {.vendor = false},
                                const Target& target = {}) {
  auto grouping = Partition(graph, ComprehensionsOf(graph), target, pricer, options);
  if (!grouping.ok()) return grouping;
  const Status verified = Verify(*grouping, graph);
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  auto again = ParseGrouping(Print(*grouping, graph), "again", graph);
  EXPECT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again.ok() ? Print(*again, graph) : "", Print(*grouping, graph));
  return grouping;
}

// Of groups; what speaks of one node is about its alternatives.
inline std::set<std::string> ReasonsOf(const Result<Grouping>& grouping) {
  EXPECT_TRUE(grouping.ok()) << grouping.status().ToString();
  std::set<std::string> reasons;
  for (const Refused& r : grouping->refused)
    if (r.nodes.size() > 1) reasons.emplace(ReasonName(r.refusal.reason));
  return reasons;
}

inline const std::set<std::string> kNone;
inline std::set<std::string> Only(std::string reason) { return {std::move(reason)}; }

inline const std::string kChain =
    "graph g (x: f32[4, 8]) -> (c) {\na = Relu(x)\nb = Exp(a)\nc = Tanh(b)\n}";
inline const std::string kSoftmax =
    "graph g (x: f32[4, 1000]) -> (b) {\na = Relu(x)\nb = Softmax(a)\n}";

}  // namespace weft::partition
