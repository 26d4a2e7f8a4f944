// What a network decides while it runs: branches, loops, and extents that depend on data.
//
// A plan is made of static steps, so a graph is cut where its extents end. What can be built now
// stays: nodes whose extents are all known, and natives such as NonZero, whose results are as large
// as they come out. What reads those waits in a graph of its own, which is built for the extents
// that it then finds, like any network for the shapes of its inputs, and is cut again if need be.
// Branches and loops hold their bodies in the same way. Three operators stand for this; their
// bodies capture nothing, and take what they read as inputs, in the node's order:
//
//   Branch(condition, x…) {then_branch, else_branch}: the outputs of the body that is taken, both
//     of which take x….
//   Repeat(trips?, condition?, state…, x…) {body, states}: as ONNX's Loop; the body takes
//     (iteration, condition, state…, x…) and gives (condition, state…, row…).
//   Stage(x…) {body}: the body, once.
#pragma once

#include <functional>

#include "base/status.h"
#include "graph/graph.h"

namespace weft::graph {

// Whether the node can run though the extents of its results are open; in a general graph also
// those of its operands.
using RunsOpen = std::function<bool(const Graph& graph, NodeId node)>;

struct Cut {
  // A node waits for the elements of an operand, not for its extents: with the inputs that
  // ShapeInputs names bound to values, more can be built now.
  bool wants_values = false;
  bool is_all = false;  // nothing can be built now: the graph is one Stage
};

// Of a graph that was simplified. What reads an input whose extents are not known waits, too: such
// a network is built when it runs. kUnsupported if what is no tensor would have to pass from one
// graph to another.
Result<Cut> MakeStages(Graph& graph, const RunsOpen& runs_open);

// The same so that nothing waits for extents: nodes that run on operands of any extents stay, and
// each other whose extents are open becomes a Stage of its own. False, and the graph is of no more
// use, where values that are no tensors would have to pass through one, or most nodes would be
// such.
Result<bool> MakeGeneral(Graph& graph, const RunsOpen& runs_open);

// Branch, Repeat and Stage.
inline bool HoldsPlans(Op op) { return op == Op::kBranch || op == Op::kRepeat || op == Op::kStage; }

}  // namespace weft::graph
