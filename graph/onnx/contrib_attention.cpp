// The attentions of com.microsoft, by way of ONNX's.
#include <fmt/format.h>

#include <limits>

#include "graph/onnx/expansion.h"

namespace weft::graph {

Result<int64_t> KnownExtent(Expansion& e, ValueId id, size_t axis, std::string_view what) {
  const Value& value = e.Known(id);
  if (!value.shape || axis >= value.shape->size() || !(*value.shape)[axis].IsConstant())
    return Unsupported(
        fmt::format("{} of which extent {} is not known is not supported", what, axis));
  return (*value.shape)[axis].value();
}

Result<ValueId> ExtentOf(Expansion& e, ValueId x, int64_t axis, std::string_view what) {
  return e.Make(Op::kShape, {x}, what, {{"end", axis + 1}, {"start", axis}});
}

Result<ValueId> Unpacked(Expansion& e, ValueId x, int64_t heads, std::string_view what) {
  WEFT_TRY(const ValueId split,
           e.Make(Op::kReshape, {x, e.Ints("heads", {0, 0, heads, -1})}, what));
  return e.Make(Op::kTranspose, {split}, what, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

Result<ValueId> Packed(Expansion& e, ValueId x, std::string_view what) {
  WEFT_TRY(const ValueId order,
           e.Make(Op::kTranspose, {x}, what, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  return e.Make(Op::kReshape, {order, e.Ints("packed", {0, 0, -1})}, what);
}

Result<ValueId> Counting(Expansion& e, ValueId n, std::string_view what) {
  WEFT_TRY(const ValueId end, e.Make(Op::kSqueeze, {n, e.Ints("only", {0})}, what));
  return e.Make(Op::kRange, {e.Int("first", 0), end, e.Int("step", 1)}, what);
}

Result<int64_t> Heads(const Expansion& e, std::string_view attribute) {
  const int64_t heads = IntAttr(e.node(), attribute, 0);
  if (heads < 1 || heads > INT32_MAX)
    return Invalid(fmt::format("attribute \"{}\" is {}, expected 1 or more", attribute, heads));
  return heads;
}

Result<std::vector<ValueId>> Columns(Expansion& e, ValueId x, std::vector<int64_t> sizes,
                                     std::string_view what) {
  const size_t count = sizes.size();
  return e.MakeAll(Op::kSplit, {x, e.Ints("sizes", std::move(sizes))}, count, what,
                   {{"axis", int64_t{-1}}});
}

constexpr float kMasked = -10000;  // what onnxruntime adds where a mask is 0

Result<ValueId> Bias(Expansion& e, ValueId mask, ValueId added, ValueId like) {
  if (!mask.valid()) return added;
  const auto rank = e.RankOf(mask);
  if (rank != 2 && rank != 3)
    return Unsupported("masks of other ranks than 2 and 3 are not supported");
  WEFT_TRY(const ValueId valid, e.Make(Op::kCast, {mask}, "valid", {{"to", int64_t{9}}}));
  WEFT_TRY(const ValueId zero, e.Number("zero", 0, like));
  WEFT_TRY(const ValueId low,
           e.Number("masked", FloatAttr(e.node(), "mask_filter_value", kMasked), like));
  WEFT_TRY(const ValueId bias, e.Make(Op::kWhere, {valid, zero, low}, "bias"));
  const std::vector<int64_t> axes =
      rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1};
  WEFT_TRY(const ValueId wide, e.Make(Op::kUnsqueeze, {bias, e.Ints("axes", axes)}, "bias"));
  if (!added.valid()) return wide;
  return e.Make(Op::kAdd, {wide, added}, "biases");
}

namespace {

// How many keys there are, those of a past too: [1].
Result<ValueId> AllKeys(Expansion& e, ValueId key, ValueId past) {
  WEFT_TRY(const ValueId here, ExtentOf(e, key, 1, "keys"));
  if (!past.valid()) return here;
  WEFT_TRY(const ValueId before, ExtentOf(e, past, 2, "before"));
  return e.Make(Op::kAdd, {here, before}, "all_keys");
}

// A mask of [batch, keys], or none for a column, which stands for no mask: what adds the same to
// all keys changes nothing. Where a run says which it is, a column lets all keys through.
Result<ValueId> UnlessColumn(Expansion& e, ValueId mask, ValueId key, ValueId past) {
  if (const auto width = KnownExtent(e, mask, 1, "a mask"); width.ok())
    return *width == 1 ? ValueId() : mask;
  WEFT_TRY(const ValueId width, ExtentOf(e, mask, 1, "width"));
  WEFT_TRY(const ValueId keys, AllKeys(e, key, past));
  Formula f(e);
  const ValueId is_column = f.Do(Op::kEqual, {width, e.Ints("column", {1})});
  const ValueId seen =
      f.Do(Op::kOr, {f.Cast(mask, Dtype::kBool), f.Do(Op::kExpand, {is_column, keys})});
  WEFT_TRY(f.status());
  return seen;
}

// The mask of [batch, keys] that a list says: how many keys each batch has, those of a past too.
// Behind them an Attention's may have the first key of each; and either's may have sums, twice
// batch + 1 and once batch + 1, of which nothing counts here.
Result<ValueId> MaskOfLengths(Expansion& e, ValueId list, ValueId key, ValueId past) {
  Formula f(e);
  WEFT_TRY(const ValueId batch, ExtentOf(e, key, 0, "batch"));
  const ValueId front = e.Ints("front", {0});
  const auto column = [&](ValueId bounds) {
    const ValueId each = f.Do(Op::kReshape, {f.Do(Op::kSlice, {bounds, front, batch}), batch});
    return f.Do(Op::kUnsqueeze, {each, e.Ints("behind", {1})});
  };
  const bool may_have_starts = e.node().op_name != "MultiHeadAttention";
  const auto count = KnownExtent(e, list, 0, "lengths"), batches = KnownExtent(e, key, 0, "a key");
  const bool is_known = count.ok() && batches.ok();
  const bool has_starts = may_have_starts && (!is_known || *count == 2 * *batches);
  if (is_known && !has_starts && *count != *batches && *count != 3 * *batches + 2)
    return Invalid(fmt::format("a list of {} masks nothing of a batch of {}", *count, *batches));
  WEFT_TRY(const ValueId total, AllKeys(e, key, past));
  WEFT_TRY(const ValueId place, Counting(e, total, "place"));
  const ValueId numbers = f.Cast(list, Dtype::kI64);
  ValueId inside = f.Do(Op::kLess, {place, column(numbers)});
  if (!has_starts) {
    WEFT_TRY(f.status());
    return inside;
  }
  const ValueId twice = f.Add(batch, batch);
  const ValueId starts = f.Do(Op::kSlice, {numbers, batch, twice}),
                zeros = f.Do(Op::kConstantOfShape, {batch},
                             {{"value", TensorOfInts(std::vector<int64_t>{0})}});
  WEFT_TRY(const ValueId given, ExtentOf(e, list, 0, "given"));
  const ValueId are_starts = f.Cast(f.Do(Op::kEqual, {given, twice}), Dtype::kI64);
  const ValueId first =
      f.Mul(f.Do(Op::kConcat, {starts, zeros}, {{"axis", int64_t{0}}}), are_starts);
  inside = f.Do(Op::kAnd, {inside, f.Do(Op::kGreaterOrEqual, {place, column(first)})});
  WEFT_TRY(f.status());
  return inside;
}

std::vector<Attribute> AttentionAttributes(const Expansion& e, int64_t heads, int64_t kv_heads) {
  std::vector<Attribute> attributes = {
      {"is_causal", IntAttr(e.node(), "unidirectional", 0)},
      {"kv_num_heads", kv_heads},
      {"q_num_heads", heads},
  };
  const float scale = FloatAttr(e.node(), "scale", 0);
  if (scale != 0) attributes.push_back({"scale", scale});
  return attributes;
}

}  // namespace

Status ExpandMultiHeadAttention(Expansion& e) {
  WEFT_TRY(e.Counts(3, 10, 4));
  WEFT_TRY(e.Only({"mask_filter_value", "num_heads", "scale", "unidirectional"}));
  WEFT_TRY(e.Absent(8, "a past in a larger buffer"));
  WEFT_TRY(e.Absent(9, "indirections of beams"));
  WEFT_TRY(const int64_t heads, Heads(e, "num_heads"));
  std::vector<ValueId> qkv = {e.In(0), e.In(1), e.In(2)};
  if (e.RankOf(qkv[0]) != 3) return Unsupported("queries of another rank than 3 are not supported");
  if (e.Has(3)) {
    // Keys and values that are split into heads come from elsewhere and have theirs already.
    const auto is_split = [&](size_t i) { return e.RankOf(qkv[i]) == 4; };
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < 3; ++i) {
      WEFT_TRY(const int64_t size, KnownExtent(e, qkv[i], is_split(i) ? 3 : 2, "a biased operand"));
      sizes.push_back(is_split(i) ? heads * size : size);
    }
    WEFT_TRY(const auto biases, Columns(e, e.In(3), sizes, "bias"));
    for (size_t i = 0; i < 3; ++i) {
      if (is_split(i)) continue;
      WEFT_TRY(qkv[i], e.Make(Op::kAdd, {qkv[i], biases[i]}, "biased"));
    }
  }
  for (size_t i = 1; i < 3; ++i) {
    const auto rank = e.RankOf(qkv[i]);
    if (rank == 4) {
      WEFT_TRY(qkv[i], Packed(e, qkv[i], "packed"));
    } else if (rank != 3) {
      return Unsupported("keys and values of other ranks than 3 and 4 are not supported");
    }
  }
  ValueId mask = e.In(4);
  if (mask.valid() && e.RankOf(mask) == 1) {
    WEFT_TRY(mask, MaskOfLengths(e, mask, qkv[1], e.In(6)));
  }
  WEFT_TRY(const ValueId bias, Bias(e, mask, e.In(5), qkv[0]));
  return e.FinishAll(Op::kAttention, {qkv[0], qkv[1], qkv[2], bias, e.In(6), e.In(7)},
                     e.node().outputs, AttentionAttributes(e, heads, heads));
}

// The products with the weights are part of it; past and present keys and values are one tensor.
Status ExpandPackedAttention(Expansion& e) {
  const bool quantized = e.node().op_name == "QAttention";
  WEFT_TRY(e.Counts(quantized ? 5 : 2, quantized ? 9 : 7, 2));
  e.DropUnused({"do_rotary"});
  // Of no use without turns and without a buffer that the past lies in.
  WEFT_TRY(e.Only({"mask_filter_value", "num_heads", "past_present_share_buffer",
                   "qkv_hidden_sizes", "rotary_embedding_dim", "scale", "unidirectional"}));
  WEFT_TRY(quantized ? Status() : e.Absent(6, "a past in a larger buffer"));
  WEFT_TRY(const int64_t heads, Heads(e, "num_heads"));
  std::vector<int64_t> sizes = IntsAttr(e.node(), "qkv_hidden_sizes");
  WEFT_TRY(const int64_t columns, KnownExtent(e, e.In(1), 1, "a matrix of weights"));
  if (sizes.empty()) sizes.assign(3, columns / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != columns)
    return Invalid(fmt::format("{} columns are no queries, keys and values of sizes {}", columns,
                               weft::Print(sizes)));
  Formula f(e);
  ValueId all;
  if (quantized) {
    const ValueId sums = f.Do(Op::kMatMulInteger, {e.In(0), e.In(1), e.In(6), e.In(7)});
    all = f.Mul(f.Do(Op::kCastLike, {sums, e.In(3)}), f.Mul(e.In(3), e.In(4)));
  } else {
    all = f.Do(Op::kMatMul, {e.In(0), e.In(1)});
  }
  if (e.Has(2)) all = f.Add(all, e.In(2));
  WEFT_TRY(f.status());
  WEFT_TRY(const auto qkv, Columns(e, all, sizes, "part"));
  const ValueId before = e.In(quantized ? 8 : 4), added = quantized ? ValueId() : e.In(5);
  std::vector<ValueId> past(2);
  const ValueId front = e.Ints("front", {0});
  if (before.valid()) {
    WEFT_TRY(past, e.MakeAll(Op::kSplit, {before}, 2, "past",
                             {{"axis", int64_t{0}}, {"num_outputs", int64_t{2}}}));
    for (ValueId& one : past) {
      WEFT_TRY(one, e.Make(Op::kSqueeze, {one, front}, "past"));
    }
  }
  ValueId mask = e.In(quantized ? 5 : 3);
  if (mask.valid() && e.RankOf(mask) == 2) {
    WEFT_TRY(mask, UnlessColumn(e, mask, qkv[1], past[0]));
  }
  if (mask.valid() && e.RankOf(mask) == 1) {
    WEFT_TRY(mask, MaskOfLengths(e, mask, qkv[1], past[0]));
  }
  WEFT_TRY(const ValueId bias, Bias(e, mask, added, qkv[0]));
  const auto attributes = AttentionAttributes(e, heads, heads);
  const std::vector<ValueId> operands = {qkv[0], qkv[1], qkv[2], bias, past[0], past[1]};
  if (!e.HasOut(1)) return e.Finish(Op::kAttention, operands, attributes);
  WEFT_TRY(const auto made, e.MakeAll(Op::kAttention, operands, 3, "attended", attributes));
  std::vector<ValueId> present;
  for (size_t i = 1; i < 3; ++i) {
    WEFT_TRY(const ValueId one, e.Make(Op::kUnsqueeze, {made[i], front}, "present"));
    present.push_back(one);
  }
  WEFT_TRY(e.Finish(Op::kConcat, present, {{"axis", int64_t{0}}}, 1));
  return e.Finish(Op::kIdentity, {made[0]});
}

Status ExpandRotaryEmbedding(Expansion& e) {
  WEFT_TRY(e.Counts(4, 4));
  WEFT_TRY(
      e.Only({"interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale"}));
  const Node& node = e.node();
  if (IntAttr(node, "is_packed_batching", 0) != 0 || FloatAttr(node, "scale", 1) != 1)
    return Unsupported("packed batches and scales are not supported");
  const ValueId x = e.In(0);
  const auto rank = e.RankOf(x), places_rank = e.RankOf(e.In(1));
  if (rank != 3 && rank != 4) return Unsupported("only operands of rank 3 and 4 are supported");
  ValueId places = e.In(1);
  if (places_rank == 1) {  // one number, that of the first step
    WEFT_TRY(const ValueId batch, ExtentOf(e, x, 0, "batch"));
    WEFT_TRY(const ValueId length, ExtentOf(e, x, rank == 3 ? 1 : 2, "length"));
    WEFT_TRY(const ValueId steps, Counting(e, length, "steps"));
    WEFT_TRY(const ValueId row, e.Make(Op::kAdd, {steps, places}, "places"));
    WEFT_TRY(const ValueId shape,
             e.Make(Op::kConcat, {batch, length}, "shape", {{"axis", int64_t{0}}}));
    WEFT_TRY(places, e.Make(Op::kExpand, {row, shape}, "places"));
  } else if (places_rank != 2) {
    return Unsupported("places of other ranks than 1 and 2 are not supported");
  }
  return FinishTurned(e, {e.In(2), e.In(3), places});
}

Status FinishTurned(Expansion& e, std::vector<ValueId> tables) {
  const Node& node = e.node();
  const ValueId x = e.In(0);
  const auto rank = e.RankOf(x);
  if (rank != 3 && rank != 4) return Unsupported("only operands of rank 3 and 4 are supported");
  int64_t heads = IntAttr(node, "num_heads", 0);
  std::vector<Attribute> attributes = {
      {"interleaved", IntAttr(node, "interleaved", 0)},
      {"rotary_embedding_dim", IntAttr(node, "rotary_embedding_dim", 0)}};
  if (rank == 3 && heads <= 0) {  // heads of twice the number of angles
    WEFT_TRY(const int64_t angles, KnownExtent(e, e.In(2), 1, "a table of cosines"));
    WEFT_TRY(const int64_t hidden, KnownExtent(e, x, 2, "an operand without a number of heads"));
    if (angles < 1 || hidden % (2 * angles) != 0)
      return Invalid(fmt::format("{} do not divide into heads of {}", hidden, 2 * angles));
    heads = hidden / (2 * angles);
  }
  if (rank == 3) attributes.push_back({"num_heads", heads});
  tables.insert(tables.begin(), x);
  return e.Finish(Op::kRotaryEmbedding, std::move(tables), std::move(attributes));
}

namespace {

// The cache of a GroupQueryAttention: the new steps of each batch go behind its own past ones. It
// is as long as the past, or as all that it holds if that is more. Without a past the new steps are
// all there is.
Result<ValueId> Cached(Expansion& e, ValueId fresh, size_t past, size_t present, ValueId start) {
  std::vector<ValueId> operands = {fresh};
  Op op = Op::kIdentity;
  std::vector<Attribute> attributes;
  if (e.Has(past)) {
    WEFT_TRY(ValueId room,
             e.Make(Op::kConcat, {e.In(past), fresh}, "room", {{"axis", int64_t{2}}}));
    if (e.Has(6)) {
      WEFT_TRY(const ValueId total, e.Make(Op::kCast, {e.In(6)}, "held", {{"to", int64_t{7}}}));
      WEFT_TRY(const ValueId held, e.Make(Op::kReshape, {total, e.Ints("list", {1})}, "held"));
      WEFT_TRY(const ValueId had, ExtentOf(e, e.In(past), 2, "had"));
      WEFT_TRY(const ValueId end, e.Make(Op::kMax, {had, held}, "end"));
      WEFT_TRY(room,
               e.Make(Op::kSlice, {room, e.Ints("from", {0}), end, e.Ints("along", {2})}, "room"));
    }
    operands = {room, fresh, start};
    op = Op::kTensorScatter;
    attributes = {{"axis", int64_t{2}}};
  }
  if (!e.HasOut(present)) return e.Make(op, operands, "cache", attributes);
  WEFT_TRY(e.Finish(op, operands, attributes, present));
  return e.node().outputs[present];
}

// What the softmax of a GroupQueryAttention sees beside the cache: a mask, and maybe one more key.
struct Group {
  ValueId keys, values, mask;
};

// A bias is added to the scores of the keys that it has.
Status AddBias(Expansion& e, ValueId added, Group& group) {
  WEFT_TRY(const ValueId low,
           e.Number("masked", -std::numeric_limits<double>::infinity(), group.keys));
  WEFT_TRY(group.mask, e.Make(Op::kWhere, {group.mask, added, low}, "bias"));
  return {};
}

// A key and a value of zeros behind the others take their part of the softmax and give nothing:
// with a score of 0, or with that of each head which input 11 has.
Status AddSink(Expansion& e, Group& group) {
  const auto widened = [&](ValueId x, int64_t axis) {
    std::vector<int64_t> pads(8, 0);
    pads[static_cast<size_t>(4 + axis)] = 1;
    return e.Make(Op::kPad, {x, e.Ints("one_more", pads)}, "with_sink");
  };
  if (!e.Has(10)) {
    WEFT_TRY(const ValueId zero, e.Number("zero", 0, group.keys));
    WEFT_TRY(AddBias(e, zero, group));
  }
  WEFT_TRY(group.keys, widened(group.keys, 2));
  WEFT_TRY(group.values, widened(group.values, 2));
  if (!e.Has(11)) {
    WEFT_TRY(group.mask, widened(group.mask, 3));
    return {};
  }
  WEFT_TRY(const ValueId sink,
           e.Make(Op::kReshape, {e.In(11), e.Ints("by_head", {1, -1, 1, 1})}, "sink"));
  WEFT_TRY(const ValueId by_head, e.Make(Op::kShape, {sink}, "sinks"));
  WEFT_TRY(const ValueId wide, e.Make(Op::kExpand, {group.mask, by_head}, "by_head"));
  WEFT_TRY(const ValueId rows, e.Make(Op::kShape, {wide}, "rows", {{"end", int64_t{3}}}));
  WEFT_TRY(const ValueId one,
           e.Make(Op::kConcat, {rows, e.Ints("one", {1})}, "column", {{"axis", int64_t{0}}}));
  WEFT_TRY(const ValueId column, e.Make(Op::kExpand, {sink, one}, "sinks"));
  WEFT_TRY(group.mask, e.Make(Op::kConcat, {wide, column}, "bias", {{"axis", int64_t{3}}}));
  return {};
}

// Query i of a batch, at its place among the keys, looks at those up to there, as far as the
// window goes.
Result<ValueId> GroupMask(Expansion& e, ValueId places, ValueId keys) {
  WEFT_TRY(const ValueId total, ExtentOf(e, keys, 2, "total"));
  WEFT_TRY(const ValueId key, Counting(e, total, "key"));
  WEFT_TRY(const ValueId query,
           e.Make(Op::kUnsqueeze, {places, e.Ints("around", {1, 3})}, "query"));
  WEFT_TRY(ValueId seen, e.Make(Op::kLessOrEqual, {key, query}, "seen"));
  if (const int64_t window = IntAttr(e.node(), "local_window_size", -1); window > 0) {
    WEFT_TRY(const ValueId before, e.Make(Op::kSub, {query, e.Int("window", window)}, "before"));
    WEFT_TRY(const ValueId near, e.Make(Op::kGreater, {key, before}, "near"));
    WEFT_TRY(seen, e.Make(Op::kAnd, {seen, near}, "seen"));
  }
  return seen;
}

// The place of each step in the tables of angles: input 9 if it is there. Of a prompt, behind which
// there is nothing, its first number counts, and the others follow.
Result<ValueId> PlacesToTurn(Expansion& e, ValueId places, ValueId length, ValueId steps) {
  if (!e.Has(9)) return places;
  if (!e.Has(6)) return e.In(9);
  Formula f(e);
  const ValueId flat = e.Ints("flat", {-1});
  const ValueId first = f.Do(Op::kGather, {f.Do(Op::kReshape, {e.In(9), flat}), e.Int("first", 0)});
  const ValueId total = f.Cast(f.Do(Op::kReshape, {e.In(6), flat}), Dtype::kI64);
  const ValueId is_prompt = f.Do(Op::kEqual, {total, length});
  const ValueId turns = f.Do(Op::kWhere, {is_prompt, f.Add(steps, first), e.In(9)});
  WEFT_TRY(f.status());
  return turns;
}

}  // namespace

Status ExpandGroupQueryAttention(Expansion& e) {
  WEFT_TRY(e.Counts(1, 16, 4));
  e.DropUnused({"k_quant_type", "kv_cache_bit_width", "qk_output", "v_quant_type"});
  WEFT_TRY(e.Only({"do_rotary", "kv_num_heads", "local_window_size", "num_heads",
                   "rotary_interleaved", "scale", "smooth_softmax", "softcap"}));
  const Node& node = e.node();
  if (!e.Has(5)) return Invalid("input 5, the lengths, is absent");
  for (size_t i = 12; i < node.inputs.size(); ++i)
    WEFT_TRY(e.Absent(i, "scales of a quantized cache"));
  WEFT_TRY(e.Unused(3, "the scores"));
  WEFT_TRY(const int64_t heads, Heads(e, "num_heads"));
  WEFT_TRY(const int64_t kv_heads, Heads(e, "kv_num_heads"));
  std::vector<ValueId> qkv = {e.In(0), e.In(1), e.In(2)};
  if (!e.Has(1)) {
    WEFT_TRY(const int64_t columns, KnownExtent(e, e.In(0), 2, "a packed operand"));
    const int64_t size = columns / (heads + 2 * kv_heads);
    WEFT_TRY(qkv, Columns(e, e.In(0), {heads * size, kv_heads * size, kv_heads * size}, "part"));
  }
  WEFT_TRY(const ValueId length, ExtentOf(e, qkv[0], 1, "length"));
  WEFT_TRY(const ValueId last, e.Make(Op::kCast, {e.In(5)}, "last", {{"to", int64_t{7}}}));
  WEFT_TRY(const ValueId list, e.Make(Op::kReshape, {last, e.Ints("flat", {-1})}, "last"));
  WEFT_TRY(const ValueId after, e.Make(Op::kAdd, {list, e.Int("one", 1)}, "after"));
  WEFT_TRY(const ValueId before, e.Make(Op::kSub, {after, length}, "before"));
  WEFT_TRY(const ValueId start, e.Make(Op::kMax, {before, e.Int("none", 0)}, "start"));
  WEFT_TRY(const ValueId steps, Counting(e, length, "steps"));
  WEFT_TRY(const ValueId column, e.Make(Op::kUnsqueeze, {start, e.Ints("behind", {1})}, "column"));
  WEFT_TRY(const ValueId places, e.Make(Op::kAdd, {column, steps}, "places"));
  WEFT_TRY(const ValueId turns, PlacesToTurn(e, places, length, steps));
  const int64_t counts[] = {heads, kv_heads};
  for (size_t i = 0; i < 2 && IntAttr(node, "do_rotary", 0) != 0; ++i) {
    if (!e.Has(7) || !e.Has(8)) return Invalid("inputs 7 and 8, the angles, are absent");
    WEFT_TRY(const int64_t angles, KnownExtent(e, e.In(7), 1, "a table of cosines"));
    WEFT_TRY(qkv[i], e.Make(Op::kRotaryEmbedding, {qkv[i], e.In(7), e.In(8), turns}, "turned",
                            {{"interleaved", IntAttr(node, "rotary_interleaved", 0)},
                             {"num_heads", counts[i]},
                             {"rotary_embedding_dim", 2 * angles}}));
  }
  WEFT_TRY(const ValueId q, Unpacked(e, qkv[0], heads, "query"));
  WEFT_TRY(const ValueId k, Unpacked(e, qkv[1], kv_heads, "key"));
  WEFT_TRY(const ValueId v, Unpacked(e, qkv[2], kv_heads, "value"));
  Group group;
  WEFT_TRY(group.keys, Cached(e, k, 3, 1, start));
  WEFT_TRY(group.values, Cached(e, v, 4, 2, start));
  if (e.Has(10)) {  // only the keys that it has are looked at
    WEFT_TRY(const ValueId end, ExtentOf(e, e.In(10), 3, "biased"));
    for (ValueId* all : {&group.keys, &group.values}) {
      WEFT_TRY(*all, e.Make(Op::kSlice, {*all, e.Ints("from", {0}), end, e.Ints("along", {2})},
                            "biased"));
    }
  }
  WEFT_TRY(group.mask, GroupMask(e, places, group.keys));
  if (e.Has(10)) WEFT_TRY(AddBias(e, e.In(10), group));
  if (e.Has(11) || IntAttr(node, "smooth_softmax", 0) > 0) WEFT_TRY(AddSink(e, group));
  std::vector<Attribute> attributes = {{"softcap", FloatAttr(node, "softcap", 0)}};
  if (const float scale = FloatAttr(node, "scale", 0); scale != 0)
    attributes.push_back({"scale", scale});
  WEFT_TRY(const ValueId y, e.Make(Op::kAttention, {q, group.keys, group.values, group.mask},
                                   "attended", attributes));
  WEFT_TRY(const ValueId order,
           e.Make(Op::kTranspose, {y}, "by_step", {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  return e.Finish(Op::kReshape, {order, e.Ints("packed", {0, 0, -1})});
}

}  // namespace weft::graph
