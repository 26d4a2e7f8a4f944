// What each node is on its own, before any are taken together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/layout.h"
#include "base/status.h"
#include "partition/candidate.h"
#include "partition/grouping.h"
#include "partition/partition.h"

namespace weft::partition {

struct Singles {
  std::vector<Implementation> kind;  // by node
  std::vector<size_t> alternative;   // by node: which of an own one's
  std::vector<Refused> left_out;     // the other alternatives
};

// Whether a node moves nothing, and its result may be the same memory: a reshape in plain memory,
// or a transpose between layouts that lie alike.
bool IsView(const GraphFacts& facts, const std::map<graph::ValueId, Layout>& layouts,
            graph::NodeId node);

// Own where there is a comprehension, else native; reshapes that move nothing are views. Nodes that
// nothing can do are an error that lists them all. Of several alternatives the cheapest for the
// node on its own is taken: what is fused to it later costs all of them alike.
Result<Singles> ClassifyNodes(const GraphFacts& facts, const NodeComprehensions& nodes,
                              const std::map<graph::ValueId, Layout>& layouts, Pricer& pricer,
                              const PartitionOptions& options, const Target& target);

// Whether the nodes of each group can be done as it says, a text perhaps: its alternatives exist, a
// view's node moves nothing, a nested plan's holds plans. What a library's call and a native can do
// is for fallback::Match to say.
Status VerifyImplementations(const Grouping& grouping, const GraphFacts& facts,
                             const NodeComprehensions& nodes);

// Why a node has no comprehension.
std::string WhyNoComprehension(const NodeComprehensions& nodes, graph::NodeId node);

}  // namespace weft::partition
