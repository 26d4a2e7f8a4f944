// Products of few rows with weights that no cache holds: they read their weights and do little
// else, so that fewer bits a weight save as much of their time. No weight changes.
//
// Weights that were trained or stored as bfloat16 or float16 and are float32 in the model are read
// as what they were, in half of the time. Of other weights 28 bits are read.
//
// Of a float32 the sign and the fraction, 24 bits, look like noise, but the eight bits of the
// exponent don't: nearly all weights have one of fifteen that follow each other, and four bits say
// which; the last state is zero. The few weights that are smaller, or larger than nearly all, are
// zero there, and the rows that have one are listed for each sixteen columns:
//
//   y[m, n] = Σ_k x[m, k] * w'[k, n] + Σ_e x[m, row[e, n / 16]] * rest[e, n]
//
// An infinite input in a row that is listed may give NaN where w alone would give an infinity.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <tuple>
#include <utility>

#include "base/threads/parallel.h"
#include "graph/edit.h"
#include "tc_lang/ops/families.h"

namespace weft::tc {
namespace {

constexpr int64_t kMostRows = 4;          // of products; more multiply for longer than they read
constexpr int64_t kLeastElems = 1 << 16;  // of weights
constexpr int64_t kStepsForOneRow = 50;   // of a sum for each row that is listed
constexpr int64_t kColumns = 16;          // whose rows are listed together
constexpr int kExponents = 15;

// The forms of weights [k, n], by what they are called among Graph::forms.
constexpr std::string_view kHalf = "compressed half";  // bf16 or f16 [k, n], or else
constexpr std::string_view kLow = "compressed low";    // u16 [k, n], of the fraction
constexpr std::string_view kHigh = "compressed high";  // i8 [k, n], the sign and the others
constexpr std::string_view kCode = "compressed code";  // u4 [k, n], 0 or exponent - base
constexpr std::string_view kBase = "compressed base";  // i32 []
constexpr std::string_view kRows =
    "compressed rows";  // i32 [e, n / 16], no form if nothing is listed
constexpr std::string_view kRest = "compressed rest";  // f32 [e, n]

bool IsTransposed(const graph::Node& node) {
  return node.op == graph::Op::kGemm && graph::IntAttr(node, "transB", 0) != 0;
}

// By weights and whether they are taken as they lie or transposed.
using Weights = std::pair<graph::ValueId, bool>;

std::string KeyOf(std::string_view form, bool transposed) {
  return std::string(form) + (transposed ? " transposed" : "");
}

graph::ValueId FormOf(const graph::Graph& graph, const Weights& of, std::string_view form) {
  const auto found = graph.forms.find({of.first, KeyOf(form, of.second)});
  return found == graph.forms.end() ? graph::ValueId() : found->second;
}

// The weights of a product of few rows, if that is what the node is.
std::optional<Weights> WeightsOf(const graph::Graph& graph, const graph::Node& node) {
  if (node.op != graph::Op::kMatMul && node.op != graph::Op::kGemm) return std::nullopt;
  if (node.op == graph::Op::kGemm &&
      (graph::IntAttr(node, "transA", 0) != 0 || graph::FloatAttr(node, "alpha", 1) != 1 ||
       graph::FloatAttr(node, "beta", 1) != 1))
    return std::nullopt;
  const graph::Value& x = graph[node.inputs[0]];
  const graph::Value& w = graph[node.inputs[1]];
  const auto shape = graph::StaticShape(x);
  if (!shape || shape->size() < 2 || shape->back() <= 0 || x.dtype != Dtype::kF32)
    return std::nullopt;
  if (w.kind != graph::ValueKind::kConstant || w.dtype != Dtype::kF32 ||
      w.constant.shape().size() != 2 || w.constant.elems() < kLeastElems)
    return std::nullopt;
  if (ops::Product(*shape) / shape->back() > kMostRows) return std::nullopt;
  return Weights{node.inputs[1], IsTransposed(node)};
}

int ExponentOf(uint32_t bits) { return static_cast<int>(bits >> 23 & 0xff); }

// The exponent before the first of those that most weights have.
int BaseOf(std::span<const float> weights) {
  std::array<int64_t, 256> counts{};
  for (const float w : weights) ++counts[ExponentOf(std::bit_cast<uint32_t>(w))];
  int base = 0;
  int64_t most = -1;
  for (int b = 0; b + kExponents < 255; ++b) {  // 0 and 255 are no exponents
    int64_t held = 0;
    for (int e = b + 1; e <= b + kExponents; ++e) held += counts[e];
    if (held > most) most = held, base = b;
  }
  return base;
}

// The float16 that has this value, if one does.
std::optional<uint16_t> HalfOf(uint32_t bits) {
  constexpr int kLeast = -14, kMost = 15, kFraction = 10, kDropped = 23 - kFraction;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (bits << 1 == 0) return sign;
  const int exponent = ExponentOf(bits) - 127;
  const int dropped = kDropped + std::max(0, kLeast - exponent);  // subnormal numbers keep fewer
  const uint32_t number = (bits & 0x7fffff) | 0x800000;
  if (exponent > kMost || dropped > 23 || number % (1u << dropped) != 0) return std::nullopt;
  const uint32_t kept = number >> dropped;  // with the first bit, where it is a normal number
  const uint32_t biased = exponent < kLeast ? 0 : static_cast<uint32_t>(exponent - kLeast);
  return static_cast<uint16_t>(sign | ((biased << kFraction) + kept));
}

std::optional<uint16_t> BfloatOf(uint32_t bits) {
  if (bits % (1u << 16) != 0) return std::nullopt;
  return static_cast<uint16_t>(bits >> 16);
}

// The weights as numbers of 16 bits, if each is one.
template <typename F>
std::optional<Tensor> InHalf(const Tensor& weights, Dtype dtype, F narrow) {
  Tensor out(dtype, weights.shape());
  auto* const to = static_cast<uint16_t*>(out.mutable_data());
  for (int64_t i = 0; i < weights.elems(); ++i) {
    const auto bits = narrow(std::bit_cast<uint32_t>(weights.as<float>()[i]));
    if (!bits) return std::nullopt;
    to[i] = *bits;
  }
  return out;
}

// Rows as columns, by tiles that a cache holds.
Tensor Transposed(const Tensor& weights) {
  constexpr int64_t kTile = 16;
  const int64_t rows = weights.shape()[0], columns = weights.shape()[1];
  Tensor out(Dtype::kF32, {columns, rows});
  const float* const from = weights.as<float>();
  float* const to = out.mutable_as<float>();
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile)
      for (int64_t i = r; i < std::min(rows, r + kTile); ++i)
        for (int64_t j = c; j < std::min(columns, c + kTile); ++j)
          to[j * rows + i] = from[i * columns + j];
  return out;
}

// What there is for weights that are not held: for each sixteen columns the rows that have one.
class Listed {
 public:
  explicit Listed(int64_t columns)
      : rows_(static_cast<size_t>((columns + kColumns - 1) / kColumns)) {}

