// Of com.microsoft, what hybrid language models have in place of attention (ContribOperators.md):
// linear attention, its gates, and causal convolutions. ONNX has them with fewer forms.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "base/text.h"
#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// How many states a present state has, one for each of the last steps; 0: that of the last alone.
Result<int64_t> WindowOfStates(const Expansion& e) {
  const int64_t window = IntAttr(e.node(), "state_window", 0);
  if (window < 0 || window > 8)
    return Invalid(fmt::format("state_window is {}, expected 0 to 8", window));
  return window;
}

// Of a window of states the last, which is the one that counts.
ValueId LastState(Expansion& e, Formula& f, ValueId states, int64_t window) {
  if (!states.valid() || window == 0) return states;
  return f.Do(Op::kGather, {states, e.Int("last", window - 1)}, {{"axis", int64_t{0}}});
}

// A window of states, of which the first may be from before the first step: those are zero.
ValueId Window(Expansion& e, Formula& f, std::span<const ValueId> states, int64_t window) {
  std::vector<ValueId> slots;
  for (const ValueId state : states)
    slots.push_back(f.Do(Op::kUnsqueeze, {state, e.Ints("front", {0})}));
  if (const int64_t before = window - std::ssize(slots); before > 0) {
    const ValueId shape =
        f.Do(Op::kConcat, {e.Ints("before", {before}), f.Do(Op::kShape, {states[0]})},
             {{"axis", int64_t{0}}});
    slots.insert(slots.begin(), f.Do(Op::kExpand, {f.Number(0, states[0]), shape}));
  }
  return f.Do(Op::kConcat, slots, {{"axis", int64_t{0}}});
}

// Each of `from` heads several times, side by side, to be `to`.
Result<ValueId> Repeated(Expansion& e, ValueId x, int64_t from, int64_t to) {
  if (from == to) return x;
  if (from < 1 || to % from != 0)
    return Invalid(fmt::format("{} heads can't serve {} of values alike", from, to));
  Formula f(e);
  const ValueId apart = f.Do(Op::kReshape, {x, e.Ints("apart", {0, 0, from, 1, -1})});
  const ValueId all = f.Do(Op::kExpand, {apart, e.Ints("times", {1, 1, 1, to / from, 1})});
  const ValueId y = f.Do(Op::kReshape, {all, e.Ints("together", {0, 0, -1})});
  WEFT_TRY(f.status());
  return y;
}

// Heads of keys, which are as large as those of queries.
int64_t HeadsOfKeys(Expansion& e, int64_t heads, int64_t kv_heads) {
  const auto queries = KnownExtent(e, e.In(0), 2, "queries"),
             keys = KnownExtent(e, e.In(1), 2, "keys");
  if (!queries.ok() || !keys.ok() || *queries < heads) return kv_heads;
  return *keys / (*queries / heads);
}

}  // namespace

