// Equality of graphs: the same text, up to the ids and the order of values and symbols.

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "graph/graph.h"

namespace weft::graph {
namespace {

bool SameFloat(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

struct SameAttribute {
  bool operator()(float a, float b) const { return SameFloat(a, b); }
  bool operator()(const std::vector<float>& a, const std::vector<float>& b) const {
    return std::ranges::equal(a, b, SameFloat);
  }
  bool operator()(const std::shared_ptr<Graph>& a, const std::shared_ptr<Graph>& b) const {
    return a && b ? Equal(*a, *b) : a == b;
  }
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
  template <typename T, typename U>
  bool operator()(const T&, const U&) const {
    return false;
  }
};

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b) {}

  bool Equal() {
    if (a_.name != b_.name || a_.symbols.size() != b_.symbols.size() ||
        a_.values.size() != b_.values.size() || a_.nodes.size() != b_.nodes.size()) {
      return false;
    }
    std::unordered_map<std::string_view, const Symbol*> symbols;
    for (const Symbol& symbol : b_.symbols) symbols[symbol.name] = &symbol;
    for (const Symbol& symbol : a_.symbols) {
      const auto found = symbols.find(symbol.name);
      if (found == symbols.end() || !(symbol == *found->second)) return false;
    }
    std::unordered_map<std::string_view, const Value*> values;
    for (const Value& value : b_.values) values[value.name] = &value;
    for (const Value& value : a_.values) {
      const auto found = values.find(value.name);
      if (found == values.end() || !SameValue(value, *found->second)) return false;
    }
    return SameIds(a_.inputs, b_.inputs) && SameIds(a_.outputs, b_.outputs) &&
           std::ranges::equal(a_.nodes, b_.nodes,
                              [&](const Node& x, const Node& y) { return SameNode(x, y); });
  }

 private:
  bool SameExtent(Extent x, Extent y) const {
    if (x.IsConstant() || y.IsConstant()) return x == y;
    return a_.symbols[static_cast<size_t>(x.symbol().index)].name ==
           b_.symbols[static_cast<size_t>(y.symbol().index)].name;
  }
  bool SameValue(const Value& x, const Value& y) const {
    if (x.kind != y.kind || x.dtype != y.dtype || x.shape.has_value() != y.shape.has_value())
      return false;
    if (x.kind == ValueKind::kConstant && !(x.constant == y.constant)) return false;
    return !x.shape || std::ranges::equal(*x.shape, *y.shape,
                                          [&](Extent p, Extent q) { return SameExtent(p, q); });
  }
  bool SameIds(const std::vector<ValueId>& x, const std::vector<ValueId>& y) const {
    return std::ranges::equal(x, y, [&](ValueId p, ValueId q) {
      return p.valid() && q.valid() ? a_[p].name == b_[q].name : p.valid() == q.valid();
    });
  }
  bool SameNode(const Node& x, const Node& y) const {
    return x.op == y.op && x.domain == y.domain && x.op_name == y.op_name && x.name == y.name &&
           SameIds(x.inputs, y.inputs) && SameIds(x.outputs, y.outputs) &&
           std::ranges::equal(
               x.attributes, y.attributes, [](const Attribute& p, const Attribute& q) {
                 return p.name == q.name && std::visit(SameAttribute(), p.value, q.value);
               });
  }

  const Graph& a_;
  const Graph& b_;
};

}  // namespace

bool Equal(const Graph& a, const Graph& b) { return Comparison(a, b).Equal(); }

}  // namespace weft::graph
