// What models of sequences keep between calls, and how they mark places: rotary embeddings, writes
// into a cache, causal convolutions, linear attention.
#include <cmath>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {

// Pairs of numbers of a head turn by an angle that grows with the place (Su et al., "RoFormer",
// 2021, section 3.2): halves of the first `rotary_embedding_dim` numbers, or neighbours.
void RotaryEmbedding(Writer& w) {
  const Operand x = w.In(0), cos = w.In(1), sin = w.In(2), y = w.Out();
  const bool packed = x.rank() == 3, interleaved = w.Int("interleaved", 0) != 0;
  if (x.rank() != 3 && x.rank() != 4) return w.Refuse("a tensor of another rank than 3 or 4");
  const int64_t heads = packed ? w.Int("num_heads", 0) : w.Extent(x, 1);
  if (heads < 1) return w.Refuse("no heads");
  const int64_t size = w.Extent(x, x.rank() - 1) / (packed ? heads : 1);
  const int64_t given = w.Int("rotary_embedding_dim", 0), turned = given == 0 ? size : given;
  const int64_t half = turned / 2;
  if (!w.ok()) return;
  w.Range("b", x.dims[0]);
  w.Range("h", heads);
  w.Range("i", w.Extent(x, packed ? 1 : 2));
  const auto at = [&](const std::string& d) {
    return packed ? Subs{"b", "i", Sum({{size, "h"}, {1, d}})} : Subs{"b", "h", "i", d};
  };
  const auto angle = [&](const Operand& table) {
    if (!w.Has(3)) return w.At(table, {"b", "i", "d"});
    return w.At(table, {w.At(w.In(3), {"b", "i"}), "d"});
  };
  w.Range("d", half);
  const std::string first = interleaved ? "2*d" : "d";
  const std::string second = interleaved ? "2*d + 1" : Sum({{1, "d"}}, half);
  const std::string c = angle(cos), s = angle(sin), a = w.At(x, at(first)), b = w.At(x, at(second));
  w.Set("pointwise", y, at(first), fmt::format("{} * {} - {} * {}", c, a, s, b));
  w.Set("pointwise", y, at(second), fmt::format("{} * {} + {} * {}", s, a, c, b));
  if (turned >= size) return;
  w.Range("d", size, turned);
  w.Set("copy", y, at("d"), w.At(x, at("d")));
}

// A block of new steps goes into each batch's cache at a place of its own.
void TensorScatter(Writer& w) {
  const Operand past = w.In(0), update = w.In(1), y = w.Out();
  const auto axis = static_cast<size_t>(w.Axis(w.Int("axis", -2), past.rank()));
  const int64_t room = w.Extent(past, static_cast<int64_t>(axis)),
                steps = w.Extent(update, static_cast<int64_t>(axis));
  const bool circular = graph::StringAttr(w.node, "mode", "linear") == "circular";
  if (!w.ok()) return;
  const Subs i = w.Indices("i", y.dims);
  std::string place = i[axis];  // among the new steps
  if (w.Has(2)) {
    std::string start = w.At(w.In(2), {i[0]});
    if (!circular) start = fmt::format("within({}, 0, {})", start, room - steps + 1);
    place = fmt::format("({} - {})", i[axis], start);
    if (circular) place = fmt::format("({} % {})", place, std::max<int64_t>(room, 1));
  }
  Subs from = i;
  from[axis] = place;
  const std::string guard = circular || !w.Has(2)
                                ? fmt::format("{} < {}", place, steps)
                                : fmt::format("{0} >= 0 && {0} < {1}", place, steps);
  w.Set("gather", y, i, fmt::format("{} ? {} : {}", guard, w.At(update, from), w.At(past, i)));
}

// A depthwise convolution along the last axis that sees no later step; what it would need of
// earlier calls is its state (Gu and Dao, "Mamba", 2023, section 3.4, has one in each block).
void CausalConvWithState(Writer& w) {
  const Operand x = w.In(0), filter = w.In(1), y = w.Out();
  const std::string activation = graph::StringAttr(w.node, "activation", "none");
  const int64_t taps = w.Extent(filter, 2), length = w.Extent(x, 2), kept = taps - 1;
  if (!w.ok()) return;
  w.Range("b", x.dims[0]);
  w.Range("c", w.Extent(x, 1));
  w.Range("t", length);
  w.Range("r", taps);
  const bool state = w.Has(3);
  // Step `at` of the state followed by the input.
  const auto padded = [&](std::initializer_list<std::pair<int64_t, std::string>> terms,
                          int64_t start) {
    const std::string place = Sum(terms, start - kept);
    const std::string before =
        state ? w.At(w.In(3), {"b", "c", Sum(terms, start)}) : Lit(x.dtype, 0);
    return std::pair(fmt::format("{} >= 0", place), std::pair(w.At(x, {"b", "c", place}), before));
  };
  const Operand sum = w.Temp("conv", y.dtype);
  const auto [inside, tap] = padded({{1, "t"}, {1, "r"}}, 0);
  const std::string weight = w.At(filter, {"c", "0", "r"});
  const std::string early = state ? fmt::format("{} * {}", tap.second, weight) : Lit(sum.dtype, 0);
  w.Reduce("convolution", sum, {"b", "c", "t"}, "+=!",
           fmt::format("({} ? {} * {} : {})", inside, tap.first, weight, early));
  std::string value = w.At(sum, {"b", "c", "t"});
  if (w.Has(2)) value = fmt::format("({} + {})", value, w.At(w.In(2), {"c"}));
  if (activation != "none") value = fmt::format("{0} * sigmoid({0})", value);
  w.Set("pointwise", y, {"b", "c", "t"}, value);
  if (!w.HasOut(1)) return;
  w.Range("t", kept);
  const auto [later, last] = padded({{1, "t"}}, length);
  w.Set("copy", w.Out(1), {"b", "c", "t"},
        fmt::format("{} ? {} : {}", later, last.first, last.second));
}

