#include "graph/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "graph/edit.h"
#include "graph/infer/engine.h"

namespace weft::graph {
namespace {

// Every extent that is the symbol becomes the number.
void Replace(Graph& graph, SymbolId symbol, int64_t value) {
  for (Value& v : graph.values) {
    if (!v.shape) continue;
    for (Extent& extent : *v.shape) {
      if (!extent.IsConstant() && extent.symbol() == symbol) extent = value;
    }
  }
}

Result<ValueId> FindInput(const Graph& graph, std::string_view input) {
  const auto found =
      std::ranges::find_if(graph.inputs, [&](ValueId id) { return graph[id].name == input; });
  if (found != graph.inputs.end()) return *found;
  std::string names;
  for (ValueId id : graph.inputs) names += (names.empty() ? "" : ", ") + PrintName(graph[id].name);
  return Usage(fmt::format("no input {}", PrintName(input))).Try("the inputs are " + names);
}

Status CheckRange(const Symbol& symbol, int64_t value) {
  if (value >= symbol.min && value <= symbol.max) return {};
  return Usage(fmt::format("symbol {} is in {}:{}, found {}", PrintName(symbol.name), symbol.min,
                           symbol.max, value));
}

}  // namespace

Status BindShape(Graph& graph, std::string_view input, std::span<const int64_t> shape) {
  WEFT_TRY(const ValueId id, FindInput(graph, input));
  if (!graph[id].shape) {
    if (!graph[id].dtype) return Usage(fmt::format("input {} is not a tensor", PrintName(input)));
    graph[id].shape.emplace();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 0) {  // an extent of its own, whatever symbols may be
        graph[id].shape->emplace_back(shape[i]);
        continue;
      }
      Names names{Graph{}};
      for (const Symbol& symbol : graph.symbols) names.Add(symbol.name);
      graph[id].shape->emplace_back(AddSymbol(graph, names.Fresh(fmt::format("{}_{}", input, i))));
    }
  }
  if (graph[id].shape->size() != shape.size()) {
    return Usage(fmt::format("input {} has rank {}, found the shape {}", PrintName(input),
                             graph[id].shape->size(), weft::Print(shape)));
  }
  // All is checked before anything changes.
  std::map<SymbolId, int64_t> bound;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Extent extent = (*graph[id].shape)[i];
    if (shape[i] == -1) continue;
    if (shape[i] < 0)
      return Usage(fmt::format("found extent {} for input {}", shape[i], PrintName(input)));
    int64_t have = extent.value();
    if (!extent.IsConstant()) {
      WEFT_TRY(CheckRange(graph.symbols[static_cast<size_t>(extent.symbol().index)], shape[i]));
      have = bound.emplace(extent.symbol(), shape[i]).first->second;
    }
    if (have != shape[i]) {
      return Usage(
          fmt::format("axis {} of input {} has {}, found {}", i, PrintName(input), have, shape[i]));
    }
  }
  for (const auto& [symbol, value] : bound) Replace(graph, symbol, value);
  return {};
}

bool TakesShapes(const Graph& graph, std::span<const Shape> shapes) {
  std::map<SymbolId, int64_t> bound;
  const auto takes = [&](const Extent& extent, int64_t found) {
    if (extent.IsConstant()) return extent.value() == found;
    const auto& symbol = graph.symbols[static_cast<size_t>(extent.symbol().index)];
    return CheckRange(symbol, found).ok() &&
           bound.emplace(extent.symbol(), found).first->second == found;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph[graph.inputs[i]];
    if (value.shape && !std::ranges::equal(*value.shape, shapes[i], takes)) return false;
  }
  return true;
}

Status BindRange(Graph& graph, std::string_view input, size_t axis, Interval range) {
  WEFT_TRY(const ValueId id, FindInput(graph, input));
  if (!graph[id].shape || axis >= graph[id].shape->size())
    return Usage(fmt::format("input {} has no axis {}", PrintName(input), axis));
  const auto refuse = [&](int64_t min, int64_t max) {
    return Usage(fmt::format("axis {} of input {} is in {}:{}, found {}:{}", axis, PrintName(input),
                             min, max, range.lo, range.hi));
  };
  const Extent extent = (*graph[id].shape)[axis];
  if (extent.IsConstant()) {
    const int64_t is = extent.value();
    return is < range.lo || is > range.hi ? refuse(is, is) : Status();
  }
  Symbol& symbol = graph.symbols[static_cast<size_t>(extent.symbol().index)];
  if (range.hi < symbol.min || range.lo > symbol.max) return refuse(symbol.min, symbol.max);
  symbol.min = std::max(symbol.min, range.lo);
  symbol.max = std::min(symbol.max, range.hi);
  return {};
}

