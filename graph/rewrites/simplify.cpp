#include "graph/simplify.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "graph/infer.h"
#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

constexpr int kMaxRounds = 16;

constexpr Rewrite kRewrites[] = {
#define WEFT_REWRITE(name) {#name, name},
#include "graph/rewrites/rewrites.def"
#undef WEFT_REWRITE
};

// The name of a node's first output, which tells nodes apart whatever their place in the file.
std::string_view KeyOf(const Graph& graph, size_t n) {
  for (ValueId id : graph.nodes[n].outputs) {
    if (id.valid()) return graph[id].name;
  }
  return {};
}

// Nodes in topological order, the smallest name first among those that are ready.
void SortNodes(Graph& graph) {
  const size_t count = graph.nodes.size();
  std::unordered_map<std::string_view, NodeId> producers;  // for names that subgraphs capture
  const bool captures =
      std::ranges::any_of(graph.nodes, [](const Node& node) { return !Subgraphs(node).empty(); });
  for (const Value& value : graph.values) {
    if (captures && value.kind == ValueKind::kComputed)
      producers.emplace(value.name, value.producer);
  }
  std::vector<std::vector<size_t>> users(count);
  std::vector<size_t> waiting(count, 0);
  auto depends = [&](size_t n, NodeId on) {
    users[static_cast<size_t>(on.index)].push_back(n);
    ++waiting[n];
  };
  for (size_t n = 0; n < count; ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id.valid() && graph[id].kind == ValueKind::kComputed) depends(n, graph[id].producer);
    }
    for (const auto& inner : Subgraphs(graph.nodes[n])) {
      for (const Value& value : inner->values) {
        const auto found =
            value.kind == ValueKind::kCaptured ? producers.find(value.name) : producers.end();
        if (found != producers.end()) depends(n, found->second);
      }
    }
  }
  auto later = [&](size_t a, size_t b) { return KeyOf(graph, a) > KeyOf(graph, b); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
  for (size_t n = 0; n < count; ++n) {
    if (waiting[n] == 0) ready.push(n);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.emplace_back(n);
    for (size_t user : users[n]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  Reorder(graph, order);
}

// Values in the order in which they appear: inputs, then each node's operands and results.
void SortValues(Graph& graph) {
  std::vector<ValueId> now(graph.values.size());
  std::vector<Value> values;
  auto place = [&](ValueId& id) {
    if (!id.valid()) return;
    ValueId& to = now[static_cast<size_t>(id.index)];
    if (!to.valid()) {
      to = ValueId(values.size());
      values.push_back(std::move(graph[id]));
    }
    id = to;
  };
  for (ValueId& id : graph.inputs) place(id);
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) place(id);
    for (ValueId& id : node.outputs) place(id);
  }
  for (ValueId& id : graph.outputs) place(id);
  std::vector<size_t> rest;  // captured by subgraphs only: by name
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].valid()) rest.push_back(i);
  }
  std::ranges::sort(rest, {}, [&](size_t i) { return graph.values[i].name; });
  for (size_t i : rest) values.push_back(std::move(graph.values[i]));
  graph.values = std::move(values);
}

void Canonicalize(Graph& graph) {
  for (Node& node : graph.nodes) {
    for (const auto& inner : Subgraphs(node)) Canonicalize(*inner);
  }
  SortNodes(graph);
  SortValues(graph);
}

Result<int> ApplyEverywhere(Graph& graph, const Rewrite& rewrite, const Evaluator& evaluate) {
  WEFT_TRY(int changes, rewrite.apply(graph, evaluate));
  for (Node& node : graph.nodes) {
    for (const auto& inner : Subgraphs(node)) {
      WEFT_TRY(const int more, ApplyEverywhere(*inner, rewrite, evaluate));
      changes += more;
    }
  }
  return changes;
}

}  // namespace

std::span<const Rewrite> Rewrites() { return kRewrites; }

Status Simplify(Graph& graph, const Evaluator& evaluate) {
  DropDead(graph);
  Canonicalize(graph);
  WEFT_TRY(InferShapes(graph));
  for (int round = 0; round < kMaxRounds; ++round) {
    int changes = 0;
    for (const Rewrite& rewrite : kRewrites) {
      auto here = ApplyEverywhere(graph, rewrite, evaluate);
      if (!here.ok())
        return std::move(here.status()).Because(fmt::format("in the rewrite {}", rewrite.name));
      if (*here > 0) WEFT_TRY(InferShapes(graph));
      changes += *here;
    }
    if (changes == 0) break;
  }
  DropDead(graph);
  Canonicalize(graph);
  return InferShapes(graph);
}

}  // namespace weft::graph