  void Add(int64_t row, int64_t column, uint32_t bits) {
    std::vector<int32_t>& rows = rows_[static_cast<size_t>(column / kColumns)];
    if (rows.empty() || rows.back() != row) rows.push_back(static_cast<int32_t>(row));
    most_ = std::max(most_, std::ssize(rows));
    weights_.push_back({column, std::ssize(rows) - 1, std::bit_cast<float>(bits)});
  }

  int64_t most() const { return most_; }  // rows of some columns

  std::pair<Tensor, Tensor> RowsAndRest(int64_t columns) const {
    const int64_t panels = std::ssize(rows_);
    Tensor rows(Dtype::kI32, {most_, panels}), rest(Dtype::kF32, {most_, columns});
    // Shorter lists go on with a row that is listed anyway: what is infinite elsewhere meets no
    // zero.
    const auto some = std::ranges::find_if(rows_, [](const auto& r) { return !r.empty(); });
    if (some != rows_.end()) std::fill_n(rows.mutable_as<int32_t>(), rows.elems(), some->front());
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t e = 0; e < std::ssize(rows_[static_cast<size_t>(panel)]); ++e)
        rows.mutable_as<int32_t>()[e * panels + panel] =
            rows_[static_cast<size_t>(panel)][static_cast<size_t>(e)];
    for (const Weight& w : weights_) rest.mutable_as<float>()[w.e * columns + w.column] = w.value;
    return {std::move(rows), std::move(rest)};
  }

 private:
  struct Weight {
    int64_t column, e;
    float value;
  };
  std::vector<std::vector<int32_t>> rows_;  // by sixteen columns
  std::vector<Weight> weights_;
  int64_t most_ = 0;
};

struct Compressed {
  std::optional<Tensor> half;
  Tensor low, high, code, base, rows, rest;
  bool fits = false;
};

Compressed Compress(const Tensor& weights) {
  Compressed in_half{.half = InHalf(weights, Dtype::kBF16, BfloatOf), .fits = true};
  if (!in_half.half) in_half.half = InHalf(weights, Dtype::kF16, HalfOf);
  if (in_half.half) return in_half;
  const int64_t k = weights.shape()[0], n = weights.shape()[1];
  const float* const all = weights.as<float>();
  const int base = BaseOf({all, static_cast<size_t>(weights.elems())});
  Compressed out{.low = Tensor(Dtype::kU16, {k, n}),
                 .high = Tensor(Dtype::kI8, {k, n}),
                 .code = Tensor(Dtype::kU4, {k, n})};
  auto* const low = out.low.mutable_as<uint16_t>();
  auto* const high = out.high.mutable_as<int8_t>();
  auto* const code = static_cast<uint8_t*>(out.code.mutable_data());
  Listed listed(n);
  for (int64_t row = 0; row < k; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      const int64_t at = row * n + column;
      const auto bits = std::bit_cast<uint32_t>(all[at]);
      const bool is_zero = bits << 1 == 0;
      const int shifted = ExponentOf(bits) - base;
      if (!is_zero && (shifted < 1 || shifted > kExponents)) {
        listed.Add(row, column, bits);
        if (listed.most() > k / kStepsForOneRow) return {};
        continue;
      }
      low[at] = static_cast<uint16_t>(bits);
      high[at] = static_cast<int8_t>((bits >> 24 & 0x80) | (bits >> 16 & 0x7f));
      if (!is_zero) code[at / 2] |= static_cast<uint8_t>(shifted << 4 * (at % 2));
    }
  }
  out.base = Tensor(Dtype::kI32, {});
  out.base.mutable_as<int32_t>()[0] = base;
  std::tie(out.rows, out.rest) = listed.RowsAndRest(n);
  out.fits = true;
  return out;
}

}  // namespace

