// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017, section 3.2),
// with what came to it: heads that share keys (Ainslie et al., "GQA", 2023), caches, windows, soft
// caps.
#include <cmath>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// Indices: b batch, h head of the queries, i query, j key, d place in a head, e place in a head of
// the values.
struct Heads {
  Dim batch;
  int64_t count = 1, kv_count = 1;   // of queries, of keys and values
  int64_t queries = 0, fresh = 0;    // queries, keys that the node is given
  int64_t past = 0, keys = 0;        // keys of the cache, all keys
  int64_t size = 0, value_size = 0;  // of one head
  bool packed = false;               // [batch, length, heads * size]
  std::string kv = "h";              // the head of the keys that query head h looks at
  Subs scores{"b", "h", "i", "j"}, rows{"b", "h", "i"};
};

Heads MakeHeads(Writer& w, const Operand& q, const Operand& k, const Operand& v) {
  Heads s;
  s.packed = q.rank() == 3;
  if (q.rank() != k.rank() || q.rank() != v.rank() || (q.rank() != 3 && q.rank() != 4)) {
    w.Refuse("queries, keys and values of other ranks than 3 or 4");
    return s;
  }
  s.batch = q.dims[0];
  s.count = s.packed ? w.Int("q_num_heads", 0) : w.Extent(q, 1);
  s.kv_count = s.packed ? w.Int("kv_num_heads", 0) : w.Extent(k, 1);
  if (s.count < 1 || s.kv_count < 1 || s.count % s.kv_count != 0) {
    w.Refuse(fmt::format("{} heads of queries, {} of keys", s.count, s.kv_count));
    return s;
  }
  const int64_t length = s.packed ? 1 : 2;
  s.queries = w.Extent(q, length);
  s.fresh = w.Extent(k, length);
  s.past = w.Has(4) ? w.Extent(w.In(4), 2) : 0;
  s.keys = s.past + s.fresh;
  s.size = w.Extent(q, length + 1) / (s.packed ? s.count : 1);
  s.value_size = w.Extent(v, length + 1) / (s.packed ? s.kv_count : 1);
  if (s.count != s.kv_count)
    s.kv = s.kv_count == 1 ? "0" : fmt::format("h / {}", s.count / s.kv_count);
  w.Range("b", s.batch);
  w.Range("h", s.count);
  w.Range("g", s.kv_count);
  w.Range("i", s.queries);
  w.Range("j", s.keys);
  w.Range("d", s.size);
  w.Range("e", s.value_size);
  return s;
}

// Element (head, place, in_head) of batch b.
std::string At(Writer& w, const Heads& s, const Operand& x, const std::string& head,
               const std::string& place, const std::string& in_head, int64_t size) {
  if (!s.packed) return w.At(x, {"b", head, place, in_head});
  const bool plain = head.find('/') == std::string::npos;
  const std::string start = plain ? head : fmt::format("({})", head);
  const bool first = head == "0";
  return w.At(x, {"b", place, first ? in_head : fmt::format("{}*{} + {}", size, start, in_head)});
}

// Keys or values with those of the cache in front of them: what the node gives as present ones, and
// what is read. The input itself if there is no cache.
Operand Present(Writer& w, const Heads& s, size_t input, size_t output, std::string_view name,
                const std::string& in_head, int64_t size) {
  Operand fresh = w.In(input);
  if (s.past == 0 && !w.HasOut(output)) return fresh;
  const Operand all = w.HasOut(output) ? w.Out(output) : w.Temp(name, fresh.dtype);
  const Subs at{"b", "g", "j", in_head};
  if (s.past > 0) {
    w.Range("j", s.past);
    w.Set("copy", all, at, w.At(w.In(input + 3), at));
  }
  w.Range("j", s.keys, s.past);
  w.Set("copy", all, at, At(w, s, fresh, "g", Sum({{1, "j"}}, -s.past), in_head, size));
  w.Range("j", s.keys);
  return s.past == 0 ? fresh : all;
}

// What may keep query i from key j, and what is added to the score otherwise.
struct Bias {
  Subs guards;
  std::string added;  // may be empty
};

Bias MakeBias(Writer& w, const Heads& s) {
  Bias bias;
  const int64_t left = w.Int("left_window_size", -1), right = w.Int("right_window_size", -1);
  const bool lengths = w.Has(6);
  // The place of query i among all keys.
  const std::string place = lengths && !w.Has(4)
                                ? fmt::format("{} + i - {}", w.At(w.In(6), {"b"}), s.queries)
                                : Sum({{1, "i"}}, s.past);
  if (w.Int("is_causal", 0) != 0) bias.guards.push_back(fmt::format("j <= {}", place));
  if (left >= 0) bias.guards.push_back(fmt::format("j >= {} - {}", place, left));
  if (right >= 0) bias.guards.push_back(fmt::format("j <= {} + {}", place, right));
  if (lengths) bias.guards.push_back(fmt::format("j < {}", w.At(w.In(6), {"b"})));
  if (!w.Has(3)) return bias;
  Operand mask = w.In(3);
  if (mask.rank() < 1) {
    w.Refuse("a mask of rank 0");
    return bias;
  }
  const int64_t covered = w.Extent(mask, mask.rank() - 1);
  if (covered < s.keys) bias.guards.push_back(fmt::format("j < {}", covered));
  mask.dims.back() = s.keys;  // beyond them nothing is read
  const std::string at = w.AtAligned(mask, s.scores, {s.batch, s.count, s.queries, s.keys});
  if (mask.dtype == Dtype::kBool)
    bias.guards.push_back(at);
  else
    bias.added = at;
  return bias;
}

