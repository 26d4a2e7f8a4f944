// Of com.microsoft, attention over caches of keys and values that have room for later ones, a step
// at a time or by blocks that a layout lists (ContribOperators.md).
#include <fmt/format.h>

#include <limits>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

std::vector<Attribute> ScaleOf(const Node& node) {
  const float scale = FloatAttr(node, "scale", 0);
  if (scale == 0) return {};
  return {{"scale", scale}};
}

// Queries, keys and values, which may all lie in the first.
Result<std::vector<ValueId>> QueryKeyValue(Expansion& e, int64_t heads, int64_t kv_heads) {
  if (e.Has(1) != e.Has(2)) return Invalid("a key and a value only come together");
  if (e.RankOf(e.In(0)) != 3)
    return Unsupported("queries of another rank than 3 are not supported");
  if (e.Has(1)) return std::vector<ValueId>{e.In(0), e.In(1), e.In(2)};
  WEFT_TRY(const int64_t columns, KnownExtent(e, e.In(0), 2, "a packed operand"));
  if (columns % (heads + 2 * kv_heads) != 0)
    return Invalid(fmt::format("{} columns are no {} heads of queries and {} of keys and values",
                               columns, heads, kv_heads));
  const int64_t size = columns / (heads + 2 * kv_heads);
  return Columns(e, e.In(0), {heads * size, kv_heads * size, kv_heads * size}, "part");
}

class OneStep {
 public:
  explicit OneStep(Expansion& e) : e_(e), f_(e), node_(e.node()) {}

  Status Build() {
    WEFT_TRY(
        e_.Obeys("query:T key?:T value?:T mask_index?:M attention_bias?:T past_key?:T "
                 "past_value?:T past_sequence_length?:M beam_width?:M "
                 "cache_indirection?:M bias?:T",
                 "output:T present_key?:T present_value?:T qk?:QK", "T=f16|f32 QK=f16|f32 M=i32",
                 "mask_filter_value:f num_heads!:i output_qk:i "
                 "past_present_share_buffer:i scale:f"));
    WEFT_TRY(e_.Absent(9, "indirections of beams"));
    WEFT_TRY(heads_, Heads(e_, "num_heads"));
    if (e_.HasOut(3) && IntAttr(node_, "output_qk", 0) == 0)
      return Invalid("output 3, the scores, is there and output_qk is 0");
    if (e_.Has(5) != e_.Has(6)) return Invalid("a past key and value only come together");
    if (e_.Has(3) && e_.RankOf(e_.In(3)) != 2)
      return Unsupported("masks of another rank than 2 are not supported");
    const bool cross = e_.Has(1) && e_.RankOf(e_.In(1)) == 4;
    WEFT_TRY(std::vector<ValueId> x, QueryKeyValue(e_, heads_, heads_));
    if (e_.Has(10)) {  // keys and values from elsewhere have theirs already
      WEFT_TRY(const int64_t hidden, KnownExtent(e_, x[0], 2, "a query"));
      WEFT_TRY(const auto biases, Columns(e_, e_.In(10), {hidden, hidden, hidden}, "bias"));
      for (size_t i = 0; i < (cross ? 1 : 3); ++i) x[i] = f_.Add(x[i], biases[i]);
      WEFT_TRY(f_.status());
    }
    for (size_t i = 0; i < (cross ? 1 : 3); ++i) {
      WEFT_TRY(x[i], Unpacked(e_, x[i], heads_, "heads"));
    }
    WEFT_TRY(const ValueId bias, Bias(e_, e_.In(3), e_.In(4), x[0]));
    if (cross) {
      if (e_.Has(5) || e_.HasOut(1) || e_.HasOut(2))
        return Invalid("keys from elsewhere have no past and no present");
      return Attend({x[0], x[1], x[2], bias}, false);
    }
    if (IntAttr(node_, "past_present_share_buffer", 0) == 0)
      return Attend({x[0], x[1], x[2], bias, e_.In(5), e_.In(6)}, true);
    return InBuffer(std::move(x), bias);
  }

 private:
  Status Attend(std::vector<ValueId> operands, bool grows) {
    const size_t count = e_.HasOut(3) ? 4 : grows ? 3 : 1;
    std::vector<Attribute> attributes = ScaleOf(node_);
    if (e_.HasOut(3)) attributes.push_back({"qk_matmul_output_mode", int64_t{2}});  // masked
    WEFT_TRY(const auto made, e_.MakeAll(Op::kAttention, std::move(operands), count, "attended",
                                         std::move(attributes)));
    WEFT_TRY(const ValueId y, Packed(e_, made[0], "packed"));
    for (size_t i = grows ? 1 : 3; i < count; ++i) WEFT_TRY(f_.Finish(made[i], i));
    return f_.Finish(y);
  }

