#include "partition/clusters.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace weft::partition {

using graph::NodeId;
using graph::ValueId;

Clusters::Clusters(const GraphFacts& facts)
    : facts_(facts), of_(facts.graph.nodes.size()), members_(facts.graph.nodes.size()) {
  for (size_t i = 0; i < of_.size(); ++i) {
    of_[i] = static_cast<int32_t>(i);
    members_[i] = {NodeId(i)};
  }
}

std::vector<int32_t> Clusters::Readers(int32_t set) const {
  std::set<int32_t> readers;
  for (NodeId n : members_[set])
    for (ValueId v : facts_.graph[n].outputs)
      if (v.valid())
        for (NodeId r : facts_.consumers[v.index]) readers.insert(Of(r));
  readers.erase(set);
  return {readers.begin(), readers.end()};
}

// The nodes of the graph are in topological order, so a path to b only passes nodes before b's last
// member: sets that begin after it can be left out.
bool Clusters::PathAround(int32_t a, int32_t b) const {
  const int32_t last = members_[b].back().index;
  std::set<int32_t> seen;
  std::vector<int32_t> todo;
  for (int32_t r : Readers(a))
    if (r != b && members_[r].front().index < last && seen.insert(r).second) todo.push_back(r);
  while (!todo.empty()) {
    const int32_t set = todo.back();
    todo.pop_back();
    for (int32_t r : Readers(set)) {
      if (r == b) return true;
      if (r != a && members_[r].front().index < last && seen.insert(r).second) todo.push_back(r);
    }
  }
  return false;
}

void Clusters::Merge(int32_t a, int32_t b) {
  const int32_t into = std::min(a, b), from = std::max(a, b);
  auto& members = members_[into];
  members.insert(members.end(), members_[from].begin(), members_[from].end());
  std::sort(members.begin(), members.end());
  for (NodeId n : members_[from]) of_[n.index] = into;
  members_[from].clear();
}

void Clusters::Split(std::span<const NodeId> nodes) {
  const std::set<NodeId> out(nodes.begin(), nodes.end());
  const int32_t set = Of(nodes[0]);
  std::vector<NodeId> rest;
  for (NodeId n : members_[set])
    if (!out.contains(n)) rest.push_back(n);
  members_[set].clear();
  const auto place = [&](const std::vector<NodeId>& group) {
    if (group.empty()) return;
    const int32_t id = group.front().index;
    members_[id] = group;
    for (NodeId n : group) of_[n.index] = id;
  };
  place({out.begin(), out.end()});
  place(rest);
}

std::vector<int32_t> Clusters::TopologicalOrder() const {
  std::map<int32_t, int32_t> waiting;  // inputs from sets that have not been placed
  for (size_t s = 0; s < members_.size(); ++s)
    if (!members_[s].empty()) waiting.try_emplace(static_cast<int32_t>(s), 0);
  for (const auto& [set, count] : waiting)
    for (int32_t r : Readers(set)) ++waiting[r];
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (const auto& [set, count] : waiting)
    if (count == 0) ready.push(set);
  std::vector<int32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (int32_t r : Readers(order.back()))
      if (--waiting[r] == 0) ready.push(r);
  }
  return order;
}

}  // namespace weft::partition
