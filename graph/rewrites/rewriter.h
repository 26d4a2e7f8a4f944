// What the rewrites share: a view of the graph with its uses, and changes that are applied
// together.
//
// A rewrite walks the nodes in order and changes them in place, reroutes values (Replace) or adds
// nodes (Insert); Finish() carries all of it out in one sweep, so a pass costs linear time. A node
// that is changed in place only gets operands that are defined before it, hence the order stays
// topological.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "graph/edit.h"
#include "graph/graph.h"
#include "graph/simplify.h"

namespace weft::graph {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  // The producer of a value, if it is a node of this operator.
  const Node* Def(ValueId id, Op op) const;
  const Node* Def(ValueId id) const;
  // Reads by nodes, by the graph's outputs and by subgraphs.
  size_t Uses(ValueId id) const { return uses_[static_cast<size_t>(id.index)]; }
  bool IsOutput(ValueId id) const { return output_[static_cast<size_t>(id.index)]; }
  // The only node that reads the value, if it is neither an output nor read elsewhere.
  NodeId OnlyUser(ValueId id) const;

  // Every read of `from` becomes one of `to`. False if the names of outputs forbid it.
  bool Replace(ValueId from, ValueId to);
  ValueId Resolve(ValueId id) const;  // through what was replaced so far
  ValueId NewConstant(std::string_view name, Tensor tensor);
  ValueId NewComputed(std::string_view name);  // whose producer comes with InsertNode
  // A new node before `at`; returns its output, with the type of `like`.
  ValueId Insert(NodeId at, Op op, std::vector<ValueId> inputs, std::string_view name, ValueId like,
                 std::vector<Attribute> attributes = {});
  void InsertNode(NodeId at, Node node) { inserted_.emplace_back(at, std::move(node)); }
  // The node becomes another one with the same outputs.
  void Become(NodeId id, Op op, std::vector<ValueId> inputs,
              std::vector<Attribute> attributes = {});
  // The node becomes a copy of another one, of another first operand: what it asks of its operands
  // stays as it was, its errors at run time with it.
  void BecomeLike(NodeId id, const Node& other, ValueId first);
  void Changed() { ++changes_; }
  Names& names();

  // Applies what was asked for, drops what died; how often something changed.
  int Finish();

  Graph& graph;

 private:
  void Grow();
  void FixSubgraphs(const std::vector<std::string>& old_names);
  std::vector<uint32_t> uses_;
  std::vector<NodeId> user_;  // the last reader
  std::vector<bool> output_;
  std::vector<ValueId> forward_;  // invalid: itself
  std::vector<std::pair<NodeId, Node>> inserted_;
  std::optional<Names> names_;  // most passes name nothing
  int changes_ = 0;
};

// Values as another type of float, each converted once: constants here, others by a Cast in front
// of the node that asks first. Their names end in `suffix`.
class Conversion {
 public:
  Conversion(Rewriter& rewriter, Dtype to, std::string_view suffix)
      : r_(rewriter), to_(to), suffix_(suffix) {}
  ValueId Of(NodeId at, ValueId v);

 private:
  Rewriter& r_;
  const Dtype to_;
  const std::string suffix_;
  std::unordered_map<int32_t, ValueId> known_;  // by value
};

// Captured values of a subgraph get the names that the graph around it now uses, by those it used.
void RenameCaptured(Graph& graph, const std::unordered_map<std::string, std::string>& renames);

// Patterns.
const Tensor* ConstantOf(const Graph& graph, ValueId id);  // null of an absent or another value
std::optional<double> ScalarOf(const Graph& graph, ValueId id);  // a constant of one element
// The elements of a sequence, if they are known.
std::optional<std::vector<ValueId>> ElementsOf(const Rewriter& r, ValueId id);
// Whether a number in a graph of this type stands for another one: equal up to what the type rounds
// away when the number is written.
bool Near(double found, double meant, std::optional<Dtype> dtype);
// Whether an operator's attribute, a float, says the number as well as an operand of this type.
bool FitsAttribute(double number, std::optional<Dtype> dtype);
bool IsPlainGemm(const Node& node);  // a product and a sum: no factors, and A as it is
bool SameShape(const Graph& graph, ValueId a, ValueId b);  // both known and equal
// Reshape, Flatten, Squeeze and Unsqueeze; false of none.
bool IsReshape(const Node* node);
// Extents as Reshape's constant with `allowzero` has them; one symbol may be left to -1, if no
// extent is zero.
std::optional<std::vector<int64_t>> AsReshapesTo(const std::vector<Extent>& extents);
// op(other, scalar), in either order if the operator commutes.
std::optional<std::pair<ValueId, double>> WithScalar(const Rewriter& r, ValueId id, Op op);
// A product taken apart: Mul of anything, Div by numbers. value = coefficient * product of factors.
struct Factors {
  double coefficient = 1;
  std::vector<ValueId> values;
};
Factors FactorsOf(const Rewriter& r, ValueId id);

// The rewrites, by name of their files.
#define WEFT_REWRITE(name) Result<int> name(Graph& graph, const Evaluator& evaluate);
#include "graph/rewrites/rewrites.def"
#undef WEFT_REWRITE

}  // namespace weft::graph
