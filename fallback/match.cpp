#include "fallback/match.h"

#include "fallback/match_internal.h"
#include "graph/edit.h"

namespace weft::fallback {
namespace {

// Who reads the one result of each node but the last: only the next.
std::optional<Refusal> CheckChain(const graph::Graph& graph, const Uses& uses,
                                  std::span<const graph::NodeId> nodes) {
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const graph::Node& node = graph[nodes[i]];
    for (graph::ValueId value : node.outputs) {
      if (!value.valid()) continue;
      const auto& readers = uses.consumers[value.index];
      bool inner = !uses.leaves[value.index] && !readers.empty();
      for (graph::NodeId reader : readers) inner &= reader == nodes[i + 1];
      if (!inner) {
        return Refuse(Reason::kPatternUnknownToLibrary, "{} is read elsewhere", graph[value].name);
      }
    }
  }
  return std::nullopt;
}

Verdict<LibraryCall> MatchCall(const graph::Graph& graph, std::span<const graph::NodeId> nodes,
                               Library library, const LayoutOf& layout, const Abilities& can) {
  CallMatcher matcher(graph, library, layout, can);
  if (auto no = matcher.Anchor(nodes[0])) return *std::move(no);
  for (graph::NodeId node : nodes.subspan(1)) {
    if (auto no = matcher.Epilogue(node)) return *std::move(no);
  }
  if (auto no = matcher.KeepsNan()) return *std::move(no);
  LibraryCall call = matcher.Take();
  if (IsOnDevice(library)) {
    if (auto no = TakesOnDevice(call)) return *std::move(no);
  }
  return call;
}

}  // namespace

Uses::Uses(const graph::Graph& graph)
    : consumers(graph::Consumers(graph)), leaves(graph::CapturedByName(graph)) {
  leaves.resize(graph.values.size());
  for (graph::ValueId output : graph.outputs) leaves[output.index] = true;
}

std::string Origin(const graph::Graph& graph, graph::NodeId node) {
  if (!graph[node].name.empty()) return graph[node].name;
  for (graph::ValueId output : graph[node].outputs) {
    if (output.valid()) return graph[output].name;
  }
  return std::string(graph::OpName(graph[node].op));
}

Verdict<LibraryCall> Match(const graph::Graph& graph, const Uses& uses,
                           std::span<const graph::NodeId> nodes, Library library,
                           const LayoutOf& layout, const Abilities& can) {
  if (nodes.size() < 2) return Match(graph, nodes, library, layout, can);
  if (auto no = CheckChain(graph, uses, nodes)) return *std::move(no);
  if (library == Library::kNative) {
    return Refuse(Reason::kPatternUnknownToLibrary, "native kernels fuse nothing");
  }
  return MatchCall(graph, nodes, library, layout, can);
}

Verdict<LibraryCall> Match(const graph::Graph& graph, std::span<const graph::NodeId> nodes,
                           Library library, const LayoutOf& layout, const Abilities& can) {
  if (nodes.empty()) return Refuse(Reason::kPatternUnknownToLibrary, "no nodes");
  if (nodes.size() > 1) return Match(graph, Uses(graph), nodes, library, layout, can);
  if (library == Library::kNative) return MatchNative(graph, nodes[0]);
  return MatchCall(graph, nodes, library, layout, can);
}

std::vector<graph::NodeId> LongestMatch(const graph::Graph& graph, graph::NodeId anchor,
                                        Library library, const Abilities& can) {
  return LongestMatch(graph, Uses(graph), anchor, library, can);
}

std::vector<graph::NodeId> LongestMatch(const graph::Graph& graph, const Uses& uses,
                                        graph::NodeId anchor, Library library,
                                        const Abilities& can) {
  std::vector<graph::NodeId> nodes = {anchor};
  if (!Match(graph, nodes, library, {}, can).yes()) return {};
  while (library != Library::kNative) {
    const graph::Node& last = graph[nodes.back()];
    const graph::ValueId value = last.outputs.empty() ? graph::ValueId() : last.outputs[0];
    if (!value.valid() || uses.leaves[value.index]) break;
    const auto& readers = uses.consumers[value.index];
    if (readers.empty()) break;
    nodes.push_back(readers[0]);
    if (Match(graph, uses, nodes, library, {}, can).yes()) continue;
    nodes.pop_back();
    break;
  }
  return nodes;
}

}  // namespace weft::fallback
