#include "graph/infer/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/infer/types.h"
#include "graph/schema.h"

namespace weft::graph::infer {

Elem Elem::OfReal(double value) {
  constexpr double kWhole = 9007199254740992.0;  // 2^53: every integer up to here is a double
  if (std::isfinite(value) && std::trunc(value) == value && std::abs(value) <= kWhole &&
      !(value == 0 && std::signbit(value))) {
    return Of(static_cast<int64_t>(value));
  }
  return {kReal, 0, value};
}

Elem ElemOf(const Tensor& tensor, int64_t i) {
  if (IsFloat(tensor.dtype())) return Elem::OfReal(ElemAsDouble(tensor, i));
  const int64_t value = ElemAsInt(tensor, i);
  return tensor.dtype() == Dtype::kU64 && value < 0 ? Elem() : Elem::Of(value);
}

Engine::Engine(Graph& graph, int depth) : graph_(graph), depth_(depth), symbol_names_(Graph{}) {
  Grow();
}

void Engine::SetFacts(ValueId id, Facts facts) {
  Grow();
  facts_[static_cast<size_t>(id.index)] = std::move(facts);
  facts_done_[static_cast<size_t>(id.index)] = true;
}

std::optional<Dtype> Engine::Held(ValueId id) {
  if (!id.valid()) return std::nullopt;
  Grow();
  return held_[static_cast<size_t>(id.index)];
}

void Engine::SetHeld(ValueId id, Dtype dtype) {
  Grow();
  held_[static_cast<size_t>(id.index)] = dtype;
}

void Engine::Grow() {
  facts_.resize(graph_.values.size());
  facts_done_.resize(graph_.values.size());
  wanted_.resize(graph_.values.size());
  held_.resize(graph_.values.size());
  // Symbols that somebody else added (of inputs that came later) stand for themselves.
  for (size_t i = meaning_.size(); i < graph_.symbols.size(); ++i) {
    meaning_.push_back(Affine::OfVar(static_cast<Var>(i)));
    factors_.emplace_back();
    symbol_names_.Add(graph_.symbols[i].name);
  }
}

std::vector<bool> Engine::Wanted() const {
  std::vector<bool> wanted = wanted_;
  wanted.resize(graph_.values.size());
  const auto is_wanted = [&](ValueId v) {
    return v.valid() && wanted[static_cast<size_t>(v.index)];
  };
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (node->op == Op::kShape || node->op == Op::kSize) continue;  // of no element
    if (std::ranges::none_of(node->outputs, is_wanted)) continue;
    for (ValueId v : node->inputs)
      if (v.valid()) wanted[static_cast<size_t>(v.index)] = true;
    for (const auto& inner : Subgraphs(*node)) {
      for (const Value& value : inner->values) {
        if (value.kind != ValueKind::kCaptured) continue;
        const ValueId around = FindValue(graph_, value.name);
        if (around.valid()) wanted[static_cast<size_t>(around.index)] = true;
      }
    }
  }
  return wanted;
}

const Facts* Engine::FactsOf(ValueId id) {
  if (!id.valid()) return nullptr;
  Grow();
  const auto i = static_cast<size_t>(id.index);
  if (!facts_done_[i]) {
    facts_done_[i] = true;
    const Value& value = graph_.values[i];
    const bool small = value.kind == ValueKind::kConstant && value.dtype != Dtype::kString &&
                       !IsCode(value.constant.dtype()) && value.constant.elems() <= kMaxFacts;
    if (small) {
      Facts facts;
      for (int64_t k = 0; k < value.constant.elems(); ++k)
        facts.push_back(ElemOf(value.constant, k));
      facts_[i] = std::move(facts);
    }
  }
  return facts_[i] ? &*facts_[i] : nullptr;
}

void ResetTypes(Graph& graph) {
  std::vector<SymbolId> now(graph.symbols.size());
  std::vector<Symbol> symbols;
  for (Value& value : graph.values) {
    if (value.kind == ValueKind::kComputed || value.kind == ValueKind::kCaptured) {
      value.dtype.reset();
      value.shape.reset();
    }
    if (value.kind != ValueKind::kInput || !value.shape) continue;
    for (Extent& extent : *value.shape) {
      if (extent.IsConstant()) continue;
      const auto old = static_cast<size_t>(extent.symbol().index);
      if (!now[old].valid()) {
        now[old] = SymbolId(symbols.size());
        symbols.push_back(graph.symbols[old]);
      }
      extent = now[old];
    }
  }
  graph.symbols = std::move(symbols);
}

Status Engine::Infer(NodeId id) {
  Grow();
  Context context(*this, id);
  if (graph_[id].op == Op::kUnknown) return {};
  const Schema* schema = FindSchema(OpName(graph_[id].op));  // none: an operator of weft's own
  auto status = [&]() -> Status {
    if (schema) WEFT_TRY(CheckTypes(context, *schema));
    in_rule_ = true;
    if (const Rule rule = RuleOf(graph_[id].op)) WEFT_TRY(rule(context));
    in_rule_ = false;
    if (schema) WEFT_TRY(SetTypes(context, *schema));
    return CheckSizes(context);
  }();
  if (!status.ok()) return std::move(status).At(Describe(graph_, id));
  PropagateFacts(context);
  return {};
}

bool MayBeScalar(const Extents& shape) {
  return shape.empty() || (shape.size() == 1 && (!shape[0].IsConstant() || shape[0] == Extent(1)));
}

std::optional<Affine> Times(const Affine& a, const Affine& b) {
  constexpr int64_t kMax = int64_t{1} << 52;  // leaves room for the additions that follow
  const Affine& factor = a.IsConstant() ? a : b;
  const Affine& other = a.IsConstant() ? b : a;
  if (!factor.IsConstant()) return std::nullopt;
  const int64_t f = factor.constant();
  auto fits = [&](int64_t c) {
    int64_t product = 0;
    return !__builtin_mul_overflow(c, f, &product) && product > -kMax && product < kMax;
  };
  if (other.IsConstant()) {  // plain numbers may use all 64 bits
    int64_t product = 0;
    if (__builtin_mul_overflow(other.constant(), f, &product)) return std::nullopt;
    return Affine(product);
  }
  if (!fits(other.constant())) return std::nullopt;
  for (const Affine::Term& term : other.terms()) {
    if (!fits(term.coefficient)) return std::nullopt;
  }
  return other * f;
}

std::optional<Affine> Plus(const Affine& a, const Affine& b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a.constant(), b.constant(), &sum)) return std::nullopt;
  return a + b;
}

}  // namespace weft::graph::infer
