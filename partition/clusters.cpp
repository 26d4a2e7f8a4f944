#include "partition/clusters.h"

#include <algorithm>
#include <queue>
#include <set>

namespace weft::partition {

using graph::NodeId;
using graph::ValueId;

namespace {

void Insert(std::vector<int32_t>& sorted, int32_t set) {
  const auto at = std::ranges::lower_bound(sorted, set);
  if (at == sorted.end() || *at != set) sorted.insert(at, set);
}

void Erase(std::vector<int32_t>& sorted, int32_t set) {
  const auto at = std::ranges::lower_bound(sorted, set);
  if (at != sorted.end() && *at == set) sorted.erase(at);
}

}  // namespace

Clusters::Clusters(const GraphFacts& facts)
    : facts_(facts),
      of_(facts.graph.nodes.size()),
      members_(of_.size()),
      readers_(of_.size()),
      producers_(of_.size()) {
  for (size_t i = 0; i < of_.size(); ++i) Place({NodeId(i)});
  for (size_t i = 0; i < of_.size(); ++i) Link(static_cast<int32_t>(i));
}

int32_t Clusters::Merge(int32_t a, int32_t b) {
  const int32_t into = std::min(a, b), from = std::max(a, b);
  std::vector<NodeId> both;
  std::ranges::merge(members_[into], members_[from], std::back_inserter(both));
  const std::vector<int32_t> readers = readers_[from], producers = producers_[from];
  Unlink(from);
  members_[from].clear();
  Place(both);
  for (const int32_t r : readers) AddEdge(into, r);
  for (const int32_t p : producers) AddEdge(p, into);
  return into;
}

void Clusters::Split(std::span<const NodeId> nodes) {
  const std::set<NodeId> out(nodes.begin(), nodes.end());
  const int32_t set = Of(nodes[0]);
  std::vector<NodeId> rest;
  for (const NodeId n : members_[set])
    if (!out.contains(n)) rest.push_back(n);
  Unlink(set);
  members_[set].clear();
  const std::vector<NodeId> parts[] = {{out.begin(), out.end()}, std::move(rest)};
  for (const auto& part : parts)
    if (!part.empty()) Place(part);
  for (const auto& part : parts)
    if (!part.empty()) Link(Of(part[0]));
}

std::vector<int32_t> Clusters::TopologicalOrder() const {
  std::vector<size_t> waiting;  // inputs from sets that have not been placed
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t s = 0; s < members_.size(); ++s) {
    waiting.push_back(producers_[s].size());
    if (!members_[s].empty() && producers_[s].empty()) ready.push(static_cast<int32_t>(s));
  }
  std::vector<int32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int32_t r : readers_[order.back()])
      if (--waiting[r] == 0) ready.push(r);
  }
  return order;
}

void Clusters::Place(const std::vector<NodeId>& nodes) {
  const int32_t set = nodes.front().index;
  for (const NodeId n : nodes) of_[n.index] = set;
  members_[set] = nodes;
}

void Clusters::Link(int32_t set) {
  for (const NodeId n : members_[set]) {
    for (const ValueId v : facts_.graph[n].outputs)
      if (v.valid())
        for (const NodeId r : facts_.consumers[v.index]) AddEdge(set, Of(r));
    for (const ValueId v : facts_.graph[n].inputs)
      if (v.valid() && facts_.graph[v].producer.valid()) AddEdge(Of(facts_.graph[v].producer), set);
  }
}

void Clusters::Unlink(int32_t set) {
  for (const int32_t r : readers_[set]) Erase(producers_[r], set);
  for (const int32_t p : producers_[set]) Erase(readers_[p], set);
  readers_[set].clear();
  producers_[set].clear();
}

void Clusters::AddEdge(int32_t from, int32_t to) {
  if (from == to) return;
  Insert(readers_[from], to);
  Insert(producers_[to], from);
}

}  // namespace weft::partition