namespace {

// Index names: b batch, t step, h head of keys, g head of queries, d key, e value.
struct Linear {
  int64_t steps = 0, heads = 1, queries = 1, size = 0, value_size = 0;
  bool gated = false, corrected = false;
};

Linear MakeLinear(Writer& w) {
  Linear s;
  const std::string rule = graph::StringAttr(w.node, "update_rule", "gated_delta");
  s.gated = rule == "gated" || rule == "gated_delta";
  s.corrected = rule == "delta" || rule == "gated_delta";
  s.queries = w.Int("q_num_heads", 0);
  s.heads = w.Int("kv_num_heads", 0);
  if (s.queries < 1 || s.heads < 1 || s.queries % s.heads != 0) {
    w.Refuse(fmt::format("{} heads of queries, {} of keys", s.queries, s.heads));
    return s;
  }
  s.steps = w.Extent(w.In(0), 1);
  s.size = w.Extent(w.In(0), 2) / s.queries;
  s.value_size = w.Extent(w.In(2), 2) / s.heads;
  if (s.steps < 1) w.Refuse("no steps");
  w.Range("t", s.steps);
  w.Range("b", w.In(0).dims[0]);
  w.Range("h", s.heads);
  w.Range("g", s.queries);
  w.Range("d", s.size);
  w.Range("e", s.value_size);
  return s;
}

}  // namespace

// A matrix of keys and values that each step decays, corrects and adds to (Yang et al., "Gated
// delta networks", 2024, section 3): a recurrence over t. Queries read it before the step's own key
// and value are added, whose part is q k v, so that no step needs more than the state before it.
void LinearAttention(Writer& w) {
  const Operand q = w.In(0), k = w.In(1), v = w.In(2), y = w.Out();
  const Linear s = MakeLinear(w);
  if (!w.ok()) return;
  const auto packed = [](std::string head, int64_t size, std::string place) {
    if (head.find('/') != std::string::npos) head = fmt::format("({})", head);
    return Subs{"b", "t", Sum({{size, std::move(head)}, {1, std::move(place)}})};
  };
  // The head of keys of query head g.
  const std::string group = s.queries == s.heads ? "g" : fmt::format("g / {}", s.queries / s.heads);
  const std::string key = w.At(k, packed("h", s.size, "d")),
                    query = w.At(q, packed("g", s.size, "d"));
  const Operand state = w.Temp("state", Dtype::kF32), kept = w.Temp("kept", Dtype::kF32);
  w.Declare(state, {s.steps, w.In(0).dims[0], s.heads, s.size, s.value_size});
  const Subs now{"t", "b", "h", "d", "e"};
  const std::string first = w.Has(3) ? w.At(w.In(3), {"b", "h", "d", "e"}) : Lit(Dtype::kF32, 0);
  std::string before =
      fmt::format("(t > 0 ? {} : {})", w.At(state, {"t - 1", "b", "h", "d", "e"}), first);
  const Operand match = w.Temp("match", Dtype::kF32), read = w.Temp("read", Dtype::kF32);
  w.Reduce("contraction", match, {"t", "b", "g"}, "+=!",
           fmt::format("{} * {}", query, w.At(k, packed(group, s.size, "d"))));
  if (s.gated) {
    const Operand decay = w.In(4);
    const bool by_head = w.Extent(decay, 2) == s.heads;  // and not by key
    const Operand factor = w.Temp("factor", Dtype::kF32);
    const Subs at = by_head ? Subs{"t", "b", "h"} : Subs{"t", "b", "h", "d"};
    w.Set("pointwise", factor, at,
          fmt::format("exp({})",
                      w.At(decay, by_head ? Subs{"b", "t", "h"} : packed("h", s.size, "d"))));
    before += fmt::format(" * {}", w.At(factor, at));
  }
  w.Set("recurrence", kept, now, before);
  const Operand found = w.Temp("found", Dtype::kF32);
  if (s.corrected)
    w.Reduce("contraction", found, {"t", "b", "h", "e"}, "+=!",
             fmt::format("{} * {}", w.At(kept, now), key));
  // What a head of keys adds.
  const auto value = [&](const std::string& head) {
    std::string given = w.At(v, packed(head, s.value_size, "e"));
    if (!s.corrected) return given;
    const Operand beta = w.In(5);
    const bool shared = w.Extent(beta, 2) == 1;
    return fmt::format("({} * ({} - {}))", w.At(beta, {"b", "t", shared ? "0" : head}), given,
                       w.At(found, {"t", "b", head, "e"}));
  };
  w.Reduce("contraction", read, {"t", "b", "g", "e"}, "+=!",
           fmt::format("{} * {}", query, w.At(kept, {"t", "b", group, "d", "e"})));
  w.Set("recurrence", state, now, fmt::format("{} + {} * {}", w.At(kept, now), key, value("h")));
  const double given = w.Float("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(s.size)) : given;
  w.Set("pointwise", y, packed("g", s.value_size, "e"),
        fmt::format("({} + {} * {}) * {}", w.At(read, {"t", "b", "g", "e"}),
                    w.At(match, {"t", "b", "g"}), value(group), Lit(Dtype::kF32, scale)));
  if (!w.HasOut(1)) return;
  const std::string last = w.At(state, {std::to_string(s.steps - 1), "b", "h", "d", "e"});
  const Operand present = w.Out(1);
  w.Set("copy", present, {"b", "h", "d", "e"},
        present.dtype == state.dtype ? last : Cast(present.dtype, last));
}

}  // namespace weft::tc::ops
