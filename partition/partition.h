// Graph -> Grouping: which nodes run as one kernel, and by whom.
//
// Candidates are single nodes, what grows from anchors along data flow, and contractions that feed
// one another if their schedule runs them block by block; they are legal by their access relations
// (convexity, a common block space, footprints), not by operator tables; library
// calls are candidates in the same table. Gain-greedy merging by price: the pair of neighbours
// whose fusion saves most is merged first, ties by structural rank (ranks.h), until none saves;
// then a few neighbouring groups at a time are grouped anew, exactly (windows.h).
// Prices come from an abstract Pricer and are estimates: what is chosen is measured afterwards.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/target.h"
#include "fallback/call.h"
#include "fallback/match.h"
#include "graph/graph.h"
#include "partition/grouping.h"
#include "tc_lang/to_tc.h"

namespace weft::partition {

struct Price {
  double us = 0;
};

// Prices candidates. Own candidates come as one comprehension; vendor ones as a call. `in_blocks`:
// what passes from one contraction to the next stays in a core's cache.
class Pricer {
 public:
  virtual ~Pricer() = default;
  virtual Price Own(const tc::Program& program, bool in_blocks) = 0;
  virtual Price Call(const fallback::LibraryCall& call) = 0;
};

struct PartitionOptions {
  // kCalls: a library where it can, natives where not: own kernels, which are compiled, only for
  // what is left.
  enum class Force : uint8_t { kNone, kOwn, kVendor, kCalls } force = Force::kNone;
  bool fuse = true;        // false: every node alone (the unfused arm)
  bool join = true;        // contractions that feed one another, where blocks allow it
  bool strict = false;     // a native step where a comprehension exists is an error
  bool vendor = true;      // false: no library is used
  bool flushes = true;     // products of bfloat16 may take subnormal numbers for zero
  bool tf32 = false;       // a device's library may round factors of products
  bool loses_nan = false;  // a library's functions may give a number for a NaN
  bool variants = true;    // false: only the first alternative of each node
  int32_t max_statements = 12, max_arguments = 64;
  int32_t max_statements_in_blocks = 24;  // of several contractions

  // The library as it is, for those who ask for it or compare with it.
  void ForceVendor() {
    force = Force::kVendor;
    loses_nan = true;
  }
};

// Alternatives of every node by index (empty where ToTc refused, with the reason, or was not asked
// because HasCall and calls are forced: kForced).
struct NodeComprehensions {
  std::vector<std::vector<tc::Alternative>> of;
  std::vector<std::optional<Refusal>> refusals;
  // Alternatives that a node could have had, by name.
  std::map<graph::NodeId, std::map<std::string, Refusal>> left_out;
};

// Roofline with cache levels, vector-math cost and fork-join; what `--budget 0` uses. That of a GPU
// for CUDA (device_roofline.h).
class RooflinePricer : public Pricer {
 public:
  explicit RooflinePricer(const Target& target) : target_(target) {}
  Price Own(const tc::Program& program, bool in_blocks) override;
  Price Call(const fallback::LibraryCall& call) override;

 private:
  Target target_;
};

// What is asked of a library for this target.
fallback::Abilities AbilitiesFor(const Target& target, const PartitionOptions& options);

// Whether a library or a native does the node in plain memory. Where calls are forced, such a node
// needs no comprehension.
bool HasCall(const graph::Graph& graph, const fallback::Uses& uses, graph::NodeId node,
             const Target& target, const PartitionOptions& options);

// A node that nothing can do is an error that lists all of them.
Result<Grouping> Partition(const graph::Graph& graph, const NodeComprehensions& nodes,
                           const Target& target, Pricer& pricer, const PartitionOptions& options);

}  // namespace weft::partition
