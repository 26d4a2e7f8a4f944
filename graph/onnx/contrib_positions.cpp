// Of com.microsoft, what attention knows of positions (ContribOperators.md): biases by distance,
// and rotations by positions in time, height and width.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// The bucket of each distance up to `most`, where the last one begins: half of the buckets have one
// distance each, the others grow with it (Raffel et al., "T5", 2020, section 2.1).
Tensor BucketsOf(int64_t buckets, int64_t most) {
  const int64_t exact = buckets / 2;
  std::vector<int64_t> list;
  for (int64_t distance = 0; distance <= most; ++distance) {
    if (distance < exact) {
      list.push_back(distance);
      continue;
    }
    const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                       std::log(static_cast<float>(most) / static_cast<float>(exact));
    const auto more = static_cast<int64_t>(part * static_cast<float>(buckets - exact));
    list.push_back(std::min(exact + more, buckets - 1));
  }
  return TensorOfInts(list);
}

}  // namespace

// [1, heads, queries, keys]. The table is said to be [buckets, heads] and lies as [heads, buckets].
// Keys behind a query are as far as those before it, and have buckets of their own if
// `is_bidirectional`.
Status ExpandRelativePositionBias(Expansion& e) {
  WEFT_TRY(e.Obeys("bias_table:T query_length:=i64 key_length:=i64", "output:T", "T=f16|f32",
                   "is_bidirectional:i max_distance!:i"));
  constexpr int64_t kMost = 4096;
  const bool both = IntAttr(e.node(), "is_bidirectional", 0) != 0;
  const int64_t most = IntAttr(e.node(), "max_distance", 0);
  WEFT_TRY(const int64_t all, KnownExtent(e, e.In(0), 0, "a table of biases"));
  const int64_t buckets = both ? all / 2 : all;
  if (buckets < 2 || most <= buckets / 2 || most > kMost)
    return Invalid(
        fmt::format("max_distance is {} for {} buckets, expected more than {} and at "
                    "most {}",
                    most, all, std::max<int64_t>(buckets / 2, 1), kMost));
  Formula f(e);
  const auto places = [&](size_t length) {
    const ValueId end = f.Do(Op::kReshape, {e.In(length), e.Ints("number", {})});
    return f.Do(Op::kRange, {e.Int("first", 0), end, e.Int("step", 1)});
  };
  const ValueId query = f.Do(Op::kUnsqueeze, {places(1), e.Ints("column", {1})});
  const ValueId ahead = f.Sub(places(2), query);
  const ValueId distance = f.Do(Op::kMin, {f.Do(Op::kAbs, {ahead}), e.Int("most", most)});
  ValueId bucket = f.Do(Op::kGather, {e.Constant("buckets", BucketsOf(buckets, most)), distance});
  if (both) {
    const ValueId behind = f.Do(Op::kGreater, {ahead, e.Int("here", 0)});
    bucket = f.Add(bucket, f.Do(Op::kWhere, {behind, e.Int("others", buckets), e.Int("same", 0)}));
  }
  const ValueId rows = f.Do(Op::kReshape, {e.In(0), e.Ints("by_head", {-1, all})});
  const ValueId biases = f.Do(Op::kGather, {rows, bucket}, {{"axis", int64_t{1}}});
  return f.Finish(f.Do(Op::kUnsqueeze, {biases, e.Ints("batch", {0})}));
}

// The biases of distances, times gates of each query (Chen et al., "WavLM", 2022, section III.B).
Status ExpandGatedRelativePositionBias(Expansion& e) {
  WEFT_TRY(
      e.Obeys("query_layer:T query_bias:T rel_pos:T weight:T bias:T eco_a:T "
              "token_offset?:=i32",
              "output:T", "T=f16|f32", "num_heads!:i"));
  WEFT_TRY(const int64_t heads, Heads(e, "num_heads"));
  WEFT_TRY(e.Absent(6, "tokens without their padding"));
  if (e.RankOf(e.In(0)) != 3)
    return Unsupported("queries of another rank than 3 are not supported");
  Formula f(e);
  const ValueId sum = f.Add(e.In(0), e.In(1));
  WEFT_TRY(f.status());
  WEFT_TRY(const ValueId queries, Unpacked(e, sum, heads, "queries"));
  const ValueId linear = f.Add(f.Do(Op::kMatMul, {queries, e.In(3)}), e.In(4));
  const ValueId halves = f.Do(Op::kReshape, {linear, e.Ints("halves", {0, 0, 0, 2, -1})});
  const ValueId gates =
      f.Do(Op::kSigmoid,
           {f.Do(Op::kReduceSum, {halves, e.Ints("along", {4})}, {{"keepdims", int64_t{0}}})});
  WEFT_TRY(f.status());
  WEFT_TRY(const auto gate, Columns(e, gates, {1, 1}, "gate"));
  const ValueId one = f.Number(1, gates), two = f.Number(2, gates);
  const ValueId factor = f.Add(f.Mul(gate[0], f.Sub(f.Mul(gate[1], e.In(5)), one)), two);
  return f.Finish(f.Mul(factor, e.In(2)));
}