  // The step goes behind the past ones of a buffer; what is behind it is not looked at.
  Status InBuffer(std::vector<ValueId> x, ValueId bias) {
    if (!e_.Has(5) || !e_.Has(7))
      return Invalid("a shared buffer needs a past key, a past value and a past length");
    WEFT_TRY(e_.Unused(3, "the scores of a shared buffer"));
    const ValueId past = f_.Do(Op::kReshape, {f_.Cast(e_.In(7), Dtype::kI64), e_.Ints("one", {1})});
    const ValueId room =
        f_.Do(Op::kShape, {e_.In(5)}, {{"end", int64_t{3}}, {"start", int64_t{2}}});
    const ValueId batch = f_.Do(Op::kShape, {x[0]}, {{"end", int64_t{1}}});
    const ValueId start = f_.Do(Op::kExpand, {past, batch});
    for (size_t i = 1; i < 3; ++i) {
      x[i] = f_.Do(Op::kTensorScatter, {e_.In(4 + i), x[i], start}, {{"axis", int64_t{2}}});
      WEFT_TRY(f_.Finish(x[i], i));
    }
    WEFT_TRY(f_.status());
    WEFT_TRY(const ValueId place, Counting(e_, room, "place"));
    ValueId mask = f_.Do(Op::kUnsqueeze,
                         {f_.Do(Op::kLessOrEqual, {place, past}), e_.Ints("around", {0, 1, 2})});
    if (bias.valid()) {
      const ValueId width = f_.Do(Op::kShape, {bias}, {{"start", int64_t{3}}});
      const ValueId pads =
          f_.Do(Op::kConcat, {e_.Ints("none", std::vector<int64_t>(7, 0)), f_.Sub(room, width)},
                {{"axis", int64_t{0}}});
      const ValueId low = f_.Number(-std::numeric_limits<double>::infinity(), x[0]);
      mask = f_.Do(Op::kWhere, {mask, f_.Do(Op::kPad, {bias, pads}), low});
    }
    const ValueId y = f_.Do(Op::kAttention, {x[0], x[1], x[2], mask}, ScaleOf(node_));
    WEFT_TRY(f_.status());
    WEFT_TRY(const ValueId packed, Packed(e_, y, "packed"));
    return f_.Finish(packed);
  }

  Expansion& e_;
  Formula f_;
  const Node& node_;
  int64_t heads_ = 0;
};

// The attention of blocks of keys that a block of queries looks at, by head (Abdin et al.,
// "Phi-3", 2024, section 2).
class Sparse {
 public:
  explicit Sparse(Expansion& e) : e_(e), f_(e), node_(e.node()) {}

  Status Build() {
    WEFT_TRY(
        e_.Obeys("query:T key?:T value?:T past_key:T past_value:T block_row_indices:M "
                 "block_col_indices:M total_sequence_length:M "
                 "key_total_sequence_lengths:M cos_cache?:T sin_cache?:T",
                 "output:T present_key?:T present_value?:T", "T=bf16|f16|f32 M=i32",
                 "do_rotary:i kv_num_heads!:i num_heads!:i rotary_interleaved:i scale:f "
                 "sparse_block_size!:i"));
    WEFT_TRY(heads_, Heads(e_, "num_heads"));
    WEFT_TRY(const int64_t kv_heads, Heads(e_, "kv_num_heads"));
    block_ = IntAttr(node_, "sparse_block_size", 0);
    if (block_ < 1)
      return Invalid(fmt::format("sparse_block_size is {}, expected 1 or more", block_));
    WEFT_TRY(std::vector<ValueId> x, QueryKeyValue(e_, heads_, kv_heads));
    const ValueId length = f_.Do(Op::kShape, {x[0]}, {{"end", int64_t{2}}, {"start", int64_t{1}}});
    const ValueId start = Start(length);
    WEFT_TRY(f_.status());
    WEFT_TRY(const ValueId steps, Counting(e_, length, "steps"));
    const ValueId places = f_.Add(f_.Do(Op::kUnsqueeze, {start, e_.Ints("column", {1})}), steps);
    const int64_t counts[] = {heads_, kv_heads, kv_heads};
    for (size_t i = 0; i < 3; ++i) {
      if (i < 2 && IntAttr(node_, "do_rotary", 0) != 0) {
        WEFT_TRY(x[i], Turned(x[i], places, counts[i]));
      }
      WEFT_TRY(x[i], Unpacked(e_, x[i], counts[i], "heads"));
      if (i == 0) continue;
      x[i] = f_.Do(Op::kTensorScatter, {e_.In(2 + i), x[i], start}, {{"axis", int64_t{2}}});
      WEFT_TRY(f_.Finish(x[i], i));
    }
    const ValueId room = f_.Do(Op::kShape, {x[1]}, {{"end", int64_t{3}}, {"start", int64_t{2}}});
    WEFT_TRY(f_.status());
    WEFT_TRY(const ValueId keys, Counting(e_, room, "key"));
    const ValueId before =
        f_.Do(Op::kLessOrEqual, {keys, f_.Do(Op::kUnsqueeze, {places, e_.Ints("around", {1, 3})})});
    const ValueId mask = f_.Do(Op::kAnd, {before, LookedAt(places, keys)});
    const ValueId y = f_.Do(Op::kAttention, {x[0], x[1], x[2], mask}, ScaleOf(node_));
    WEFT_TRY(f_.status());
    WEFT_TRY(const ValueId packed, Packed(e_, y, "packed"));
    return f_.Finish(packed);
  }

