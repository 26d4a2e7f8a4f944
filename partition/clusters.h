// The quotient graph while groups grow: who belongs to whom, and whether a merge would close a
// cycle.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "partition/candidate.h"

namespace weft::partition {

// A partition of the nodes into sets. Set ids are the smallest node index of the set, so that
// nothing depends on the order of merges.
class Clusters {
 public:
  explicit Clusters(const GraphFacts& facts);

  int32_t Of(graph::NodeId node) const { return of_[node.index]; }
  // In graph order.
  const std::vector<graph::NodeId>& Members(int32_t set) const { return members_[set]; }
  // Sets that read from `set`, without itself; sorted.
  std::vector<int32_t> Readers(int32_t set) const;
  // True if a path of at least one other set leads from a to b, so that merging them closes a
  // cycle.
  bool PathAround(int32_t a, int32_t b) const;
  void Merge(int32_t a, int32_t b);
  // Moves nodes out of their set into one of their own (the nodes must be convex with respect to
  // it).
  void Split(std::span<const graph::NodeId> nodes);
  // Set ids in an order that respects data flow, ties by id.
  std::vector<int32_t> TopologicalOrder() const;

 private:
  const GraphFacts& facts_;
  std::vector<int32_t> of_;
  std::vector<std::vector<graph::NodeId>> members_;
};

}  // namespace weft::partition
