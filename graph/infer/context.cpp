#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/infer/engine.h"

namespace weft::graph::infer {

const Extents* Context::In(size_t i) const {
  const ValueId id = InputAt(node, i);
  return id.valid() && graph_[id].shape ? &*graph_[id].shape : nullptr;
}

std::optional<Dtype> Context::Type(size_t i) const {
  const ValueId id = InputAt(node, i);
  return id.valid() ? graph_[id].dtype : std::nullopt;
}

const Facts* Context::FactsIn(size_t i) {
  const ValueId id = InputAt(node, i);
  const Facts* facts = engine_.FactsOf(id);
  if (engine_.in_rule_ && !(facts && std::ranges::all_of(*facts, &Elem::known))) Want(id);
  return facts;
}

void Context::Want(ValueId id) {
  if (!id.valid()) return;
  engine_.Grow();
  engine_.wanted_[static_cast<size_t>(id.index)] = true;
}

std::optional<std::vector<int64_t>> Context::Ints(size_t i) {
  auto ints = IntsIfKnown(i);
  if (!ints && engine_.in_rule_) Want(InputAt(node, i));
  return ints;
}

std::optional<std::vector<int64_t>> Context::IntsIfKnown(size_t i) {
  const ValueId id = InputAt(node, i);
  if (id.valid() && graph_[id].kind == ValueKind::kConstant) {
    if (graph_[id].constant.elems() > int64_t{1} << 16) return std::nullopt;
    return ConstantInts(graph_, node, i);
  }
  const Facts* facts = FactsOf(id);
  if (!facts) return std::nullopt;
  std::vector<int64_t> ints;
  for (const Elem& elem : *facts) {
    if (elem.kind != Elem::kInteger || !elem.integer.IsConstant()) return std::nullopt;
    ints.push_back(elem.integer.constant());
  }
  return ints;
}

void Context::Out(size_t i, Extents extents) {
  if (i < node.outputs.size() && node.outputs[i].valid())
    graph_[node.outputs[i]].shape = std::move(extents);
}

void Context::OutType(size_t i, Dtype dtype) {
  if (i >= node.outputs.size() || !node.outputs[i].valid()) return;
  Value& value = graph_[node.outputs[i]];
  if (!value.dtype) value.dtype = dtype;
}

void Context::OutFacts(size_t i, Facts facts) {
  if (i >= node.outputs.size() || !node.outputs[i].valid()) return;
  const auto index = static_cast<size_t>(node.outputs[i].index);
  engine_.Grow();
  engine_.facts_[index] = std::move(facts);
  engine_.facts_done_[index] = true;
}

void Context::OutHeld(size_t i, std::optional<Dtype> dtype) {
  if (dtype && i < node.outputs.size() && node.outputs[i].valid())
    engine_.SetHeld(node.outputs[i], *dtype);
}

const Extents* Context::OutShape(size_t i) const {
  if (i >= node.outputs.size() || !node.outputs[i].valid()) return nullptr;
  const Value& value = graph_[node.outputs[i]];
  return value.shape ? &*value.shape : nullptr;
}

Affine Context::Meaning(Extent extent) const {
  return extent.IsConstant() ? Affine(extent.value())
                             : engine_.meaning_[static_cast<size_t>(extent.symbol().index)];
}

Interval Context::Range(Extent extent) const {
  if (extent.IsConstant()) return {extent.value(), extent.value()};
  const Symbol& symbol = graph_.symbols[static_cast<size_t>(extent.symbol().index)];
  return {symbol.min, symbol.max};
}

Interval Context::Range(const Affine& value) const {
  return value.Bounds([&](Var v) { return Range(Extent(SymbolId(static_cast<size_t>(v)))); });
}

Result<Extent> Context::ToExtent(const Affine& value, std::string_view what) {
  if (value.IsConstant()) {
    if (value.constant() < 0) return Invalid(fmt::format("{} would be {}", what, value.constant()));
    return Extent(value.constant());
  }
  if (const auto var = value.AsVar()) return Extent(SymbolId(static_cast<size_t>(*var)));
  if (const auto found = engine_.derived_.find(value); found != engine_.derived_.end())
    return Extent(found->second);
  const Interval range = Range(value);
  if (range.hi < 0) return Invalid(fmt::format("{} would be {} at most", what, range.hi));
  std::string name = Text(value);
  if (name.size() > 48) name = fmt::format("d{}", graph_.symbols.size());
  const SymbolId id = AddSymbol(graph_, engine_.symbol_names_.Fresh(name),
                                std::max<int64_t>(range.lo, 0), range.hi);
  engine_.derived_.emplace(value, id);
  engine_.meaning_.push_back(value);
  engine_.factors_.emplace_back();
  return Extent(id);
}

Extent Context::Fresh(std::string_view hint, int64_t min, int64_t max) {
  const SymbolId id = AddSymbol(graph_, engine_.symbol_names_.Fresh(hint), min, std::max(min, max));
  engine_.meaning_.push_back(Affine::OfVar(static_cast<Var>(id.index)));
  engine_.factors_.emplace_back();
  engine_.opaque_.emplace(graph_.symbols.back().name, id);
  return id;
}

Extent Context::Opaque(const std::string& text, int64_t min, int64_t max) {
  const auto key = "=" + text;  // apart from the names of fresh ones
  if (const auto found = engine_.opaque_.find(key); found != engine_.opaque_.end())
    return found->second;
  const std::string name = text.size() > 48 ? fmt::format("d{}", graph_.symbols.size()) : text;
  const Extent extent = Fresh(name, min, max);
  engine_.opaque_.emplace(key, extent.symbol());
  return extent;
}

std::vector<Extent> Context::Factors(std::span<const Extent> extents) {
  int64_t constant = 1;
  std::vector<Extent> symbols;
  auto multiply = [&](int64_t by) {
    if (__builtin_mul_overflow(constant, by, &constant)) constant = INT64_MAX;
  };
  for (const Extent& extent : extents) {
    if (extent.IsConstant()) {
      multiply(extent.value());
      continue;
    }
    const auto& factors = engine_.factors_[static_cast<size_t>(extent.symbol().index)];
    for (const Extent& factor : factors) {
      factor.IsConstant() ? multiply(factor.value()) : symbols.push_back(factor);
    }
    if (!factors.empty()) continue;
    // 2*h is 2 times h: a coefficient that all terms share is a factor.
    const Affine meaning = Meaning(extent);
    const bool multiple = meaning.constant() == 0 && meaning.terms().size() == 1 &&
                          !meaning.terms()[0].dividend && meaning.terms()[0].coefficient > 1;
    if (multiple) multiply(meaning.terms()[0].coefficient);
    symbols.push_back(multiple ? Extent(SymbolId(static_cast<size_t>(meaning.terms()[0].var)))
                               : extent);
  }
  if (constant == 0) return {Extent(0)};
  if (constant != 1) symbols.emplace_back(constant);
  return symbols;
}

Extent Context::Product(std::span<const Extent> extents) {
  std::vector<Extent> symbols = Factors(extents);
  int64_t constant = 1;
  if (!symbols.empty() && symbols.back().IsConstant()) {
    constant = symbols.back().value();
    symbols.pop_back();
  }
  if (symbols.empty()) return constant;
  if (symbols.size() == 1) {
    if (const auto product = Times(Meaning(symbols[0]), Affine(constant))) {
      auto extent = ToExtent(*product, "a product");
      if (extent.ok()) return *extent;
    }
  }
  std::ranges::sort(symbols, {}, [](const Extent& e) { return e.symbol().index; });
  std::string text = constant == 1 ? "" : fmt::format("{}*", constant);
  int64_t max = constant, min = constant;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Interval range = Range(symbols[i]);
    text += (i > 0 ? "*" : "") + Text(symbols[i]);
    if (__builtin_mul_overflow(max, range.hi, &max)) max = INT64_MAX;
    if (__builtin_mul_overflow(min, range.lo, &min)) min = 0;
  }
  const Extent product = Opaque(text, min, max);
  auto& factors = engine_.factors_[static_cast<size_t>(product.symbol().index)];
  if (factors.empty()) {
    factors = symbols;
    if (constant != 1) factors.emplace_back(constant);
  }
  return product;
}