 private:
  // How many steps of each batch are past: none in a prompt, which is as long as all there is.
  ValueId Start(ValueId length) {
    const auto list = [&](size_t i, int64_t size) {
      return f_.Do(Op::kReshape, {f_.Cast(e_.In(i), Dtype::kI64), e_.Ints("list", {size})});
    };
    const ValueId prompt = f_.Do(Op::kEqual, {list(7, 1), length});
    return f_.Do(Op::kWhere, {prompt, e_.Int("none", 0), f_.Sub(list(8, -1), length)});
  }

  Result<ValueId> Turned(ValueId x, ValueId places, int64_t heads) {
    if (!e_.Has(9) || !e_.Has(10)) return Invalid("inputs 9 and 10, the angles, are absent");
    WEFT_TRY(const int64_t angles, KnownExtent(e_, e_.In(9), 1, "a table of cosines"));
    return e_.Make(Op::kRotaryEmbedding, {x, e_.In(9), e_.In(10), places}, "turned",
                   {{"interleaved", IntAttr(node_, "rotary_interleaved", 0)},
                    {"num_heads", heads},
                    {"rotary_embedding_dim", 2 * angles}});
  }

  ValueId Count(ValueId end) {
    const ValueId number = f_.Do(Op::kSqueeze, {end, e_.Ints("only", {0})});
    return f_.Do(Op::kRange, {e_.Int("first", 0), number, e_.Int("step", 1)});
  }

  // [layouts, blocks of queries, blocks of keys]. Of layout l, block row r has the columns of which
  // the places are from the r-th of its row indices to the next.
  ValueId Layouts(ValueId blocks) {
    const ValueId rows =
        f_.Do(Op::kUnsqueeze, {f_.Cast(e_.In(5), Dtype::kI64), e_.Ints("on", {2})});
    const ValueId columns =
        f_.Do(Op::kUnsqueeze, {f_.Cast(e_.In(6), Dtype::kI64), e_.Ints("on", {2})});
    const auto part = [&](int64_t from, int64_t to) {
      return f_.Do(Op::kSlice,
                   {rows, e_.Ints("from", {from}), e_.Ints("to", {to}), e_.Ints("along", {1})});
    };
    const ValueId first = part(0, -1), end = part(1, std::numeric_limits<int64_t>::max());
    const ValueId place =
        Count(f_.Do(Op::kShape, {columns}, {{"end", int64_t{2}}, {"start", int64_t{1}}}));
    const ValueId listed = f_.Do(
        Op::kAnd, {f_.Do(Op::kGreaterOrEqual, {place, first}), f_.Do(Op::kLess, {place, end})});
    const ValueId at = f_.Do(Op::kEqual, {columns, Count(blocks)});
    const ValueId found =
        f_.Do(Op::kMatMul, {f_.Cast(listed, Dtype::kF32), f_.Cast(at, Dtype::kF32)});
    return f_.Do(Op::kGreater, {found, f_.Number(0, found)});
  }

  // [batch, heads, queries, keys]: heads have the layouts in turns.
  ValueId LookedAt(ValueId places, ValueId keys) {
    const ValueId rows = f_.Do(Op::kShape, {e_.In(5)}, {{"start", int64_t{1}}});
    const ValueId one = e_.Ints("one", {1});
    const ValueId blocks = f_.Sub(rows, one), last = f_.Sub(blocks, one);
    const auto block_of = [&](ValueId place) {
      return f_.Do(Op::kMin, {f_.Div(place, e_.Int("block", block_)), last});
    };
    const ValueId row =
        f_.Do(Op::kGather, {Layouts(blocks), block_of(places)}, {{"axis", int64_t{1}}});
    const ValueId wide = f_.Do(Op::kGather, {row, block_of(keys)}, {{"axis", int64_t{3}}});
    const ValueId layouts = f_.Do(Op::kShape, {e_.In(5)}, {{"end", int64_t{1}}});
    const ValueId of = f_.Do(Op::kMod, {Count(e_.Ints("heads", {heads_})), layouts});
    const ValueId by_head = f_.Do(Op::kGather, {wide, of});
    return f_.Do(Op::kTranspose, {by_head}, {{"perm", std::vector<int64_t>{1, 0, 2, 3}}});
  }

  Expansion& e_;
  Formula f_;
  const Node& node_;
  int64_t heads_ = 0, block_ = 0;
};

}  // namespace

Status ExpandDecoderMaskedAttention(Expansion& e) { return OneStep(e).Build(); }
Status ExpandSparseAttention(Expansion& e) { return Sparse(e).Build(); }

}  // namespace weft::graph
