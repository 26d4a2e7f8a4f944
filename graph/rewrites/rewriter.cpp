#include "graph/rewrites/rewriter.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/check.h"

namespace weft::graph {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

}  // namespace

void RenameCaptured(Graph& graph, const std::unordered_map<std::string, std::string>& renames) {
  std::unordered_map<std::string, std::string> changed;  // in this graph, for those inside
  const auto rename = [&](Value& value, std::string now) {
    changed.emplace(value.name, now);
    value.name = std::move(now);
  };
  std::unordered_map<std::string, ValueId> captured;  // by the new names
  std::vector<ValueId> forward(graph.values.size());
  Names names(graph);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (value.kind != ValueKind::kCaptured) continue;
    if (const auto found = renames.find(value.name); found != renames.end())
      rename(value, found->second);
    names.Add(value.name);
    const auto [first, is_first] = captured.emplace(value.name, i);
    if (is_first) continue;
    forward[i] = first->second;  // both are one value now, which subgraphs find by its name
    value.name = names.Fresh(value.name);
  }
  if (changed.empty()) return;
  for (Value& value : graph.values) {
    if (value.kind != ValueKind::kCaptured && captured.contains(value.name))
      rename(value, names.Fresh(value.name));
  }
  const auto follow = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id.valid() && forward[Index(id)].valid()) id = forward[Index(id)];
    }
  };
  follow(graph.outputs);
  for (Node& node : graph.nodes) {
    follow(node.inputs);
    for (const auto& inner : Subgraphs(node)) RenameCaptured(*inner, changed);
  }
  DropDead(graph);  // no two values have one name
}

Rewriter::Rewriter(Graph& g) : graph(g) {
  uses_.resize(g.values.size());
  user_.resize(g.values.size());
  output_.resize(g.values.size());
  forward_.resize(g.values.size());
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (ValueId id : g.nodes[n].inputs) {
      if (!id.valid()) continue;
      ++uses_[Index(id)];
      user_[Index(id)] = NodeId(n);
    }
  }
  for (ValueId id : g.outputs) {
    ++uses_[Index(id)];
    output_[Index(id)] = true;
  }
  const auto captured = CapturedByName(g);
  for (size_t i = 0; i < captured.size(); ++i) uses_[i] += captured[i] ? 2 : 0;  // no single reader
}

Names& Rewriter::names() {
  if (!names_) names_.emplace(graph);
  return *names_;
}

const Node* Rewriter::Def(ValueId id) const {
  if (!id.valid() || graph[id].kind != ValueKind::kComputed || !graph[id].producer.valid())
    return nullptr;
  return &graph[graph[id].producer];
}

const Node* Rewriter::Def(ValueId id, Op op) const {
  const Node* node = Def(id);
  return node && node->op == op ? node : nullptr;
}

NodeId Rewriter::OnlyUser(ValueId id) const {
  return uses_[Index(id)] == 1 && !output_[Index(id)] ? user_[Index(id)] : NodeId();
}

ValueId Rewriter::Resolve(ValueId id) const {
  while (id.valid() && forward_[Index(id)].valid()) id = forward_[Index(id)];
  return id;
}

bool Rewriter::Replace(ValueId from, ValueId to) {
  to = Resolve(to);
  if (from == to) return false;
  if (output_[Index(from)]) {
    // `to` takes the output's name, so it must be free to be renamed.
    if (graph[to].kind != ValueKind::kComputed || output_[Index(to)]) return false;
    output_[Index(to)] = true;
  }
  forward_[Index(from)] = to;
  ++changes_;
  return true;
}

void Rewriter::Grow() {
  uses_.resize(graph.values.size(), 1);
  user_.resize(graph.values.size());
  output_.resize(graph.values.size());
  forward_.resize(graph.values.size());
}

ValueId Rewriter::NewConstant(std::string_view name, Tensor tensor) {
  const ValueId id = AddConstant(graph, names().Fresh(name), std::move(tensor));
  Grow();
  return id;
}

ValueId Rewriter::NewComputed(std::string_view name) {
  const ValueId id = AddComputed(graph, names().Fresh(name));
  Grow();
  return id;
}

