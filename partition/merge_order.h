// A topological order of sets of nodes while they are merged.
//
// The order tells where a path between two sets can lead: only through sets that lie between them.
// (The graph's own order of nodes doesn't: a path may enter a set by a late node and leave it by an
// early one.) It is kept up to date as sets merge, by moving no more than what lies between them
// and depends on them (Pearce and Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic
// Graphs", JEA 11, 2006, section 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/clusters.h"

namespace weft::partition {

class MergeOrder {
 public:
  // Of `clusters`, whose sets from now on merge by Merge() alone. They must be acyclic.
  explicit MergeOrder(Clusters& clusters);

  // True if a path from one of these sets to another, or to itself, leads through a set that is not
  // one of them: merging them would close a cycle.
  bool PathAround(std::span<const int32_t> sets);
  // Merges sets that have no path around; the id of what they become.
  int32_t Merge(std::span<const int32_t> sets);

 private:
  class Search;

  Clusters& clusters_;
  std::vector<int32_t> position_;  // by set
  std::vector<uint32_t> marks_;    // by set: members of the latest search, and what it reached
  uint32_t stamp_ = 0;
};

}  // namespace weft::partition
