// Operators that have comprehensions, by every alternative: mapped, and what it computes is
// what the comprehension says (which tests/oracle/ops_test.cpp compares with ONNX).
#include <fmt/format.h>

#include <iostream>

#include "tc_lang/to_tc.h"
#include "tests/cuda/batch.h"
#include "tests/oracle/op_cases.h"

namespace weft::cuda_test {
namespace {

using oracle::OpCase;

std::vector<Tensor> InputsOf(const OpCase& c, const graph::Graph& graph,
                             const tc::Alternative& alternative) {
  std::vector<Tensor> inputs;
  for (const graph::ValueId v : alternative.inputs) {
    const auto place = std::ranges::find(graph.inputs, v);
    const auto k = static_cast<size_t>(place - graph.inputs.begin());
    inputs.push_back(k == graph.inputs.size() ? graph[v].constant
                                              : oracle::FromBytes(graph[v], c.inputs[k]));
  }
  return inputs;
}

// The alternatives of the case's last node; none if it has no comprehension.
std::vector<tc::Alternative> AlternativesOf(const OpCase& c, graph::Graph& graph) {
  auto parsed = graph::ParseGraph(c.graph, c.name, BlobStore());
  if (!parsed.ok()) return {};
  graph = *std::move(parsed);
  tc::PrepareConstants(graph, tc::Winograd::kAlways);
  tc::PrepareSums(graph);
  tc::PrepareDequantized(graph);
  auto alternatives = tc::ToTc(graph, graph::NodeId(graph.nodes.size() - 1));
  return alternatives.yes() ? *std::move(alternatives) : std::vector<tc::Alternative>{};
}

// Of so many cases one is taken, or all if WEFT_OP_CASE chooses ("_" does: all of them).
constexpr size_t kEvery = 16;

TEST(CudaOps, WhatMapsIsRight) {
  constexpr size_t kAtOnce = 100;
  std::map<std::string, int> skipped, refused;
  int mapped = 0;
  Batch batch;
  const std::vector<OpCase> cases = oracle::ReadOpCases(skipped);
  for (size_t i = 0; i < cases.size(); i += oracle::SomeCasesOnly() ? 1 : kEvery) {
    const OpCase& c = cases[i];
    graph::Graph graph;
    for (tc::Alternative& alternative : AlternativesOf(c, graph)) {
      std::vector<Tensor> inputs = InputsOf(c, graph, alternative);
      const auto mapping = batch.Add(fmt::format("{} ({})", c.name, alternative.name),
                                     std::move(alternative.program), std::move(inputs));
      if (mapping.ok())
        ++mapped;
      else
        ++refused[mapping.status().what()];
    }
    if (batch.size() < kAtOnce) continue;
    batch.ExpectRight();
    batch = {};
  }
  batch.ExpectRight();
  EXPECT_GT(mapped, oracle::SomeCasesOnly() ? 0 : 100);
  std::cout << fmt::format("{} alternatives mapped\n", mapped);
  for (const auto& [why, count] : refused)
    std::cout << fmt::format("  {} refused: {}\n", count, why);
}

}  // namespace
}  // namespace weft::cuda_test