ValueId Rewriter::Insert(NodeId at, Op op, std::vector<ValueId> inputs, std::string_view name,
                         ValueId like, std::vector<Attribute> attributes) {
  const ValueId id = NewComputed(name);
  graph[id].dtype = graph[like].dtype;
  graph[id].shape = graph[like].shape;
  Node node{
      .op = op, .op_name = std::string(OpName(op)), .inputs = std::move(inputs), .outputs = {id}};
  for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
  InsertNode(at, std::move(node));
  return id;
}

void Rewriter::Become(NodeId id, Op op, std::vector<ValueId> inputs,
                      std::vector<Attribute> attributes) {
  Node& node = graph[id];
  node.op = op;
  node.domain.clear();
  node.op_name = OpName(op);
  node.inputs = std::move(inputs);
  node.attributes.clear();
  for (Attribute& a : attributes) SetAttribute(node, std::move(a.name), std::move(a.value));
  ++changes_;
}

void Rewriter::BecomeLike(NodeId id, const Node& other, ValueId first) {
  Node copy = other;
  copy.inputs[0] = first;
  copy.outputs = graph[id].outputs;
  graph[id] = std::move(copy);
  ++changes_;
}

void Rewriter::FixSubgraphs(const std::vector<std::string>& old_names) {
  std::unordered_map<std::string, std::string> renames;
  for (size_t i = 0; i < old_names.size(); ++i) {
    const std::string& now = graph[Resolve(ValueId(i))].name;
    if (now != old_names[i]) renames.emplace(old_names[i], now);
  }
  if (renames.empty()) return;
  for (Node& node : graph.nodes) {
    for (const auto& inner : Subgraphs(node)) RenameCaptured(*inner, renames);
  }
}

int Rewriter::Finish() {
  if (changes_ == 0 && inserted_.empty()) return 0;
  const auto has_some = [](const Node& n) { return !Subgraphs(n).empty(); };
  const bool subgraphs =
      std::ranges::any_of(graph.nodes, has_some) ||
      std::ranges::any_of(inserted_, [&](const auto& item) { return has_some(item.second); });
  std::vector<std::string> old_names;
  if (subgraphs) {
    for (const Value& value : graph.values) old_names.push_back(value.name);
  }
  // Flatten the chains first: a later use finds its value in one step.
  for (size_t i = 0; i < forward_.size(); ++i) {
    if (forward_[i].valid()) forward_[i] = Resolve(forward_[i]);
  }
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) id = Resolve(id);
  }
  for (auto& [at, node] : inserted_) {
    for (ValueId& id : node.inputs) id = Resolve(id);
  }
  for (ValueId& id : graph.outputs) {
    const ValueId to = Resolve(id);
    if (to != id) std::swap(graph[id].name, graph[to].name);
    id = to;
  }
  if (!inserted_.empty()) {
    std::ranges::stable_sort(inserted_, {}, [](const auto& item) { return item.first; });
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size() + inserted_.size());
    size_t next = 0;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (; next < inserted_.size() && inserted_[next].first == NodeId(n); ++next) {
        nodes.push_back(std::move(inserted_[next].second));
      }
      nodes.push_back(std::move(graph.nodes[n]));
    }
    WEFT_CHECK(next == inserted_.size(), "{} of {} inserted", next, inserted_.size());
    graph.nodes = std::move(nodes);
  }
  if (subgraphs) FixSubgraphs(old_names);
  DropDead(graph);
  return changes_;
}

std::optional<double> ScalarOf(const Graph& graph, ValueId id) {
  if (!id.valid() || graph[id].kind != ValueKind::kConstant) return std::nullopt;
  const Tensor& tensor = graph[id].constant;
  if (tensor.elems() != 1 || tensor.dtype() == Dtype::kString) return std::nullopt;
  return ElemAsDouble(tensor, 0);
}

bool Near(double found, double meant, std::optional<Dtype> dtype) {
  double part = 0;
  switch (dtype.value_or(Dtype::kF64)) {
    case Dtype::kBF16:
      part = 0x1p-7;
      break;
    case Dtype::kF16:
      part = 0x1p-9;
      break;
    case Dtype::kF32:
      part = 0x1p-20;  // exporters write seven digits
      break;
    default:
      part = 0x1p-50;
  }
  return std::abs(found - meant) <= part * std::abs(meant);
}