Status ExpandLinearAttention(Expansion& e) {
  WEFT_TRY(e.Obeys("query:T key:T value:T past_state?:S decay?:T beta?:T",
                   "output:T present_state?:S", "T=bf16|f16|f32 S=bf16|f16|f32",
                   "chunk_size:i kv_num_heads!:i q_num_heads!:i scale:f state_window:i "
                   "update_rule:s"));
  WEFT_TRY(int64_t heads, Heads(e, "q_num_heads"));
  WEFT_TRY(const int64_t kv_heads, Heads(e, "kv_num_heads"));
  WEFT_TRY(const int64_t window, WindowOfStates(e));
  for (size_t i : {0, 1, 2, 4, 5}) {
    if (const auto rank = e.Has(i) ? e.RankOf(e.In(i)) : std::nullopt; rank && rank != 3)
      return Invalid(fmt::format("input {} is of rank {}, expected 3", i, *rank));
  }
  const std::string rule = StringAttr(e.node(), "update_rule", "gated_delta");
  std::vector<ValueId> steps = {e.In(0), e.In(1), e.In(2), {}, {}};
  if (rule.starts_with("gated")) steps[3] = e.In(4);
  if (rule.ends_with("delta")) steps[4] = e.In(5);
  WEFT_TRY(steps[1], Repeated(e, steps[1], HeadsOfKeys(e, heads, kv_heads), kv_heads));
  if (heads < kv_heads) {
    WEFT_TRY(steps[0], Repeated(e, steps[0], heads, kv_heads));
    heads = kv_heads;
  }
  std::vector<Attribute> attributes = Kept(e.node(), {"chunk_size", "scale", "update_rule"});
  attributes.push_back({"kv_num_heads", kv_heads});
  attributes.push_back({"q_num_heads", heads});
  const auto attend = [&](std::span<const ValueId> x, ValueId past) {
    return e.MakeAll(Op::kLinearAttention, {x[0], x[1], x[2], past, x[3], x[4]}, 2, "attended",
                     attributes);
  };
  Formula f(e);
  const ValueId past = LastState(e, f, e.In(3), window);
  if (window == 0 || !e.HasOut(1)) {
    WEFT_TRY(f.status());
    WEFT_TRY(const auto made, attend(steps, past));
    WEFT_TRY(f.Finish(made[0], 0));
    return f.Finish(made[1], 1);
  }
  // The last steps one by one, behind all those before.
  WEFT_TRY(const int64_t length, KnownExtent(e, e.In(0), 1, "a window of states over queries"));
  std::vector<int64_t> lengths(static_cast<size_t>(std::clamp<int64_t>(length, 1, window)), 1);
  lengths[0] = length - std::ssize(lengths) + 1;
  std::vector<std::vector<ValueId>> parts(steps.size(), std::vector<ValueId>(lengths.size()));
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].valid()) continue;
    WEFT_TRY(parts[i], e.MakeAll(Op::kSplit, {steps[i], e.Ints("lengths", lengths)}, lengths.size(),
                                 "part", {{"axis", int64_t{1}}}));
  }
  std::vector<ValueId> outputs, states = {past};
  for (size_t k = 0; k < lengths.size(); ++k) {
    std::vector<ValueId> now;
    for (const auto& part : parts) now.push_back(part[k]);
    WEFT_TRY(const auto made, attend(now, states.back()));
    outputs.push_back(made[0]);
    states.push_back(made[1]);
  }
  WEFT_TRY(f.Finish(f.Do(Op::kConcat, outputs, {{"axis", int64_t{1}}}), 0));
  return f.Finish(Window(e, f, std::span(states).subspan(1), window), 1);
}

// decay = scale * softplus(a + bias) and beta = sigmoid(b), in 32 bits.
Status ExpandLinearAttentionGate(Expansion& e) {
  WEFT_TRY(e.Obeys("a:T dt_bias:F decay_scale:F b?:T", "decay:T beta?:T", "T=bf16|f16|f32 F=f32"));
  if (e.HasOut(1) && !e.Has(3)) return Invalid("output 1, beta, needs input 3, b");
  Formula f(e);
  const ValueId sum = f.Add(f.Cast(e.In(0), Dtype::kF32), e.In(1));
  const ValueId decay = f.Mul(e.In(2), f.Do(Op::kSoftplus, {sum}));
  WEFT_TRY(f.Finish(f.Do(Op::kCastLike, {decay, e.In(0)}), 0));
  if (!e.HasOut(1)) return {};
  const ValueId beta = f.Do(Op::kSigmoid, {f.Cast(e.In(3), Dtype::kF32)});
  return f.Finish(f.Do(Op::kCastLike, {beta, e.In(3)}), 1);
}

namespace {

class CausalConv {
 public:
  explicit CausalConv(Expansion& e) : e_(e), f_(e), node_(e.node()) {}

