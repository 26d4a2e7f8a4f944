// The quotient graph while groups grow: who belongs to whom, who reads from whom.
#pragma once

#include <cstdint>
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

  size_t size() const { return members_.size(); }  // of ids, most of them perhaps unused
  int32_t Of(graph::NodeId node) const { return of_[node.index]; }
  // In graph order.
  const std::vector<graph::NodeId>& Members(int32_t set) const { return members_[set]; }
  // Sets that read from `set`, and those that it reads from, without itself; sorted.
  const std::vector<int32_t>& Readers(int32_t set) const { return readers_[set]; }
  const std::vector<int32_t>& Producers(int32_t set) const { return producers_[set]; }
  // Returns the id of both.
  int32_t Merge(int32_t a, int32_t b);
  // Moves nodes out of their set into one of their own (the nodes must be convex with respect to
  // it).
  void Split(std::span<const graph::NodeId> nodes);
  // Set ids in an order that respects data flow, ties by id.
  std::vector<int32_t> TopologicalOrder() const;

 private:
  void Place(const std::vector<graph::NodeId>& nodes);
  void Link(int32_t set);    // to those around it, by its members' edges
  void Unlink(int32_t set);  // from them
  void AddEdge(int32_t from, int32_t to);

  const GraphFacts& facts_;
  std::vector<int32_t> of_;
  std::vector<std::vector<graph::NodeId>> members_;
  std::vector<std::vector<int32_t>> readers_, producers_;  // by set
};

}  // namespace weft::partition