Result<Extent> Context::Same(Extent a, Extent b, std::string_view what) {
  if (a.IsConstant() && b.IsConstant() && a.value() != b.value()) {
    return Invalid(
        fmt::format("{}: found {} and {}, expected equal extents", what, a.value(), b.value()));
  }
  const Extent known = a.IsConstant() ? a : b, other = a.IsConstant() ? b : a;
  if (known.IsConstant() && !other.IsConstant()) {
    const Interval range = Range(other);
    if (known.value() < range.lo || known.value() > range.hi) {
      return Invalid(fmt::format("{}: found {} and {} (in {}:{})", what, known.value(), Text(other),
                                 range.lo, range.hi));
    }
  }
  return a.IsConstant() ? a : b.IsConstant() ? b : a;
}

Status Context::BroadcastsTo(Extent have, Extent want, std::string_view what) {
  const Interval range = Range(have);
  return range.lo <= 1 && range.hi >= 1 ? Status() : Same(have, want, what).status();
}

Result<Extent> Context::Broadcast(Extent a, Extent b) {
  if (a == b) return a;
  if (a == Extent(1)) return b;
  if (b == Extent(1)) return a;
  if (a.IsConstant() && b.IsConstant()) {
    return Invalid(fmt::format("extents {} and {} do not broadcast", a.value(), b.value()));
  }
  if (a.IsConstant()) return a;  // the symbol is 1 or as large: checked when the network runs
  if (b.IsConstant()) return b;
  const Extent first = std::min(a.symbol(), b.symbol()), second = std::max(a.symbol(), b.symbol());
  const Interval ra = Range(a), rb = Range(b);
  if (ra.lo > 1) return a;
  if (rb.lo > 1) return b;
  return Opaque(fmt::format("broadcast({}, {})", Text(first), Text(second)), std::min(ra.lo, rb.lo),
                std::max(ra.hi, rb.hi));
}

