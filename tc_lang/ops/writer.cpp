#include "tc_lang/ops/writer.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/check.h"
#include "tc_lang/bind.h"
#include "tc_lang/syntax.h"

namespace weft::tc::ops {
namespace {

using graph::ValueId;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Names that translators give to indices: most single letters, and i0, j1, k2, …
bool IsIndexName(std::string_view name) {
  if (name.size() == 1) return std::string_view("bcdeghijklmnopqrstw").find(name[0]) != name.npos;
  return std::string_view("ijk").find(name[0]) != name.npos &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsTaken(std::string_view name) {
  for (std::string_view word : {"where", "in", "def", "exists", "const", "size", "min", "max",
                                "select", "float", "infinity", "nan", "cast", "bitcast"}) {
    if (name == word) return true;
  }
  return ParseTypeWord(name) || ParseScalarFunction(name) || name.starts_with("bitcast_") ||
         IsIndexName(name);
}

// As an identifier of at most 128 letters: exporters that fuse nodes join their names, to hundreds.
std::string Sanitize(std::string_view name) {
  constexpr size_t kLongest = 128;
  std::string out;
  for (char c : name) {
    if (out.size() == kLongest) break;
    const char next = IsWord(c) && static_cast<unsigned char>(c) < 128 ? c : '_';
    if (next != '_' || (!out.empty() && out.back() != '_'))
      out += next;  // "/conv1/out" gives conv1_out
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "v" + out;
  return out;
}

}  // namespace

Writer::Writer(const graph::Graph& g, graph::NodeId id) : graph(g), node(g[id]) {
  const auto check = [&](ValueId v) {
    if (!v.valid()) return;
    const graph::Value& value = graph[v];
    if (!value.dtype || !value.shape)
      return Refuse(fmt::format("the shape of '{}' is not known", value.name),
                    Reason::kOpenExtents);
    if (*value.dtype == Dtype::kString || IsCode(*value.dtype))
      return Refuse(fmt::format("'{}' is {}", value.name, DtypeName(*value.dtype)));
    for (size_t axis = 1; axis < value.shape->size(); ++axis) {
      if (!(*value.shape)[axis].IsConstant()) {
        return Refuse(fmt::format("axis {} of '{}' has a symbolic extent", axis, value.name),
                      Reason::kOpenExtents);
      }
    }
  };
  for (ValueId v : node.inputs) check(v);
  for (ValueId v : node.outputs) check(v);
  if (!ok()) return;
  // Outputs and inputs get their names first, so that temporaries give way.
  for (ValueId v : node.inputs) Named(v);
  for (ValueId v : node.outputs) Named(v);
}

std::string Writer::Fresh(std::string base) {
  if (IsTaken(base)) base += '_';
  std::string name = base;
  for (int n = 1; !names_.insert(name).second || IsTaken(name); ++n)
    name = fmt::format("{}_{}", base, n);
  return name;
}

Dims Writer::DimsOf(const graph::Value& value) {
  Dims dims;
  for (const graph::Extent& extent : *value.shape) {
    if (extent.IsConstant()) {
      dims.emplace_back(extent.value());
      continue;
    }
    const graph::SymbolId symbol = extent.symbol();
    auto [it, isnew] = symbols_.try_emplace(symbol.index);
    if (isnew) it->second = Fresh(Sanitize(graph.symbols[static_cast<size_t>(symbol.index)].name));
    dims.emplace_back(-1);
    dims.back().symbol = it->second;
  }
  return dims;
}

Operand Writer::Named(ValueId id) {
  if (!id.valid() || !graph[id].shape) return {};
  auto [it, isnew] = operands_.try_emplace(id);
  if (isnew) {
    const graph::Value& value = graph[id];
    it->second.id = id;
    it->second.name = Fresh(Sanitize(value.name));
    it->second.dims = DimsOf(value);
    it->second.dtype = *value.dtype;
    half_ = half_ || (IsFloat(*value.dtype) && SizeBytes(*value.dtype) == 2);
  }
  return it->second;
}

Operand Writer::Value(ValueId id) {
  others_.push_back(id);
  return Named(id);
}

Operand Writer::In(size_t i) { return Named(graph::InputAt(node, i)); }

Operand Writer::Out(size_t i) { return HasOut(i) ? Named(node.outputs[i]) : Operand{}; }

Operand Writer::Arg(size_t i) {
  Operand x = In(i);
  const Tensor* constant = Constant(i);
  if (constant == nullptr || constant->elems() != 1) return x;
  if (IsFloat(x.dtype)) {
    x.literal = Lit(x.dtype, ElemAsDouble(*constant, 0));
  } else if (x.dtype != Dtype::kU64 || ElemAsInt(*constant, 0) >= 0) {
    x.literal = LitInt(x.dtype, ElemAsInt(*constant, 0));
  }
  return x;
}

const Tensor* Writer::Constant(size_t i) const {
  const ValueId id = graph::InputAt(node, i);
  if (!id.valid() || graph[id].kind != graph::ValueKind::kConstant) return nullptr;
  return &graph[id].constant;
}

Ints Writer::IntsOr(std::string_view name, int64_t otherwise, size_t n) {
  Ints list = graph::IntsAttr(node, name);
  if (list.empty()) list.assign(n, otherwise);
  if (list.size() != n) Refuse(fmt::format("{} has {} entries, expected {}", name, list.size(), n));
  list.resize(n, otherwise);
  return list;
}

Ints Writer::ConstInts(size_t i) {
  std::optional<Ints> list = graph::ConstantInts(graph, node, i);
  if (!list) Refuse(fmt::format("input {} is not constant", i), Reason::kOpaqueAccess);
  return list.value_or(Ints{});
}

double Writer::ConstFloat(size_t i, double otherwise) {
  if (!Has(i)) return otherwise;
  const Tensor* constant = Constant(i);
  if (constant != nullptr && constant->elems() == 1) return ElemAsDouble(*constant, 0);
  Refuse(fmt::format("input {} is not a constant scalar", i), Reason::kOpaqueAccess);
  return otherwise;
}

int64_t Writer::Axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    Refuse(fmt::format("axis {} of a tensor of rank {}", axis, rank));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

Ints Writer::Axes(std::span<const int64_t> axes, int64_t rank) {
  Ints out;
  for (int64_t axis : axes) out.push_back(Axis(axis, rank));
  return out;
}

int64_t Writer::Extent(const Operand& x, int64_t axis) {
  if (axis < 0 || axis >= x.rank()) {
    Refuse(fmt::format("axis {} of '{}', which has rank {}", axis, x.name, x.rank()));
    return 1;
  }
  const Dim& dim = x.dims[static_cast<size_t>(axis)];
  if (dim.symbolic()) {
    Refuse(fmt::format("axis {} of '{}' has a symbolic extent", axis, x.name),
           Reason::kOpenExtents);
  }
  return dim.symbolic() ? 1 : dim.value;
}

Ints Writer::Extents(const Operand& x, int64_t first) {
  Ints out;
  for (int64_t axis = first; axis < x.rank(); ++axis) out.push_back(Extent(x, axis));
  return out;
}

std::string Writer::Range(std::string name, const Dim& hi, int64_t lo) {
  WEFT_CHECK(IsIndexName(name), "{} is not kept for indices", name);
  std::pair<std::string, std::string> bounds{std::to_string(lo), hi.text()};
  for (auto& [known, range] : ranges_) {
    if (known != name) continue;
    range = std::move(bounds);
    return name;
  }
  ranges_.emplace_back(name, std::move(bounds));
  return name;
}

Subs Writer::Indices(std::string_view prefix, const Dims& dims) {
  Subs out;
  for (size_t i = 0; i < dims.size(); ++i)
    out.push_back(Range(fmt::format("{}{}", prefix, i), dims[i]));
  return out;
}

std::string Writer::At(const Operand& x, const Subs& subs) {
  if (!x.literal.empty()) return x.literal;
  if (x.id.valid()) read_.insert(x.id);
  return subs.empty() ? x.name : fmt::format("{}({})", x.name, fmt::join(subs, ", "));
}

Subs Writer::Align(const Operand& x, const Subs& subs, const Dims& dims) {
  if (!x.literal.empty()) return {};
  Subs out(x.dims.size(), "0");
  if (x.dims.size() > subs.size()) {
    Refuse(fmt::format("'{}' has more axes than what it is broadcast to", x.name));
    return out;
  }
  const size_t skip = subs.size() - x.dims.size();
  for (size_t axis = 0; axis < x.dims.size(); ++axis) {
    const Dim &own = x.dims[axis], &full = dims[skip + axis];
    if (own == full)
      out[axis] = subs[skip + axis];
    else if (!own.IsOne())
      Refuse(fmt::format("axis {} of '{}' is {}, not {}", axis, x.name, own.text(), full.text()),
             own.symbolic() || full.symbolic() ? Reason::kOpenExtents : Reason::kNoComprehension);
  }
  return out;
}

std::string Writer::AtAligned(const Operand& x, const Subs& subs, const Dims& dims) {
  return At(x, Align(x, subs, dims));
}

Operand Writer::Temp(std::string_view suffix, Dtype dtype) {
  const bool widens = SizeBytes(dtype) == 2 && IsFloat(dtype);
  Operand t = Copy(suffix, widens ? Dtype::kF32 : dtype);
  if (widens) wide_names_.insert(t.name);
  return t;
}

Operand Writer::Copy(std::string_view suffix, Dtype dtype) {
  Operand t;
  const std::string base = HasOut(0) ? Out(0).name : "t";
  t.name = Fresh(fmt::format("{}{}{}", base, base.ends_with('_') ? "" : "_", suffix));
  t.dtype = dtype;
  return t;
}

Operand Writer::Const(std::string_view suffix, Dtype dtype, const Ints& shape,
                      std::span<const double> elements) {
  Operand t = Temp(suffix, dtype);
  for (int64_t extent : shape) t.dims.emplace_back(extent);
  std::vector<std::string> texts;
  for (double e : elements) texts.push_back(Lit(t.dtype, e));
  constants_ += fmt::format("  const {} {}({}) = {{{}}}\n", TypeWord(t.dtype), t.name,
                            fmt::join(shape, ", "), fmt::join(texts, ", "));
  return t;
}

// The ranges of all indices that the statement mentions, those of the left first.
std::string Writer::Ranges(const std::string& statement) const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (size_t at = 0; at < statement.size();) {
    if (!IsWord(statement[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < statement.size() && IsWord(statement[end])) ++end;
    const std::string word = statement.substr(at, end - at);
    for (const auto& [name, range] : ranges_) {
      if (name == word && seen.insert(word).second) {
        out.push_back(fmt::format("{} in {}:{}", name, range.first, range.second));
      }
    }
    at = end;
  }
  return out.empty() ? "" : " where " + Join(out, ", ");
}

void Writer::Line(std::string_view tag, const std::string& statement) {
  std::string origin = node.name.empty() && HasOut(0) ? graph[node.outputs[0]].name : node.name;
  std::replace_if(
      origin.begin(), origin.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; },
      ' ');
  // Without a `;`, a statement that opens with `(` would go on with the one before it.
  if (statement.starts_with('(') && !statements_.empty()) statements_.insert(last_end_, ";");
  statements_ += fmt::format("  @{} {}{}", tag, statement, Ranges(statement));
  last_end_ = statements_.size();
  statements_ += fmt::format("  # {}\n", origin);
}

void Writer::Declare(const Operand& temp, const Dims& dims) {
  Operand t = temp;
  t.dims = dims;
  constants_ += fmt::format("  {}\n", Typed(t));
}

// Whether the value of an expression over 16-bit floats is float32 by its type: it has a float
// literal that no cast narrows, or a float32 temporary.
bool Writer::IsWide(const std::string& value) const {
  for (size_t at = 0; at < value.size();) {
    size_t end = at;
    while (end < value.size() && (IsWord(value[end]) || value[end] == '.')) ++end;
    const std::string word = value.substr(at, end - at);
    if (word == "float" || wide_names_.contains(word)) return true;
    const bool number = !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
    if ((number && word.find_first_of(".e") != std::string::npos) || word == "infinity") {
      size_t before = at;
      if (before > 0 && value[before - 1] == '-') --before;
      if (before == 0 || !value.substr(0, before).ends_with("float16(")) return true;
    }
    at = std::max(end, at + 1);
  }
  return false;
}

void Writer::Set(std::string_view tag, const Operand& y, const Subs& subs,
                 const std::string& value) {
  const bool narrow = IsFloat(y.dtype) && SizeBytes(y.dtype) == 2 && IsWide(value);
  const bool widen = half_ && y.dtype == Dtype::kF32 && !y.id.valid();
  Line(tag, fmt::format("{} = {}", At(y, subs), narrow || widen ? Cast(y.dtype, value) : value));
}

void Writer::Reduce(std::string_view tag, const Operand& y, const Subs& subs,
                    std::string_view assign, const std::string& value) {
  const bool narrow = IsFloat(y.dtype) && SizeBytes(y.dtype) == 2 && IsWide(value);
  const bool widen = half_ && y.dtype == Dtype::kF32 && !y.id.valid();
  if (!narrow)
    return Line(tag,
                fmt::format("{} {} {}", At(y, subs), assign, widen ? Cast(y.dtype, value) : value));
  const Operand sum = Temp("sum", y.dtype);
  Line(tag, fmt::format("{} {} {}", At(sum, subs), assign, value));
  Set("pointwise", y, subs, At(sum, subs));
}

void Writer::Pick(std::string_view tag, const Operand& v, const Operand& k, const Subs& subs,
                  std::string_view assign, const std::string& value, const std::string& companion) {
  const std::string left = fmt::format("({}, {})", At(v, subs), At(k, subs));
  Line(tag, fmt::format("{} {} ({}, {})", left, assign, value, companion));
}

void Writer::Refuse(std::string detail, Reason reason) {
  if (refusal_) return;
  std::string op(graph::OpName(node.op));
  refusal_ = Refusal{reason, fmt::format("{}: {}", op, detail)};
}

std::string Writer::Typed(const Operand& x) const {
  std::vector<std::string> dims;
  for (const Dim& dim : x.dims) dims.push_back(dim.text());
  const std::string extents = dims.empty() ? "" : "(" + Join(dims, ", ") + ")";
  return fmt::format("{}{} {}", TypeWord(x.dtype), extents, x.name);
}

// What the def reads: inputs of the node in their order, then other values.
std::vector<ValueId> Writer::Inputs() const {
  std::vector<ValueId> inputs;
  std::unordered_set<ValueId> seen;
  const auto add = [&](ValueId v) {
    if (read_.contains(v) && seen.insert(v).second) inputs.push_back(v);
  };
  for (ValueId v : node.inputs) add(v);
  for (ValueId v : others_) add(v);
  return inputs;
}

std::string Writer::Text() {
  std::vector<std::string> params, outputs;
  for (ValueId v : Inputs()) params.push_back(Typed(operands_.at(v)));
  for (ValueId v : node.outputs) {
    if (v.valid()) outputs.push_back(Typed(operands_.at(v)));
  }
  std::string name =
      graph::ShortName(graph, graph::NodeId(static_cast<size_t>(&node - graph.nodes.data())));
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "n" + name;
  return fmt::format("def {}({}) -> ({}) {{\n{}{}}}\n", name, Join(params, ", "),
                     Join(outputs, ", "), constants_, statements_);
}

Verdict<Alternative> Writer::Finish(std::string name) {
  if (!ok()) return *refusal_;
  Alternative out;
  out.name = std::move(name);
  const std::string text = Text();
  auto defs = ParseDefs(text, out.name);
  if (!defs.ok()) return Refusal{Reason::kNoComprehension, defs.status().ToString()};
  Sizes sizes;
  for (const auto& [id, operand] : operands_) {
    for (const Dim& dim : operand.dims) {
      const bool used = dim.symbolic() && read_.contains(id);
      if (used &&
          std::find(sizes.params.begin(), sizes.params.end(), dim.symbol) == sizes.params.end()) {
        sizes.params.push_back(dim.symbol);
      }
    }
  }
  auto program = Bind(defs->front(), sizes);
  if (!program.ok()) return Refusal{Reason::kNoComprehension, program.status().ToString()};
  out.program = *std::move(program);
  out.inputs = Inputs();
  for (ValueId v : node.outputs) {
    if (v.valid()) out.outputs.push_back(v);
  }
  return out;
}

}  // namespace weft::tc::ops