Dtype PrecisionOf(Writer& w, Dtype otherwise) {
  switch (w.Int("softmax_precision", 0)) {
    case 0:
      return otherwise;
    case 1:
      return Dtype::kF32;
    case 10:
      return Dtype::kF16;
    case 11:
      return Dtype::kF64;
    case 16:
      return Dtype::kBF16;
    default:
      w.Refuse("a softmax_precision that is no type of floats");
      return otherwise;
  }
}

std::string AsPrecise(Dtype from, Dtype to, const std::string& value) {
  return from == to ? value : Cast(to, value);
}

// The scores with soft cap and bias; what the fourth output shows on the way.
Operand Logits(Writer& w, const Heads& s, const Operand& scores, Dtype dtype, int64_t shown) {
  const auto scaled = [&](const std::string& x) {
    const double scale =
        w.Float("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(s.size))));
    return scale == 1 ? x : fmt::format("{} * {}", x, Lit(scores.dtype, scale));
  };
  std::string value = scaled(w.At(scores, s.scores));
  const double cap = w.Float("softcap", 0);
  if (shown == 0) w.Set("pointwise", w.Out(3), s.scores, value);
  if (cap > 0) {
    const std::string limit = Lit(scores.dtype, cap);
    value = fmt::format("tanh({} / {}) * {}", value, limit, limit);
  }
  if (shown == 1) w.Set("pointwise", w.Out(3), s.scores, value);
  const Bias bias = MakeBias(w, s);
  const Operand logits = w.Temp("logits", dtype);
  const std::string low = Lowest(scores.dtype);
  std::string inside = value;
  if (!bias.added.empty()) {
    const std::string added =
        AsPrecise(w.In(3).dtype, scores.dtype, bias.added);  // whatever is masked is masked
    inside = fmt::format("({0} == {1} ? {1} : {2} + {0})", added, low, value);
  }
  std::string guarded = inside;
  if (!bias.guards.empty())
    guarded = fmt::format("({} ? {} : {})", Join(bias.guards, " && "), inside, low);
  if (shown == 2) w.Set("pointwise", w.Out(3), s.scores, guarded);
  if (dtype != scores.dtype) guarded = Cast(dtype, guarded);
  w.Set("pointwise", logits, s.scores, guarded);
  return logits;
}

}  // namespace

// A row in which all is masked is zero: its maximum is -inf, and the sum of its exponentials 0.
void Attention(Writer& w) {
  const Operand q = w.In(0), v_in = w.In(2), y = w.Out();
  const Heads s = MakeHeads(w, q, w.In(1), v_in);
  if (!w.ok()) return;
  const Operand k = Present(w, s, 1, 1, "keys", "d", s.size);
  const Operand v = Present(w, s, 2, 2, "values", "e", s.value_size);
  const auto read = [&](const Operand& x, const std::string& in_head, int64_t size) {
    return s.past > 0 ? w.At(x, {"b", s.kv, "j", in_head}) : At(w, s, x, s.kv, "j", in_head, size);
  };
  const int64_t shown = w.HasOut(3) ? w.Int("qk_matmul_output_mode", 0) : -1;
  const Operand scores = w.Temp("scores", q.dtype);
  w.Reduce("contraction", scores, s.scores, "+=!",
           fmt::format("{} * {}", At(w, s, q, "h", "i", "d", s.size), read(k, "d", s.size)));
  const Dtype precision = PrecisionOf(w, scores.dtype);
  const Operand logits = Logits(w, s, scores, precision, shown);
  const Operand max = w.Temp("max", precision), shift = w.Temp("shift", precision),
                e = w.Temp("exp", precision), sum = w.Temp("sum", precision);
  w.Reduce("reduction", max, s.rows, "max=!", w.At(logits, s.scores));
  w.Set("pointwise", shift, s.rows,
        fmt::format("{0} == {1} ? {2} : {0}", w.At(max, s.rows), Lowest(max.dtype),
                    Lit(max.dtype, 0)));
  w.Set("pointwise", e, s.scores,
        fmt::format("exp({} - {})", w.At(logits, s.scores), w.At(shift, s.rows)));
  w.Reduce("reduction", sum, s.rows, "+=!", w.At(e, s.scores));
  const Operand inverse = w.Temp("inverse", precision);
  w.Set("pointwise", inverse, s.rows,
        fmt::format("{0} == {1} ? {1} : {2} / {0}", w.At(sum, s.rows), Lit(sum.dtype, 0),
                    Lit(sum.dtype, 1)));
  const Operand weighted = w.Temp("weighted", y.dtype);
  const auto narrowed = [&](const std::string& x, Dtype to) {
    return AsPrecise(inverse.dtype, to, x);
  };
  if (shown == 3)
    w.Set("pointwise", w.Out(3), s.scores,
          narrowed(fmt::format("{} * {}", w.At(e, s.scores), w.At(inverse, s.rows)), y.dtype));
  std::string values = read(v, "e", s.value_size);
  if (v.dtype == Dtype::kF64) values = AsPrecise(v.dtype, weighted.dtype, values);
  w.Reduce("contraction", weighted, {"b", "h", "i", "e"}, "+=!",
           fmt::format("{} * {}", narrowed(w.At(e, s.scores), weighted.dtype), values));
  const Subs to =
      s.packed ? Subs{"b", "i", Sum({{s.value_size, "h"}, {1, "e"}})} : Subs{"b", "h", "i", "e"};
  w.Set("pointwise", y, to,
        fmt::format("{} * {}", w.At(weighted, {"b", "h", "i", "e"}),
                    narrowed(w.At(inverse, s.rows), weighted.dtype)));
}

}  // namespace weft::tc::ops
