// A product of few rows with weights that are stored as integers: MatMul(x, DequantizeLinear(w)),
// also with a transposition between the two, and Gemm. Such a product reads its weights and does
// little else, so they had better stay as small as they are; those of products with more rows
// become numbers of 32 bits once, by fold_constants.
//
// DequantizeMatMul(x, w, scale, zero) {block_size}: y[.., m, n] = Σ_k x[.., m, k] * (w[k, n] -
// zero[k / block_size, n]) * scale[k / block_size, n]. Weights are i4 or i8, numbers around zero;
// zero points, of the same type, are optional; scales are f32.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "graph/rewrites/rewriter.h"

namespace weft::graph {
namespace {

// More rows than this, and multiplying takes longer than reading f32 weights on every machine.
constexpr int64_t kMostRows = 64;

const Tensor* ConstantOf(const Rewriter& r, ValueId id) {
  return id.valid() && r.graph[id].kind == ValueKind::kConstant ? &r.graph[id].constant : nullptr;
}

bool AreFewRows(const Graph& graph, ValueId x) {
  const auto shape = StaticShape(graph[x]);
  if (!shape || shape->empty() || graph[x].dtype != Dtype::kF32) return false;
  const auto elems = CountElems(*shape);
  return elems.ok() && shape->back() > 0 && *elems / shape->back() <= kMostRows;
}

// What a product needs: weights [k, n], the rest [ceil(k / block), n].
struct Weights {
  Tensor w, scale;
  std::optional<Tensor> zero;
  int64_t block = 1;
};

Tensor Transposed(const Tensor& t) {
  const int64_t rows = t.shape()[0], columns = t.shape()[1];
  Tensor out(t.dtype(), {columns, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (IsFloat(t.dtype()))
        SetElem(out, j * rows + i, ElemAsDouble(t, i * columns + j));
      else
        SetElemInt(out, j * rows + i, ElemAsInt(t, i * columns + j));
    }
  }
  return out;
}

// One of a tensor, an axis or a block, as [blocks, n] with the columns of the weights.
std::optional<Tensor> ByBlock(const Tensor& t, int64_t blocks, int64_t n, bool along_n) {
  if (t.shape().size() == 2) {
    if (t.shape() != Shape{blocks, n}) return std::nullopt;
    return t;
  }
  const bool one = t.elems() == 1;
  if (blocks != 1 || (!one && (!along_n || t.elems() != n))) return std::nullopt;
  Tensor out(t.dtype(), {1, n});
  for (int64_t j = 0; j < n; ++j) {
    if (IsFloat(t.dtype()))
      SetElem(out, j, ElemAsDouble(t, one ? 0 : j));
    else
      SetElemInt(out, j, ElemAsInt(t, one ? 0 : j));
  }
  return out;
}

// Makes the weights signed numbers without zero points, or, in blocks where those do not fit the
// type, with ones as near to 0 as they can be. False if the sums that these are taken off could
// cancel: rounded more than twice as much as those of the weights less their zero points.
bool Centre(Weights& out) {
  if (!out.zero && KindOf(out.w.dtype()) == DtypeKind::kSigned) return true;
  const bool half = SharesBytes(out.w.dtype());
  const int64_t least = half ? -8 : -128, most = -least - 1;
  const int64_t k = out.w.shape()[0], n = out.w.shape()[1], blocks = out.scale.shape()[0];
  Tensor w(half ? Dtype::kI4 : Dtype::kI8, {k, n}), zero(w.dtype(), {blocks, n});
  std::vector<double> direct(n), shifted(n);  // what is rounded, by column
  bool any = false;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * out.block * n, end = std::min(k, (b + 1) * out.block) * n;
    const auto less_zero = [&](int64_t i) {
      return ElemAsInt(out.w, i) - (out.zero ? ElemAsInt(*out.zero, b * n + i % n) : 0);
    };
    std::vector<int64_t> lo(n, INT64_MAX), hi(n, INT64_MIN);
    for (int64_t i = first; i < end; ++i) {
      lo[i % n] = std::min(lo[i % n], less_zero(i));
      hi[i % n] = std::max(hi[i % n], less_zero(i));
    }
    for (int64_t j = 0; j < n; ++j) {
      SetElemInt(zero, b * n + j, std::clamp<int64_t>(0, least - lo[j], most - hi[j]));
      any |= ElemAsInt(zero, b * n + j) != 0;
    }
    for (int64_t i = first; i < end; ++i) {
      const int64_t number = less_zero(i), shift = ElemAsInt(zero, b * n + i % n);
      const double scale = std::abs(ElemAsDouble(out.scale, b * n + i % n));
      SetElemInt(w, i, number + shift);
      direct[i % n] += scale * static_cast<double>(std::abs(number));
      shifted[i % n] += scale * static_cast<double>(std::abs(number + shift) + std::abs(shift));
    }
  }
  for (int64_t j = 0; j < n; ++j)
    if (shifted[j] > 2 * direct[j]) return false;
  out.w = std::move(w);
  out.zero.reset();
  if (any) out.zero = std::move(zero);
  return true;
}

std::optional<Weights> WeightsOf(const Rewriter& r, const Node& dequantize, bool transposed) {
  const Tensor* w = ConstantOf(r, InputAt(dequantize, 0));
  const Tensor* scale = ConstantOf(r, InputAt(dequantize, 1));
  const ValueId zero_id = InputAt(dequantize, 2);
  const Tensor* zero = ConstantOf(r, zero_id);
  if (!w || !scale || (zero_id.valid() && !zero)) return std::nullopt;
  const bool small = Bits(w->dtype()) <= 8 && IsInteger(w->dtype());
  if (!small || w->shape().size() != 2 || w->elems() == 0 || scale->dtype() != Dtype::kF32)
    return std::nullopt;
  const int64_t given = IntAttr(dequantize, "axis", 1),
                block = IntAttr(dequantize, "block_size", 0);
  if (given < -2 || given > 1 || block < 0) return std::nullopt;
  int64_t axis = given < 0 ? given + 2 : given;
  Weights out{.w = *w, .scale = *scale};
  if (zero) out.zero = *zero;
  const auto turn = [](Tensor& t) {
    if (t.shape().size() == 2) t = Transposed(t);
  };
  if (transposed) {
    axis = 1 - axis;
    turn(out.w);
    turn(out.scale);
    if (out.zero) turn(*out.zero);
  }
  const int64_t k = out.w.shape()[0], n = out.w.shape()[1];
  if (block > 0 && axis != 0) return std::nullopt;
  out.block = block > 0 ? std::min(block, k) : k;
  const int64_t blocks = (k + out.block - 1) / out.block;
  const auto scales = ByBlock(out.scale, blocks, n, axis == 1);
  if (!scales) return std::nullopt;
  out.scale = *scales;
  if (out.zero && out.zero->elems() == 1) {
    Tensor whole(out.zero->dtype(), {blocks, n});
    for (int64_t i = 0; i < whole.elems(); ++i) SetElemInt(whole, i, ElemAsInt(*out.zero, 0));
    out.zero = whole;
  } else if (out.zero) {
    const auto zeros = ByBlock(*out.zero, blocks, n, axis == 1);
    if (!zeros) return std::nullopt;
    out.zero = *zeros;
  }
  if (!Centre(out)) return std::nullopt;
  return out;
}

// DequantizeLinear behind at most one transposition of a matrix.
const Node* DequantizeBefore(const Rewriter& r, ValueId id, bool& transposed) {
  if (const Node* transpose = r.Def(id, Op::kTranspose)) {
    const auto perm = IntsAttr(*transpose, "perm");
    if (!perm.empty() && perm != std::vector<int64_t>{1, 0}) return nullptr;
    transposed = !transposed;
    id = transpose->inputs[0];
  }
  return r.Def(id, Op::kDequantizeLinear);
}

void Match(Rewriter& r, NodeId id) {
  const Node node = r.graph[id];
  if (node.op == Op::kGemm && !IsPlainGemm(node)) return;
  if (!AreFewRows(r.graph, node.inputs[0])) return;
  bool transposed = node.op == Op::kGemm && IntAttr(node, "transB", 0) != 0;
  const Node* dequantize = DequantizeBefore(r, node.inputs[1], transposed);
  if (!dequantize) return;
  const std::string name = r.graph[dequantize->outputs[0]].name;
  auto weights = WeightsOf(r, *dequantize, transposed);
  if (!weights) return;
  std::vector<ValueId> inputs = {node.inputs[0], r.NewConstant(name + "_weights", weights->w),
                                 r.NewConstant(name + "_scales", weights->scale)};
  if (weights->zero) inputs.push_back(r.NewConstant(name + "_zeros", *weights->zero));
  std::vector<Attribute> attributes = {{"block_size", weights->block}};
  const ValueId bias = node.op == Op::kGemm ? InputAt(node, 2) : ValueId();
  if (!bias.valid()) return r.Become(id, Op::kDequantizeMatMul, inputs, std::move(attributes));
  const ValueId product =
      r.Insert(id, Op::kDequantizeMatMul, std::move(inputs),
               r.graph[node.outputs[0]].name + "_product", node.outputs[0], std::move(attributes));
  r.Become(id, Op::kAdd, {product, bias});
}

}  // namespace

Result<int> dequantize_matmul(Graph& graph, const Evaluator&) {
  Rewriter r(graph);
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    const Op op = graph.nodes[n].op;
    if (op == Op::kMatMul || op == Op::kGemm) Match(r, NodeId(n));
  }
  return r.Finish();
}

}  // namespace weft::graph
