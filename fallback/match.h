// Which library calls could do these nodes? Pure: looks only at the graph.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/verdict.h"
#include "fallback/call.h"
#include "graph/graph.h"

namespace weft::fallback {

// The layout of an edge as the caller has it; plain if the function is empty.
using LayoutOf = std::function<Layout(graph::ValueId)>;

// What a call may need beyond 32-bit floats on any machine. A target says the first, a user the
// second; none of it is asked of the machine that matches.
struct Abilities {
  bool bfloat16 = false;  // AVX-512: without it the library has only slow loops
  // VNNI: without it the library adds products of bytes up in 16 bits, which saturate.
  bool dot_products = false;
  // Products of bfloat16 may take subnormal numbers for zero, in and out: VDPBF16PS does.
  bool flushes = true;
  // Libraries of devices may round factors to the 10 bits of TF32.
  bool tf32 = false;
  // A function may give a number for a NaN. Behind a product or a convolution it always may.
  bool loses_nan = true;
};

// Who reads each value: made once by a caller that asks about many nodes of one graph.
struct Uses {
  explicit Uses(const graph::Graph& graph);
  std::vector<std::vector<graph::NodeId>> consumers;  // by value
  std::vector<bool> leaves;  // also a graph output, or captured by a subgraph
};

// One call that does all of `nodes` (in graph order, connected; the first is the anchor, the others
// its epilogue), by `library`. Refuses with the library's reason. Inner values must have no other
// use.
Verdict<LibraryCall> Match(const graph::Graph& graph, std::span<const graph::NodeId> nodes,
                           Library library, const LayoutOf& layout = {}, const Abilities& can = {});
Verdict<LibraryCall> Match(const graph::Graph& graph, const Uses& uses,
                           std::span<const graph::NodeId> nodes, Library library,
                           const LayoutOf& layout = {}, const Abilities& can = {});
// Whether a native kernel does the node.
bool HasNativeCall(const graph::Graph& graph, graph::NodeId node);
// How far the epilogue of `anchor` can grow with this library: the longest list of nodes, beginning
// with the anchor, for which Match says yes. At least the anchor, or empty if it is refused.
std::vector<graph::NodeId> LongestMatch(const graph::Graph& graph, graph::NodeId anchor,
                                        Library library, const Abilities& can = {});
std::vector<graph::NodeId> LongestMatch(const graph::Graph& graph, const Uses& uses,
                                        graph::NodeId anchor, Library library,
                                        const Abilities& can = {});

}  // namespace weft::fallback
