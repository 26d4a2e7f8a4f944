// The nodes of a subgraph, put into the graph around it.
#pragma once

#include <span>
#include <vector>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {

class Inliner {
 public:
  // Nodes go before `at`, the node that has the body.
  Inliner(Rewriter& r, NodeId at, const Graph& body);
  // One more copy of the body's nodes, on these inputs; returns its outputs. Constants are shared.
  std::vector<ValueId> Run(std::span<const ValueId> inputs = {});
  // Every read of the node's output becomes one of `from`, by a copy where a name can't move.
  void Give(ValueId output, ValueId from);

 private:
  // Subgraphs capture by name, and the copy's values have other names than the body's.
  void RenameIn(Node& node, const std::vector<ValueId>& now) const;
  Rewriter& r_;
  NodeId at_;
  const Graph& body_;
  std::vector<ValueId> around_;  // by value of the body: what it is in every copy
};

}  // namespace weft::graph