// Of the sum with a bias, over all axes from `axis` on. The bias lacks the axes that it is the same
// along: those before `axis`, where it is of the same rank with extents of 1, or the first ones.
Status ExpandBiasSoftmax(Expansion& e) {
  WEFT_TRY(e.Obeys("data:T bias:T", "output:T", "T=f16|f32|f64", "axis:i is_inner_broadcast!:i"));
  const auto rank = e.RankOf(e.In(0)), bias_rank = e.RankOf(e.In(1));
  if (!rank || !bias_rank) return Unsupported("operands of unknown rank are not supported");
  const auto count = static_cast<int64_t>(*rank);
  int64_t axis = IntAttr(e.node(), "axis", 1);
  if (axis < -count || axis >= count)
    return Invalid(fmt::format("axis is {}, expected {} to {}", axis, -count, count - 1));
  if (axis < 0) axis += count;
  const bool inner = IntAttr(e.node(), "is_inner_broadcast", 0) != 0;
  if (inner ? *bias_rank != *rank : *bias_rank > *rank)
    return Invalid(fmt::format("a bias of rank {} for data of rank {}", *bias_rank, *rank));
  Formula f(e);
  ValueId x = f.Add(e.In(0), e.In(1));
  if (axis != count - 1) x = f.Do(Op::kFlatten, {x}, {{"axis", axis}});
  ValueId y = f.Do(Op::kSoftmax, {x}, {{"axis", int64_t{-1}}});
  if (axis != count - 1) y = f.Do(Op::kReshape, {y, f.Do(Op::kShape, {e.In(0)})});
  return f.Finish(y);
}

namespace {

// Which of the three positions, in time, height or width, turns each angle.
Result<std::vector<int64_t>> Sections(Expansion& e) {
  const Node& node = e.node();
  const std::vector<int64_t> counts = IntsAttr(node, "mrope_section");
  WEFT_TRY(const int64_t angles, KnownExtent(e, e.In(2), 1, "a table of cosines"));
  constexpr int64_t kMost = 4096;
  if (angles > kMost)
    return Unsupported(fmt::format("{} angles, at most {} are supported", angles, kMost));
  int64_t sum = 0;
  for (const int64_t count : counts) {
    if (count < 0 || count > angles) sum = -angles - 1;
    sum += count;
  }
  if (counts.size() != 3 || sum != angles)
    return Invalid(fmt::format("mrope_section is {}, expected three counts of {} angles",
                               weft::Print(counts), angles));
  const int64_t layout = IntAttr(node, "mrope_layout", 0);
  std::vector<int64_t> of;
  if (layout == 0) {
    for (int64_t k = 0; k < 3; ++k)
      of.insert(of.end(), static_cast<size_t>(counts[static_cast<size_t>(k)]), k);
  } else if (layout == 1) {
    for (int64_t i = 0; i < angles; ++i)
      of.push_back(i < 3 * counts[static_cast<size_t>(i % 3)] ? i % 3 : 0);
  } else {
    return Invalid(fmt::format("mrope_layout is {}, expected 0 or 1", layout));
  }
  return of;
}

Tensor MaskOf(const std::vector<int64_t>& list, int64_t value) {
  Tensor mask(Dtype::kBool, {std::ssize(list)});
  for (size_t i = 0; i < list.size(); ++i)
    SetElemInt(mask, static_cast<int64_t>(i), list[i] == value ? 1 : 0);
  return mask;
}

}  // namespace

Status ExpandMRotaryEmbedding(Expansion& e) {
  WEFT_TRY(e.Obeys("input:T position_ids:=i64 cos_cache:T sin_cache:T", "output:T",
                   "T=bf16|f16|f32",
                   "interleaved:i is_packed_batching:i mrope_layout:i mrope_section!:I "
                   "num_heads:i rotary_embedding_dim:i scale:f"));
  if (IntAttr(e.node(), "is_packed_batching", 0) != 0 || FloatAttr(e.node(), "scale", 1) != 1)
    return Unsupported("packed batches and scales are not supported");
  if (const auto rank = e.RankOf(e.In(1)); rank && rank != 3)
    return Invalid(fmt::format("positions of rank {}, expected 3", *rank));
  WEFT_TRY(const std::vector<int64_t> sections, Sections(e));
  Formula f(e);
  std::vector<ValueId> tables;
  for (const size_t cache : {2, 3}) {
    const auto at = [&](int64_t k) {
      const ValueId places = f.Do(Op::kGather, {e.In(1), e.Int("stream", k)});
      return f.Do(Op::kGather, {e.In(cache), places});
    };
    ValueId table = at(0);
    for (const int64_t k : {1, 2}) {
      const ValueId mask = e.Constant("section", MaskOf(sections, k));
      table = f.Do(Op::kWhere, {mask, at(k), table});
    }
    tables.push_back(table);
  }
  WEFT_TRY(f.status());
  return FinishTurned(e, {tables[0], tables[1]});
}

// Queries and keys beside those that are turned by a quarter already, and the angles of both.
Status ExpandGemmaRotaryEmbedding(Expansion& e) {
  WEFT_TRY(e.Obeys("emb:=f32 q:T q_rot:T k:T k_rot:T", "output1:T output2?:T", "T=f16"));
  Formula f(e);
  const auto factor = [&](Op op) {
    const ValueId x = f.Cast(f.Do(op, {e.In(0)}), Dtype::kF16);
    return f.Do(Op::kUnsqueeze, {x, e.Ints("heads", {1})});
  };
  const ValueId sine = factor(Op::kSin), cosine = factor(Op::kCos);
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = e.In(1 + 2 * i), turned = e.In(2 + 2 * i);
    WEFT_TRY(f.Finish(f.Add(f.Mul(x, cosine), f.Mul(turned, sine)), i));
  }
  return {};
}

}  // namespace weft::graph
