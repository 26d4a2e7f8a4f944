// What the tests of this folder share. Not for use outside of them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "graph/edit.h"
#include "graph/graph.h"
#include "graph/simplify.h"

namespace weft::graph::testing {

// A graph from its text, which must be right.
inline Graph Parsed(const std::string& text) {
  auto graph = ParseGraph(text, "test.graph", BlobStore());
  EXPECT_TRUE(graph.ok()) << graph.status().ToString();
  return graph.ok() ? *std::move(graph) : Graph();
}

inline std::string Printed(const Graph& graph) {
  BlobStore blobs;
  return Print(graph, blobs);
}

// The operators in order: "Conv Relu Add".
inline std::string OpsOf(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    out += (out.empty() ? "" : " ") +
           (node.op == Op::kUnknown ? node.op_name : std::string(OpName(node.op)));
  }
  return out;
}

inline std::string TypeOf(const Graph& graph, std::string_view name) {
  const ValueId id = FindValue(graph, name);
  if (!id.valid()) return "absent";
  const Value& value = graph[id];
  std::string out(value.dtype ? DtypeName(*value.dtype) : "_");
  if (!value.shape) return out;
  out += "[";
  for (size_t i = 0; i < value.shape->size(); ++i) {
    const Extent extent = (*value.shape)[i];
    out += (i > 0 ? ", " : "") +
           (extent.IsConstant() ? std::to_string(extent.value())
                                : graph.symbols[static_cast<size_t>(extent.symbol().index)].name);
  }
  return out + "]";
}

// Computes nothing: folding then rests on what inference knows.
inline Result<std::vector<Tensor>> Refuse(const Graph&, const Node&,
                                          std::span<const Tensor* const>) {
  return Unsupported("no kernels here");
}

inline Graph Simplified(const std::string& text, const Evaluator& evaluate = Refuse) {
  Graph graph = Parsed(text);
  const Status status = Simplify(graph, evaluate);
  EXPECT_TRUE(status.ok()) << status.ToString();
  const Status verified = Verify(graph);
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  return graph;
}

// A plain interpreter for the few operators that the rewrites' tests use, in f64.
using Values = std::map<std::string, std::vector<double>>;
Values Run(const Graph& graph, const Values& inputs);
// Simplified and not, the outputs agree on made-up inputs.
void ExpectSameResults(const Graph& before, const Graph& after, double tolerance = 1e-6);

}  // namespace weft::graph::testing