Result<Extents> Context::Broadcast(const Extents& a, const Extents& b) {
  const Extents& longer = a.size() >= b.size() ? a : b;
  const Extents& shorter = a.size() >= b.size() ? b : a;
  Extents out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    Extent& into = out[longer.size() - shorter.size() + i];
    auto extent = Broadcast(into, shorter[i]);
    if (!extent.ok())
      return Invalid(fmt::format("shapes {} and {} do not broadcast", Text(a), Text(b)));
    into = *extent;
  }
  return out;
}

std::string Context::Text(Extent extent) const {
  return extent.IsConstant() ? fmt::format("{}", extent.value())
                             : graph_.symbols[static_cast<size_t>(extent.symbol().index)].name;
}

std::string Context::Text(const Affine& value) const {
  return value.Print([&](Var v) { return graph_.symbols[static_cast<size_t>(v)].name; });
}

std::string Context::Text(const Extents& extents) const {
  std::string out = "[";
  for (size_t i = 0; i < extents.size(); ++i) out += (i > 0 ? ", " : "") + Text(extents[i]);
  return out + "]";
}

Result<int64_t> Context::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    return Invalid(
        fmt::format("found axis {}, expected {} to {} for rank {}", axis, -rank, rank - 1, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Result<std::vector<int64_t>> Context::Axes(std::span<const int64_t> axes, int64_t rank) const {
  std::vector<int64_t> out;
  for (int64_t axis : axes) {
    WEFT_TRY(const int64_t a, Axis(axis, rank));
    if (std::ranges::find(out, a) != out.end())
      return Invalid(fmt::format("axis {} is given twice", axis));
    out.push_back(a);
  }
  return out;
}

Status Context::Rank(size_t i, int64_t rank) const {
  const Extents* in = In(i);
  if (!in || static_cast<int64_t>(in->size()) == rank) return {};
  return Invalid(fmt::format("input {} has the shape {}, expected rank {}", i, Text(*in), rank));
}

Status Context::MinRank(size_t i, int64_t rank) const {
  const Extents* in = In(i);
  if (!in || static_cast<int64_t>(in->size()) >= rank) return {};
  return Invalid(
      fmt::format("input {} has the shape {}, expected rank {} or more", i, Text(*in), rank));
}

Status Context::Size(std::string_view attribute, size_t found, size_t expected) const {
  if (found == expected) return {};
  return Invalid(
      fmt::format("attribute \"{}\" has {} elements, expected {}", attribute, found, expected));
}

Status Context::OneOf(std::string_view attribute, std::string_view otherwise,
                      std::initializer_list<std::string_view> known) const {
  const std::string found = StringAttr(node, attribute, std::string(otherwise));
  for (std::string_view one : known) {
    if (found == one) return {};
  }
  return Invalid(fmt::format("attribute \"{}\" is {}, expected one of {}", attribute,
                             PrintString(found), fmt::join(known, ", ")));
}

}  // namespace weft::graph::infer
