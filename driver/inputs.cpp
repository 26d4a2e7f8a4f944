#include "driver/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

namespace weft::driver {
namespace {

using graph::Op;
using graph::ValueId;

bool PassesIndices(Op op) {
  switch (op) {
    case Op::kCast:
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kFlatten:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSplit:
    case Op::kExpand:
      return true;
    default:
      return false;
  }
}

// The least of the extents that operand 1 of a node indexes into; none if it is no index, or none
// is known.
std::optional<int64_t> LeastIndexed(const graph::Graph& graph, const graph::Node& node) {
  const auto shape_of = [&](size_t operand) -> const std::optional<std::vector<graph::Extent>>& {
    return graph[node.inputs[operand]].shape;
  };
  size_t begin = 0, end = 0;  // axes of operand 0
  switch (node.op) {
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kScatterElements: {
      if (!shape_of(0)) return std::nullopt;
      int64_t axis = graph::IntAttr(node, "axis", 0);
      if (axis < 0) axis += std::ssize(*shape_of(0));
      if (axis < 0) return std::nullopt;
      begin = static_cast<size_t>(axis);
      end = begin + 1;
      break;
    }
    case Op::kGatherND:
    case Op::kScatterND: {
      if (!shape_of(0) || !shape_of(1) || shape_of(1)->empty() || !shape_of(1)->back().IsConstant())
        return std::nullopt;
      begin = static_cast<size_t>(std::max<int64_t>(graph::IntAttr(node, "batch_dims", 0), 0));
      end = begin + static_cast<size_t>(std::max<int64_t>(shape_of(1)->back().value(), 0));
      break;
    }
    default:
      return std::nullopt;
  }
  std::optional<int64_t> least;
  for (size_t axis = begin; axis < std::min(end, shape_of(0)->size()); ++axis)
    if (const auto& extent = (*shape_of(0))[axis]; extent.IsConstant())
      least = std::min(least.value_or(INT64_MAX), extent.value());
  return least;
}

// The smallest extent that `value` indexes into, following what only moves it; 2 if it is no index.
int64_t IndexBound(const graph::Graph& graph,
                   const std::vector<std::vector<graph::NodeId>>& consumers, ValueId value) {
  int64_t bound = INT64_MAX;
  std::set<ValueId> seen{value};
  std::vector<ValueId> todo{value};
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    for (graph::NodeId id : consumers[v.index]) {
      const graph::Node& node = graph[id];
      if (graph::InputAt(node, 1) == v)
        bound = std::min(bound, LeastIndexed(graph, node).value_or(bound));
      if (PassesIndices(node.op) && graph::InputAt(node, 0) == v) {
        for (ValueId o : node.outputs)
          if (o.valid() && seen.insert(o).second) todo.push_back(o);
      }
    }
  }
  return bound == INT64_MAX ? 2 : std::max<int64_t>(bound, 1);
}

}  // namespace

Result<Tensor> GenerateTensor(Dtype dtype, const Shape& shape, uint64_t seed, int64_t index_bound) {
  WEFT_TRY(Tensor t, Tensor::Allocate(dtype, shape));
  std::mt19937_64 random(seed);
  // The distributions of the standard library differ between implementations; these don't.
  for (int64_t i = 0; i < t.elems(); ++i) {
    const uint64_t bits = random();
    if (dtype == Dtype::kString)
      t.strings()[static_cast<size_t>(i)] = fmt::format("{}", bits % 100);
    else if (IsFloat(dtype))
      SetElem(t, i, static_cast<double>(bits >> 11) * 0x1p-52 - 1.0);
    else if (dtype == Dtype::kBool)
      SetElemInt(t, i, static_cast<int64_t>(bits & 1));
    else
      SetElemInt(t, i, static_cast<int64_t>(bits % static_cast<uint64_t>(index_bound)));
  }
  return t;
}

graph::ValueId OpenInput(const graph::Graph& graph) {
  for (graph::ValueId id : graph.inputs)
    if (!graph[id].dtype || !graph::StaticShape(graph[id])) return id;
  return {};
}

Status UnknownExtents(std::string_view input) {
  return Usage(fmt::format("the extents of input \"{}\" are not known", input))
      .Try(fmt::format("--shape {}=…", input));
}

Result<std::vector<Tensor>> GenerateInputs(const graph::Graph& graph, uint64_t seed) {
  if (const graph::ValueId open = OpenInput(graph); open.valid())
    return UnknownExtents(graph[open].name);
  const auto consumers = graph::Consumers(graph);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph[graph.inputs[i]];
    WEFT_TRY(Tensor input,
             GenerateTensor(*value.dtype, *graph::StaticShape(value), seed * 1000003 + i,
                            IndexBound(graph, consumers, graph.inputs[i])));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace weft::driver