void PrepareCompressed(graph::Graph& graph, int64_t least_bytes) {
  std::vector<Weights> all;  // each once, in the order of the nodes
  int64_t bytes = 0;
  for (const graph::Node& node : graph.nodes) {
    const auto weights = WeightsOf(graph, node);
    if (!weights || std::ranges::count(all, *weights) > 0) continue;
    all.push_back(*weights);
    bytes += graph[weights->first].constant.bytes();
  }
  if (bytes < least_bytes) return;
  std::vector<Compressed> compressed(all.size());
  InParallel(all.size(), [&](size_t i) {
    const Tensor& weights = std::as_const(graph)[all[i].first].constant;
    compressed[i] = Compress(all[i].second ? Transposed(weights) : weights);
  });
  graph::Names names(graph);
  for (size_t i = 0; i < all.size(); ++i) {
    Compressed& c = compressed[i];
    if (!c.fits) continue;
    const auto add = [&](std::string_view form, Tensor tensor) {
      const std::string name = names.Fresh(graph[all[i].first].name + "_" +
                                           std::string(form.substr(form.find(' ') + 1)));
      const graph::ValueId added = graph::AddConstant(graph, name, std::move(tensor));
      graph.forms[{all[i].first, KeyOf(form, all[i].second)}] = added;
    };
    if (c.half) {
      add(kHalf, *std::move(c.half));
      continue;
    }
    add(kLow, std::move(c.low));
    add(kHigh, std::move(c.high));
    add(kCode, std::move(c.code));
    add(kBase, std::move(c.base));
    if (c.rows.elems() == 0) continue;
    add(kRows, std::move(c.rows));
    add(kRest, std::move(c.rest));
  }
}

namespace ops {

void MatMulCompressed(Writer& w) {
  const auto weights = WeightsOf(w.graph, w.node);
  const auto form = [&](std::string_view name) { return FormOf(w.graph, *weights, name); };
  const bool in_half = weights && form(kHalf).valid();
  if (!in_half && (!weights || !form(kLow).valid()))
    return w.Refuse("weights that stay as they are");
  const Operand x = w.In(0), y = w.Out(), first = w.Value(form(in_half ? kHalf : kLow));
  const bool has_rest = form(kRows).valid(), has_c = w.node.op == graph::Op::kGemm && w.Has(2);
  const Subs rows = w.Indices("i", Dims(x.dims.begin(), x.dims.end() - 1));
  const Subs at = Concat(rows, {w.Range("n", w.Extent(first, 1))}), place{"k", "n"};
  w.Range("k", w.Extent(first, 0));
  if (!w.ok()) return;
  const bool whole = !has_rest && !has_c;
  const Operand product = whole ? y : w.Temp("product", Dtype::kF32);
  std::string weight = Cast(Dtype::kF32, w.At(first, place));
  if (!in_half) {
    const std::string exponent = Cast(Dtype::kI32, w.At(w.Value(form(kCode)), place));
    weight = fmt::format(
        "bitcast_float(bit_or(bit_or({}, bit_and(shl({}, 16), {})), {} > 0 ? shl({} + {}, 23) : "
        "0))",
        Cast(Dtype::kI32, w.At(first, place)), Cast(Dtype::kI32, w.At(w.Value(form(kHigh)), place)),
        std::bit_cast<int32_t>(0x807f0000u), exponent, exponent,
        ElemAsInt(w.graph[form(kBase)].constant, 0));
  }
  w.Reduce("contraction", product, at, "+=!",
           fmt::format("{} * {}", w.At(x, Concat(rows, {"k"})), weight));
  if (whole) return;
  std::string value = w.At(product, at);
  if (has_rest) {
    const Operand row = w.Value(form(kRows)), rest = w.Value(form(kRest)),
                  sum = w.Temp("rest", Dtype::kF32);
    w.Range("e", w.Extent(row, 0));
    const std::string of_n = w.At(row, {"e", fmt::format("n / {}", kColumns)});
    w.Reduce("gather", sum, at, "+=!",
             fmt::format("{} * {}", w.At(x, Concat(rows, {of_n})), w.At(rest, {"e", "n"})));
    value += " + " + w.At(sum, at);
  }
  if (has_c) value += " + " + w.AtAligned(w.Arg(2), at, y.dims);
  w.Set("pointwise", y, at, value);
}

}  // namespace ops
}  // namespace weft::tc
