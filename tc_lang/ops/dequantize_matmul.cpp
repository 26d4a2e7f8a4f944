// Products with weights stored as small integers (graph/rewrites/dequantize_matmul.cpp says what
// the operator is).
//
// Scales are the same for a block of k, so they are taken once for its sum:
//
//   y[n] = Σ_b scale[b, n] * (Σ_j x[B b + j] * w[B b + j, n] - zero[b, n] * Σ_j x[B b + j])
//
// which leaves a conversion and a multiply-add for each weight. Products with integers of eight
// bits are rounded once, in the multiply-add, where scaled weights would be rounded before.
#include <fmt/format.h>

#include "graph/edit.h"
#include "graph/forms.h"
#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

std::string AsFloat(Writer& w, const Operand& x, const Subs& subs) {
  return Cast(Dtype::kF32, w.At(x, subs));
}

}  // namespace

void DequantizeMatMul(Writer& w) {
  const Operand x = w.In(0), weights = w.In(1), scale = w.In(2), y = w.Out();
  const int64_t block = w.Int("block_size", 0), k = w.Extent(weights, 0);
  const bool shifts = w.Has(3);
  const Operand zero = w.In(3);
  const Subs rows = w.Indices("i", Dims(x.dims.begin(), x.dims.end() - 1));
  const Subs at = Concat(rows, {w.Range("n", w.Extent(weights, 1))});
  if (!w.ok()) return;
  if (k == 0 || k % block != 0) {  // the last block is a shorter one
    w.Range("k", k);
    const Subs of_block{fmt::format("k / {}", block), "n"};
    std::string weight = AsFloat(w, weights, {"k", "n"});
    if (shifts) weight = fmt::format("({} - {})", weight, AsFloat(w, zero, of_block));
    return w.Reduce(
        "reduction", y, at, "+=!",
        fmt::format("{} * ({} * {})", w.At(x, Concat(rows, {"k"})), weight, w.At(scale, of_block)));
  }
  const bool one = k == block;
  w.Range(one ? "k" : "j", block);
  const std::string place = one ? "k" : Sum({{block, w.Range("b", k / block)}, {1, "j"}});
  const Subs blocks = one ? Subs{} : Subs{"b"}, of_block{one ? "0" : "b", "n"};
  const std::string read = w.At(x, Concat(rows, {place}));
  const Operand product = w.Temp("product", Dtype::kF32), sum = w.Temp("sum", Dtype::kF32);
  const Subs at_product = Concat(Concat(rows, blocks), {"n"}), at_sum = Concat(rows, blocks);
  w.Reduce("contraction", product, at_product, "+=!",
           fmt::format("{} * {}", read, AsFloat(w, weights, {place, "n"})));
  std::string value = w.At(product, at_product);
  if (shifts) {
    w.Reduce("reduction", sum, at_sum, "+=!", read);
    value = fmt::format("({} - {} * {})", value, AsFloat(w, zero, of_block), w.At(sum, at_sum));
  }
  value = fmt::format("{} * {}", value, w.At(scale, of_block));
  if (one) return w.Set("pointwise", y, at, value);
  w.Reduce("reduction", y, at, "+=!", value);
}

void DequantizeMatMulFolded(Writer& w) {
  const auto form = w.graph.forms.find(graph::FoldedWeights(w.node));
  if (form == w.graph.forms.end()) return w.Refuse("weights that stay as they are");
  const Operand x = w.In(0), y = w.Out(), weights = w.Value(form->second);
  const Subs rows = w.Indices("i", Dims(x.dims.begin(), x.dims.end() - 1));
  w.Range("k", w.Extent(weights, 0));
  const Subs at = Concat(rows, {w.Range("n", w.Extent(weights, 1))});
  if (!w.ok()) return;
  w.Reduce("contraction", y, at, "+=!",
           fmt::format("{} * {}", w.At(x, Concat(rows, {"k"})), w.At(weights, {"k", "n"})));
}

}  // namespace weft::tc::ops

namespace weft::tc {

void PrepareDequantized(graph::Graph& graph) {
  constexpr int64_t kFewestRows = 8;  // fewer read their weights for longer than they multiply
  graph::Names names(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (node.op != graph::Op::kDequantizeMatMul) continue;
    const auto rows = graph::StaticShape(graph[node.inputs[0]]);
    const graph::Value &w = graph[node.inputs[1]], &s = graph[node.inputs[2]];
    const graph::ValueId zero = graph::InputAt(node, 3);
    const auto known = [](const graph::Value& v) { return v.kind == graph::ValueKind::kConstant; };
    if (!rows || rows->back() == 0 || !known(w) || !known(s) ||
        (zero.valid() && !known(graph[zero])))
      continue;
    if (ops::Product(*rows) / rows->back() < kFewestRows) continue;
    graph::ValueId& form = graph.forms[graph::FoldedWeights(node)];
    if (form.valid()) continue;
    const Shape shape = w.constant.shape();
    const int64_t block = graph::IntAttr(node, "block_size", 1), columns = shape[1];
    Tensor whole(Dtype::kF32, shape);
    float* out = whole.mutable_as<float>();
    for (int64_t at = 0; at < whole.elems(); ++at) {
      const int64_t of = at / columns / block * columns + at % columns;
      const int64_t shift = zero.valid() ? ElemAsInt(graph[zero].constant, of) : 0;
      out[at] = static_cast<float>(ElemAsInt(w.constant, at) - shift) * s.constant.as<float>()[of];
    }
    form = graph::AddConstant(graph, names.Fresh(w.name + "_folded"), std::move(whole));
  }
}

}  // namespace weft::tc