  Status Build() {
    WEFT_TRY(e_.Obeys("input:T weight:T bias?:T past_state?:T", "output:T present_state?:T",
                      "T=bf16|f16|f32",
                      "activation:s channels_last:i dilation:i ndim:i state_window:i"));
    if (IntAttr(node_, "ndim", 1) != 1)
      return Unsupported("causal convolutions of several dimensions are not supported");
    dilation_ = IntAttr(node_, "dilation", 1);
    if (dilation_ < 1 || dilation_ > INT32_MAX)
      return Invalid(fmt::format("dilation is {}, expected 1 or more", dilation_));
    WEFT_TRY(window_, WindowOfStates(e_));
    last_ = IntAttr(node_, "channels_last", 0) != 0;
    const auto rank = e_.RankOf(e_.In(0));
    if (!rank) return Unsupported("an input of unknown rank is not supported");
    if (last_ ? *rank < 3 : *rank != 3)
      return Invalid(
          fmt::format("the input is of rank {}, expected 3{}", *rank, last_ ? " or more" : ""));
    flat_ = *rank == 3;
    WEFT_TRY(channels_, KnownExtent(e_, e_.In(1), 0, "a filter"));
    const ValueId x = First(e_.In(0)), past = First(LastState(e_, f_, e_.In(3), window_));
    if (dilation_ > 1 || (window_ > 0 && e_.HasOut(1))) return Apart(x, past);
    WEFT_TRY(f_.status());
    WEFT_TRY(const auto made, e_.MakeAll(Op::kCausalConvWithState, {x, e_.In(1), e_.In(2), past}, 2,
                                         "conv", Kept(node_, {"activation"})));
    WEFT_TRY(f_.Finish(Last(made[0]), 0));
    return f_.Finish(Last(made[1]), 1);
  }

 private:
  // [batch, steps, ...] as [batch, channels, steps], and back, if the channels come last.
  ValueId First(ValueId x) {
    if (!last_ || !x.valid()) return x;
    if (!flat_) x = f_.Do(Op::kReshape, {x, e_.Ints("rows", {0, 0, channels_})});
    return f_.Do(Op::kTranspose, {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  }
  ValueId Last(ValueId x) {
    if (!last_) return x;
    x = f_.Do(Op::kTranspose, {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    if (flat_) return x;
    const ValueId axes = f_.Do(Op::kShape, {e_.In(0)}, {{"start", int64_t{2}}});
    return f_.Do(Op::kReshape,
                 {x, f_.Do(Op::kConcat, {e_.Ints("steps", {0, 0}), axes}, {{"axis", int64_t{0}}})});
  }

  // What ONNX's has no form for: a convolution of the state followed by the input, of which the
  // states are parts.
  Status Apart(ValueId x, ValueId past) {
    WEFT_TRY(const int64_t taps, KnownExtent(e_, e_.In(1), 2, "a filter"));
    const int64_t kept = (taps - 1) * dilation_;
    const ValueId all = past.valid()
                            ? f_.Do(Op::kConcat, {past, x}, {{"axis", int64_t{2}}})
                            : f_.Do(Op::kPad, {x, e_.Ints("before", {0, 0, kept, 0, 0, 0})});
    ValueId y = f_.Do(Op::kConv, {all, e_.In(1), e_.In(2)},
                      {{"dilations", std::vector<int64_t>{dilation_}}, {"group", channels_}});
    const std::string activation = StringAttr(node_, "activation", "none");
    if (activation == "silu" || activation == "swish") {
      y = f_.Do(Op::kSwish, {y});
    } else if (activation != "none") {
      return Invalid(
          fmt::format("activation is {}, expected none, silu or swish", PrintString(activation)));
    }
    WEFT_TRY(f_.Finish(Last(y), 0));
    if (!e_.HasOut(1)) return {};
    if (window_ == 0) return f_.Finish(Last(State(all, kept, 0)), 1);
    WEFT_TRY(const int64_t length,
             KnownExtent(e_, e_.In(0), last_ ? 1 : 2, "a window of states over an input"));
    std::vector<ValueId> states;
    for (int64_t later = std::min(length, window_) - 1; later >= 0; --later)
      states.push_back(Last(State(all, kept, later)));
    if (states.empty()) return Unsupported("a window of states over no steps is not supported");
    return f_.Finish(Window(e_, f_, states, window_), 1);
  }

  // The last `kept` steps, but for the `later` ones behind them.
  ValueId State(ValueId all, int64_t kept, int64_t later) {
    constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
    const auto from_end = [](int64_t steps) { return steps == 0 ? kEnd : -steps; };
    return f_.Do(Op::kSlice, {all, e_.Ints("from", {from_end(kept + later)}),
                              e_.Ints("to", {from_end(later)}), e_.Ints("along", {2})});
  }

  Expansion& e_;
  Formula f_;
  const Node& node_;
  int64_t dilation_ = 1, window_ = 0, channels_ = 0;
  bool last_ = false, flat_ = true;
};

}  // namespace

Status ExpandCausalConvWithState(Expansion& e) { return CausalConv(e).Build(); }

}  // namespace weft::graph