Status BindSymbol(Graph& graph, std::string_view symbol, int64_t value) {
  const auto free = FreeSymbols(graph);
  if (std::ranges::find(free, symbol) == free.end()) {
    std::string names;
    for (const std::string& name : free) names += (names.empty() ? "" : ", ") + PrintName(name);
    return Usage(fmt::format("no input has a symbol {}", PrintName(symbol)))
        .Try(free.empty() ? "" : "the symbols are " + names);
  }
  const auto found = std::ranges::find(graph.symbols, symbol, &Symbol::name);
  WEFT_TRY(CheckRange(*found, value));
  Replace(graph, SymbolId(static_cast<size_t>(found - graph.symbols.begin())), value);
  return {};
}

Status BindValue(Graph& graph, std::string_view input, Tensor value) {
  WEFT_TRY(BindShape(graph, input, value.shape()));
  const auto found =
      std::ranges::find_if(graph.inputs, [&](ValueId id) { return graph[id].name == input; });
  Value& bound = graph[*found];
  if (bound.dtype && bound.dtype != value.dtype()) {
    return Usage(fmt::format("input {} is {}, found {}", PrintName(input), DtypeName(*bound.dtype),
                             DtypeName(value.dtype())));
  }
  bound.kind = ValueKind::kConstant;
  bound.dtype = value.dtype();
  bound.constant = std::move(value);
  graph.inputs.erase(found);
  return {};
}

Result<std::vector<ValueId>> ShapeInputs(const Graph& graph) {
  Graph copy = Clone(graph);
  infer::ResetTypes(copy);
  infer::Engine engine(copy);
  for (size_t n = 0; n < copy.nodes.size(); ++n) WEFT_TRY(engine.Infer(NodeId(n)));
  const std::vector<bool> wanted = engine.Wanted();
  std::vector<ValueId> inputs;
  for (ValueId id : graph.inputs) {
    const auto shape = StaticShape(graph[id]);
    if (!shape || !wanted[static_cast<size_t>(id.index)]) continue;
    WEFT_TRY(const int64_t elems, CountElems(*shape));
    if (elems <= infer::kMaxFacts) inputs.push_back(id);
  }
  return inputs;
}

std::vector<std::string> FreeSymbols(const Graph& graph) {
  std::vector<std::string> names;
  std::unordered_set<SymbolId> seen;
  for (ValueId id : graph.inputs) {
    if (!graph[id].shape) continue;
    for (const Extent& extent : *graph[id].shape) {
      if (extent.IsConstant() || !seen.insert(extent.symbol()).second) continue;
      names.push_back(graph.symbols[static_cast<size_t>(extent.symbol().index)].name);
    }
  }
  return names;
}

Status InferShapes(Graph& graph) {
  infer::ResetTypes(graph);
  infer::Engine engine(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) WEFT_TRY(engine.Infer(NodeId(n)));
  return {};
}

Status VerifyShapes(const Graph& graph) {
  Graph again = Clone(graph);
  WEFT_TRY(InferShapes(again));
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& have = graph.values[i];
    const Value& want = again.values[i];
    if (have.kind != ValueKind::kComputed) continue;
    const auto a = StaticShape(have), b = StaticShape(want);
    if ((have.dtype && want.dtype && have.dtype != want.dtype) || (a && b && a != b)) {
      return Invalid(
          fmt::format("value {} is {}{}, inference says {}{}", PrintName(have.name),
                      have.dtype ? DtypeName(*have.dtype) : "_", a ? weft::Print(*a) : "",
                      want.dtype ? DtypeName(*want.dtype) : "_", b ? weft::Print(*b) : ""));
    }
  }
  return {};
}

}  // namespace weft::graph