bool FitsAttribute(double number, std::optional<Dtype> dtype) {
  const float held = static_cast<float>(number);
  return std::isfinite(held) && (dtype != Dtype::kF64 || static_cast<double>(held) == number);
}

bool IsPlainGemm(const Node& node) {
  return IntAttr(node, "transA", 0) == 0 && FloatAttr(node, "alpha", 1) == 1 &&
         FloatAttr(node, "beta", 1) == 1;
}

ValueId Conversion::Of(NodeId at, ValueId v) {
  ValueId& converted = known_[v.index];
  if (converted.valid()) return converted;
  const std::string name = r_.graph[v].name + suffix_;
  if (r_.graph[v].kind == ValueKind::kConstant) {
    const Tensor& from = r_.graph[v].constant;
    Tensor tensor(to_, from.shape());
    for (int64_t i = 0; i < from.elems(); ++i) SetElem(tensor, i, ElemAsDouble(from, i));
    return converted = r_.NewConstant(name, std::move(tensor));
  }
  converted = r_.Insert(at, Op::kCast, {v}, name, v, {{"to", int64_t{DtypeToOnnx(to_)}}});
  r_.graph[converted].dtype = to_;
  return converted;
}

bool IsReshape(const Node* node) {
  return node && (node->op == Op::kReshape || node->op == Op::kFlatten ||
                  node->op == Op::kSqueeze || node->op == Op::kUnsqueeze);
}

std::optional<std::vector<int64_t>> AsReshapesTo(const std::vector<Extent>& extents) {
  std::vector<int64_t> shape;
  for (const Extent& extent : extents) shape.push_back(extent.IsConstant() ? extent.value() : -1);
  const auto open = std::ranges::count(shape, -1);
  if (open > 1 || (open == 1 && std::ranges::count(shape, 0) > 0)) return std::nullopt;
  return shape;
}

const Tensor* ConstantOf(const Graph& graph, ValueId id) {
  return id.valid() && graph[id].kind == ValueKind::kConstant ? &graph[id].constant : nullptr;
}

bool SameShape(const Graph& graph, ValueId a, ValueId b) {
  return a.valid() && b.valid() && graph[a].shape && graph[b].shape &&
         *graph[a].shape == *graph[b].shape && graph[a].dtype && graph[a].dtype == graph[b].dtype;
}

std::optional<std::pair<ValueId, double>> WithScalar(const Rewriter& r, ValueId id, Op op) {
  const Node* node = r.Def(id, op);
  if (!node || node->inputs.size() != 2) return std::nullopt;
  if (const auto value = ScalarOf(r.graph, node->inputs[1]))
    return std::pair(node->inputs[0], *value);
  const bool commutes = op == Op::kAdd || op == Op::kMul || op == Op::kMax || op == Op::kMin;
  if (const auto value = ScalarOf(r.graph, node->inputs[0]); value && commutes)
    return std::pair(node->inputs[1], *value);
  return std::nullopt;
}

Factors FactorsOf(const Rewriter& r, ValueId id) {
  constexpr size_t kMax = 8;  // of steps: patterns are small, and products may be long
  Factors out;
  const auto dtype = r.graph[id].dtype;
  if (!dtype || !IsFloat(*dtype)) return {.values = {id}};  // quotients of integers are no factors
  std::vector<ValueId> open = {id};
  for (size_t steps = 0; !open.empty(); ++steps) {
    const ValueId at = open.back();
    open.pop_back();
    if (const auto scalar = ScalarOf(r.graph, at)) {
      out.coefficient *= *scalar;
    } else if (const Node* mul = r.Def(at, Op::kMul); mul && steps < kMax) {
      open.insert(open.end(), mul->inputs.begin(), mul->inputs.end());
    } else if (const auto div = WithScalar(r, at, Op::kDiv);
               div && div->second != 0 && steps < kMax) {
      out.coefficient /= div->second;
      open.push_back(div->first);
    } else {
      out.values.push_back(at);
    }
  }
  return out;
}

}  // namespace weft::graph
