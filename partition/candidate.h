// A set of nodes as one comprehension, and whether its access relations let it run as one kernel.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/layout.h"
#include "base/status.h"
#include "base/verdict.h"
#include "graph/graph.h"
#include "partition/grouping.h"
#include "partition/partition.h"
#include "polyhedral/schedule.h"
#include "tc_lang/to_tc.h"

namespace weft::partition {

// What partitioning asks about the graph again and again.
struct GraphFacts {
  explicit GraphFacts(const graph::Graph& graph);
  const graph::Graph& graph;
  std::vector<std::vector<graph::NodeId>> consumers;  // by value
  std::vector<bool> is_output;                        // by value
};

// The one def of these members. Values that something outside the set reads are its outputs.
Result<tc::Extracted> ExtractMembers(const GraphFacts& facts, const NodeComprehensions& nodes,
                                     std::span<const Member> members, const std::string& name);

// What the schedule of a group is made for: its program, without copies that the layouts of its
// operands make needless and with neighbouring axes joined where they can be, and what the graph
// knows of its operands. Points at the group's program.
polyhedral::ScheduleRequest RequestFor(tc::Extracted& group, const graph::Graph& graph,
                                       const std::map<graph::ValueId, Layout>& layouts,
                                       const Target& target);

// How a legal group runs.
struct LegalGroup {
  bool in_blocks = false;  // its contractions, with what is between them or beside a lone one
};

// How many tensors statements make: the parts of a concatenation are one.
size_t CountTargets(const tc::Program& program);
// Whether a group that makes so many tensors, some of them by contractions, is small enough.
std::optional<Refusal> CheckSize(size_t statements, size_t contractions,
                                 const PartitionOptions& options);

// Legality of one kernel for the program, by the rules of the measured set partitioning study that
// concern accesses (2, 3, 5 and the limits of 6): statements that feed each other must do so
// element by element along every axis that they are to share; reductions keep the same axes; what
// is kept between statements fits the cache. Several contractions are one kernel if their schedule
// runs them block by block, which asks for more than these rules do. A refusal's detail names
// members by their places in the group, as {0}.
Verdict<LegalGroup> CheckGroup(const tc::Extracted& group, const graph::Graph& graph,
                               const std::map<graph::ValueId, Layout>& layouts,
                               const Target& target, const PartitionOptions& options);

}  // namespace weft::partition
