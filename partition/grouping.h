// Grouping: who does what. Sets of nodes, each with an implementation, and a layout on every edge.
//
// Text form (`.groups`):
//
//   groups digits for cpu:x86-64-v4 threads=2 {
//     layout t0 acdb
//     own conv1_relu1 {conv1: direct, relu1: direct} us 18.2 measured
//       | onednn.convolution us 19.9 measured | unfused us 25.4 estimated
//     vendor fc1 by onednn.matmul {fc1} us 4.1 measured | own us 4.6 measured: measured_slower ""
//     own conv2 {conv2: direct} kind 1 us 9.5 measured
//     refused {relu1, pool1}: halo_redundancy "2.25 > 2.00"
//   }
//
// Nodes are named by their first output. Groups stand in the order in which they run.
//
// Verify(graph): (1) every node in exactly one group (nodes that are recomputed excepted); (2)
// convex, and the order of groups respects data flow; (3) layouts fit the ranks of their values.
// Whether a group's nodes can be done as it says is for VerifyImplementations (singles.h) to know,
// and for fallback::Match.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/layout.h"
#include "base/status.h"
#include "base/target.h"
#include "base/verdict.h"
#include "fallback/call.h"
#include "graph/graph.h"

namespace weft::partition {

enum class Implementation : uint8_t { kOwn, kVendor, kNative, kView, kPlan };
std::string_view ImplementationName(Implementation implementation);

struct Member {
  graph::NodeId node;
  std::string alternative;  // of tc::ToTc; empty for groups that are not our own
  bool operator==(const Member&) const = default;
};

// Another way to do the group's nodes, for `explain`.
struct Rival {
  std::string kind;  // "onednn.convolution", "own", "unfused"
  double us = 0;
  bool measured = false;
  std::optional<Refusal> refusal;
};

struct Group {
  std::string name;  // an identifier, unique; names the kernel
  Implementation implementation = Implementation::kOwn;
  std::vector<Member> members;  // in graph order
  std::string library_call;     // vendor: "onednn.convolution"
  int32_t kind = 0;  // own: of the register tiles of its contractions, by the model's rank
  double us = 0;
  bool measured = false;
  std::vector<Rival> rivals;
  std::string where;  // of one from a text: "file:line:col"
};
// For messages: a node of the group, and where the group was read from.
std::string PlaceOf(const Group& group, const graph::Graph& graph, graph::NodeId node);

struct Refused {
  std::vector<graph::NodeId> nodes;
  Refusal refusal;
};

struct Grouping {
  std::string name;
  Target target;
  std::map<graph::ValueId, Layout> layouts;  // where not plain
  std::vector<Group> groups;                 // in execution order
  std::vector<Refused> refused;
};

std::string Print(const Grouping& grouping, const graph::Graph& graph);
Result<Grouping> ParseGrouping(std::string_view text, const std::string& file,
                               const graph::Graph& graph);
Status Verify(const Grouping& grouping, const graph::Graph& graph);

}  // namespace weft::partition
