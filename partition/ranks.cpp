#include "partition/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/hash.h"

namespace weft::partition {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

std::string TypeOf(const graph::Value& value) {
  std::string text(value.dtype ? DtypeName(*value.dtype) : "_");
  if (!value.shape) return text;
  for (const graph::Extent e : *value.shape)
    text += e.IsConstant() ? fmt::format(" {}", e.value()) : " ?";
  return text;
}

std::string AttributeText(const graph::Attribute& attribute) {
  const auto print = [](const auto& value) -> std::string {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Tensor>)
      return fmt::format("{} {}", DtypeName(value.dtype()), value.shape());
    else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>)
      return "graph";
    else
      return fmt::format("{}", value);
  };
  return attribute.name + "=" + std::visit(print, attribute.value) + ";";
}

// What a node does, without its surroundings.
std::string Kind(const Graph& graph, const graph::Node& node) {
  std::string text = fmt::format("{}:{}(", node.domain, node.op_name);
  for (const graph::Attribute& a : node.attributes) text += AttributeText(a);
  for (const ValueId v : node.outputs) text += v.valid() ? TypeOf(graph[v]) + "," : "_,";
  return text;
}

struct Ranker {
  explicit Ranker(const Graph& graph)
      : graph(graph),
        from(graph.values.size()),
        into(graph.values.size()),
        depth(graph.nodes.size()) {}

  // Of values by what they are computed from: inputs by their place.
  void Forward() {
    for (size_t v = 0; v < graph.values.size(); ++v) from[v] = TypeOf(graph.values[v]);
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      from[graph.inputs[i].index] = fmt::format("in{}", i);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const graph::Node& node = graph.nodes[n];
      std::string text = Kind(graph, node);
      for (const ValueId v : node.inputs) {
        text += v.valid() ? from[v.index] + "," : "_,";
        if (v.valid() && graph[v].producer.valid())
          depth[n] = std::max(depth[n], depth[graph[v].producer.index] + 1);
      }
      above.push_back(Sha256(text).Hex());
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (node.outputs[k].valid())
          from[node.outputs[k].index] = fmt::format("{}.{}", above[n], k);
    }
  }

  // Of values by what is computed from them: outputs by their place.
  void Backward() {
    below.resize(graph.nodes.size());
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      into[graph.outputs[i].index].push_back(fmt::format("out{}", i));
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const graph::Node& node = graph.nodes[n];
      std::string text = Kind(graph, node);
      for (const ValueId v : node.outputs) {
        if (!v.valid()) continue;
        std::ranges::sort(into[v.index]);
        text += fmt::format("{};", fmt::join(into[v.index], ","));
      }
      below[n] = Sha256(text).Hex();
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (node.inputs[k].valid())
          into[node.inputs[k].index].push_back(fmt::format("{}.{}", below[n], k));
    }
  }

  const Graph& graph;
  std::vector<std::string> from, above, below;  // from: by value; the others by node
  std::vector<std::vector<std::string>> into;   // by value
  std::vector<int32_t> depth;
};

}  // namespace

std::vector<int32_t> CanonicalRanks(const Graph& graph) {
  Ranker ranker(graph);
  ranker.Forward();
  ranker.Backward();
  std::vector<size_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t n) {
    return std::tie(ranker.depth[n], ranker.above[n], ranker.below[n]);
  });
  std::vector<int32_t> ranks(order.size());
  for (size_t k = 0; k < order.size(); ++k) ranks[order[k]] = static_cast<int32_t>(k);
  return ranks;
}

}  // namespace weft::partition
