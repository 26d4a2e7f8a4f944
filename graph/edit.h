// Small tools for whoever builds or changes a Graph: the importer, the rewrites, tests.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "graph/graph.h"

namespace weft::graph {

// The names that a graph's values have, to make new ones that differ.
class Names {
 public:
  // `around` are those of the graph around this one, which this one may yet capture: they are taken
  // too, and are asked as they are then.
  explicit Names(const Graph& graph, const Names* around = nullptr);
  void Add(std::string_view name) { taken_.emplace(name); }
  bool Has(const std::string& name) const {
    return taken_.contains(name) || (around_ && around_->Has(name));
  }
  // `base` itself if it is free, otherwise base with a number; taken from then on.
  std::string Fresh(std::string_view base);

 private:
  const Names* around_ = nullptr;
  std::unordered_set<std::string> taken_;
};

ValueId AddInput(Graph& graph, std::string name, Dtype dtype, std::vector<Extent> shape);
ValueId AddConstant(Graph& graph, std::string name,
                    Tensor tensor);  // shape and dtype are the tensor's
ValueId AddComputed(Graph& graph, std::string name);
SymbolId AddSymbol(Graph& graph, std::string name, int64_t min = 0, int64_t max = INT32_MAX);
// Appends the node and makes it the producer of its outputs.
NodeId AddNode(Graph& graph, Node node);
// The same with one new output.
ValueId AddNode(Graph& graph, Op op, std::vector<ValueId> inputs, std::string output,
                std::vector<Attribute> attributes = {});

std::vector<Extent> ExtentsOf(std::span<const int64_t> shape);
Tensor TensorOfInts(std::span<const int64_t> values);  // i64, rank 1
Tensor TensorOfScalar(Dtype dtype, double value);      // rank 0

// The subgraphs among a node's attributes, in the order of their names.
std::vector<std::shared_ptr<Graph>> Subgraphs(const Node& node);
// A copy that shares no subgraph with the original.
Graph Clone(const Graph& graph);
// Values of the graph that some subgraph of it captures, by value.
std::vector<bool> CapturedByName(const Graph& graph);

// Keeps only what the outputs need (inputs stay), in subgraphs first, and renumbers.
void DropDead(Graph& graph);
// Puts nodes[order[k]] at place k.
void Reorder(Graph& graph, std::span<const NodeId> order);

}  // namespace weft::graph
