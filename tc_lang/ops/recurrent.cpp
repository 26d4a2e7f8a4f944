// LSTM, GRU and RNN as recurrences over time: one loop over step t, whose first statements fetch
// the state before it. The products with the inputs are no part of the loop.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <span>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

// Activations of {x}, and the defaults of their parameters {a} and {b}: those of the operators of
// that name, as the standard has it.
struct Named {
  std::string_view name, text;
  int parameters = 0;
  double a = 0, b = 0;
};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr Named kActivations[] = {
    {"Affine", "({a} * {x} + {b})", 2, kNone, kNone},
    {"Elu", "({x} < 0.0 ? {a} * expm1({x}) : {x})", 1, 1},
    {"HardSigmoid", "max(min({a} * {x} + {b}, 1.0), 0.0)", 2, 0.2, 0.5},
    {"LeakyRelu", "({x} < 0.0 ? {a} * {x} : {x})", 1, 0.01},
    {"Relu", "max({x}, 0.0)"},
    {"ScaledTanh", "({a} * tanh({b} * {x}))", 2, kNone, kNone},
    {"Sigmoid", "sigmoid({x})"},
    {"Softplus", "(max({x}, 0.0) + log1p(exp(-abs({x}))))"},
    {"Softsign", "({x} / (1.0 + abs({x})))"},
    {"Tanh", "tanh({x})"},
    {"ThresholdedRelu", "({x} > {a} ? {x} : 0.0)", 1, 1}};

// As onnxruntime reads names of activations: in upper or lower case.
bool IsSameWord(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

struct Activation {
  const Named* function;
  double a, b;
};

template <typename T>
std::vector<T> ListAttr(const graph::Node& node, std::string_view name) {
  const graph::Attribute* found = graph::FindAttribute(node, name);
  const auto* list = found ? std::get_if<std::vector<T>>(&found->value) : nullptr;
  return list ? *list : std::vector<T>();
}

// The activations of all directions, the names among `defaults` where the node gives none. Those
// that have parameters take them in turn from activation_alpha and activation_beta, as onnxruntime
// reads the standard.
std::vector<Activation> Activations(Writer& w, const std::vector<std::string>& defaults,
                                    size_t directions) {
  const auto names = ListAttr<std::string>(w.node, "activations");
  const auto alphas = ListAttr<float>(w.node, "activation_alpha"),
             betas = ListAttr<float>(w.node, "activation_beta");
  auto alpha = alphas.begin(), beta = betas.begin();
  std::vector<Activation> all;
  for (size_t i = 0; i < directions * defaults.size(); ++i) {
    const std::string& name = i < names.size() ? names[i] : defaults[i % defaults.size()];
    const Named* found = std::ranges::find_if(
        kActivations, [&](const Named& known) { return IsSameWord(known.name, name); });
    if (found == std::end(kActivations)) return w.Refuse("the activation " + name), all;
    Activation one{.function = found, .a = found->a, .b = found->b};
    if (found->parameters > 0 && alpha != alphas.end()) one.a = *alpha++;
    if (found->parameters > 1 && beta != betas.end()) one.b = *beta++;
    if (std::isnan(one.a) || std::isnan(one.b))
      return w.Refuse(name + " without its parameters"), all;
    all.push_back(one);
  }
  return all;
}

// One direction of the node. Indices: t step, b batch, j unit of the state.
class Direction {
 public:
  Direction(Writer& w, int64_t number, bool reverse, int64_t gates,
            std::span<const Activation> activations)
      : w_(w),
        number_(number),
        reverse_(reverse),
        gates_(gates),
        activations_(activations),
        batch_first_(w.Int("layout", 0) != 0),
        x_(w.In(0)),
        weights_(w.In(1)),
        recurrent_(w.In(2)) {
    steps_ = w.Extent(x_, batch_first_ ? 1 : 0);
    batches_ = x_.dims.empty() ? Dim(1) : x_.dims[batch_first_ ? 0 : 1];
    units_ = w.Extent(recurrent_, 2);
    clip_ = w.Float("clip", 0);
    w_.Range("t", steps_);
    w_.Range("b", batches_);
    w_.Range("j", units_);
    w_.Range("e", units_);
  }

  struct State {
    Operand after, before;  // of step t
  };
  // Before the first step it is input `initial`, or zero.
  State MakeState(std::string_view name, size_t initial) {
    const State s{w_.Temp(name, x_.dtype), w_.Temp(fmt::format("{}_before", name), x_.dtype)};
    w_.Declare(s.after, {steps_, batches_, units_});
    w_.Set("recurrence", s.before, Now(),
           fmt::format("t > 0 ? {} : {}", w_.At(s.after, {"t - 1", "b", "j"}),
                       Initial(initial, s.after.dtype)));
    return s;
  }

  // x * W, for all gates.
  Operand FromInputs() {
    const Operand out = w_.Temp("from_x", x_.dtype);
    w_.Range("k", gates_ * units_);
    w_.Range("c", w_.Extent(x_, 2));
    const std::string place = Place();
    std::string x = w_.At(x_, batch_first_ ? Subs{"b", place, "c"} : Subs{place, "b", "c"});
    if (reverse_ && w_.Has(4)) x = fmt::format("({} ? {} : {})", Live(), x, Lit(x_.dtype, 0));
    w_.Reduce("contraction", out, {"t", "b", "k"}, "+=!",
              fmt::format("{} * {}", x, w_.At(weights_, {Number(), "k", "c"})));
    return out;
  }
  // `state` (an expression of b and e) * R, for `count` gates from `first` on.
  Operand FromState(std::string_view name, const std::string& state, int64_t first, int64_t count) {
    const Operand out = w_.Temp(name, x_.dtype);
    w_.Range("k", count * units_);
    const std::string row = Sum({{1, "k"}}, first * units_);
    w_.Reduce("contraction", out, {"t", "b", "k"}, "+=!",
              fmt::format("{} * {}", state, w_.At(recurrent_, {Number(), row, "e"})));
    return out;
  }

  // Subscript of unit j of gate g.
  std::string Unit(int64_t g) const { return Sum({{1, "j"}}, g * units_); }
  std::string Part(const Operand& sums, int64_t g) { return w_.At(sums, {"t", "b", Unit(g)}); }
  // The bias of the input or (half 1) of the state, with a plus in front.
  std::string Bias(int64_t g, int64_t half) {
    if (!w_.Has(3)) return "";
    return " + " + w_.At(w_.In(3), {Number(), Unit(half * gates_ + g)});
  }
  // The clip bounds what enters the gates; the cell itself goes unclipped to its activation, as
  // onnxruntime reads the standard.
  std::string Activate(size_t which, std::string x, bool clipped = true) const {
    const Dtype dtype = x_.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    if (clip_ > 0 && clipped)
      x = fmt::format("min(max({}, {}), {})", x, Lit(dtype, -clip_), Lit(dtype, clip_));
    const Activation& f = activations_[which];
    return fmt::format(fmt::runtime(f.function->text), fmt::arg("x", "(" + x + ")"),
                       fmt::arg("a", Lit(dtype, f.a)), fmt::arg("b", Lit(dtype, f.b)));
  }
  Operand Gate(std::string_view name, size_t activation, const std::string& sum) {
    const Operand gate = w_.Temp(name, x_.dtype);
    w_.Set("pointwise", gate, Now(), Activate(activation, sum));
    return gate;
  }
  // A row that has ended keeps its state.
  void Advance(const State& s, const std::string& next) {
    w_.Set("recurrence", s.after, Now(),
           w_.Has(4) ? fmt::format("{} ? {} : {}", Live(), next, w_.At(s.before, Now())) : next);
  }

  // Y(t): the state after the step that read x(t).
  void WriteAll(const State& s) {
    if (!w_.HasOut(0)) return;
    const Operand y = w_.Out(0);
    w_.Range("d", number_ + 1, number_);
    const std::string at = Place();
    std::string value = w_.At(s.after, {at, "b", "j"});
    if (w_.Has(4)) value = fmt::format("t < {} ? {} : {}", Length(), value, Lit(y.dtype, 0));
    w_.Set("copy", y, AtStep(), value);
  }
  void WriteLast(const State& s, size_t output) {
    SetLast(output, w_.At(s.after, {std::to_string(steps_ - 1), "b", "j"}));
  }
  // Without a step the states are what they were.
  bool HasSteps() const { return steps_ > 0; }
  void WriteWithoutSteps() {
    if (w_.HasOut(0)) {
      w_.Range("d", number_ + 1, number_);
      w_.Set("copy", w_.Out(0), AtStep(), Lit(w_.Out(0).dtype, 0));
    }
    SetLast(1, Initial(5, x_.dtype));
    SetLast(2, Initial(6, x_.dtype));
  }

  static Subs Now() { return {"t", "b", "j"}; }
  std::string Number() const { return std::to_string(number_); }

 private:
  Subs AtStep() const { return batch_first_ ? Subs{"b", "t", "d", "j"} : Subs{"t", "d", "b", "j"}; }
  std::string Initial(size_t input, Dtype dtype) {
    const Subs at = batch_first_ ? Subs{"b", Number(), "j"} : Subs{Number(), "b", "j"};
    return w_.Has(input) ? w_.At(w_.In(input), at) : Lit(dtype, 0);
  }
  void SetLast(size_t output, const std::string& value) {
    if (!w_.HasOut(output)) return;
    w_.Range("d", number_ + 1, number_);
    w_.Set("copy", w_.Out(output), batch_first_ ? Subs{"b", "d", "j"} : Subs{"d", "b", "j"}, value);
  }
  std::string Length() { return w_.Has(4) ? w_.At(w_.In(4), {"b"}) : std::to_string(steps_); }
  std::string Live() { return "t < " + Length(); }
  // Where step t reads and writes; behind the end of a row, where nobody looks, the first place.
  std::string Place() {
    if (!reverse_) return "t";
    return fmt::format(fmt::runtime(w_.Has(4) ? "max({} - 1 - t, 0)" : "{} - 1 - t"), Length());
  }

  Writer& w_;
  int64_t number_;
  bool reverse_;
  int64_t gates_;
  std::span<const Activation> activations_;
  bool batch_first_;
  Operand x_, weights_, recurrent_;
  int64_t steps_ = 0, units_ = 0;
  Dim batches_;
  double clip_ = 0;
};

// Calls `cell` for each direction of the node.
template <typename Cell>
void EachDirection(Writer& w, int64_t gates, const std::vector<std::string>& defaults, Cell cell) {
  const std::string direction = graph::StringAttr(w.node, "direction", "forward");
  const int64_t count = direction == "bidirectional" ? 2 : 1;
  const auto activations = Activations(w, defaults, static_cast<size_t>(count));
  for (int64_t d = 0; d < count && w.ok(); ++d) {
    const auto own =
        std::span(activations).subspan(static_cast<size_t>(d) * defaults.size(), defaults.size());
    Direction one(w, d, direction == "reverse" || d == 1, gates, own);
    if (!w.ok()) continue;
    if (one.HasSteps())
      cell(one);
    else
      one.WriteWithoutSteps();
  }
}

}  // namespace

void Rnn(Writer& w) {
  EachDirection(w, 1, {"Tanh"}, [&](Direction& d) {
    const Operand from_x = d.FromInputs();
    const auto h = d.MakeState("h", 5);
    const Operand from_h = d.FromState("from_h", w.At(h.before, {"t", "b", "e"}), 0, 1);
    d.Advance(h, d.Activate(0, d.Part(from_x, 0) + " + " + d.Part(from_h, 0) + d.Bias(0, 0) +
                                   d.Bias(0, 1)));
    d.WriteAll(h);
    d.WriteLast(h, 1);
  });
}

// Gates i, o, f, c; peepholes p in the order i, o, f.
void Lstm(Writer& w) {
  EachDirection(w, 4, {"Sigmoid", "Tanh", "Tanh"}, [&](Direction& d) {
    const Operand from_x = d.FromInputs();
    const auto h = d.MakeState("h", 5), c = d.MakeState("c", 6);
    const Operand from_h = d.FromState("from_h", w.At(h.before, {"t", "b", "e"}), 0, 4);
    const auto sum = [&](int64_t g) {
      return d.Part(from_x, g) + " + " + d.Part(from_h, g) + d.Bias(g, 0) + d.Bias(g, 1);
    };
    const auto peephole = [&](int64_t g, const std::string& cell) {
      return w.Has(7) ? fmt::format(" + {} * {}", w.At(w.In(7), {d.Number(), d.Unit(g)}), cell)
                      : "";
    };
    const std::string old = w.At(c.before, d.Now()), now = w.At(c.after, d.Now());
    const std::string in = w.At(d.Gate("in", 0, sum(0) + peephole(0, old)), d.Now());
    const bool coupled = w.Int("input_forget", 0) != 0;
    const std::string forget = coupled
                                   ? fmt::format("(1.0 - {})", in)
                                   : w.At(d.Gate("forget", 0, sum(2) + peephole(2, old)), d.Now());
    const std::string cell = w.At(d.Gate("cell", 1, sum(3)), d.Now());
    d.Advance(c, fmt::format("{} * {} + {} * {}", forget, old, in, cell));
    const std::string out = w.At(d.Gate("out", 0, sum(1) + peephole(1, now)), d.Now());
    d.Advance(h, fmt::format("{} * {}", out, d.Activate(2, now, false)));
    d.WriteAll(h);
    d.WriteLast(h, 1);
    d.WriteLast(c, 2);
  });
}

// Gates z, r, h; the reset gate r works before or after the product with the state.
void Gru(Writer& w) {
  EachDirection(w, 3, {"Sigmoid", "Tanh"}, [&](Direction& d) {
    const bool after = w.Int("linear_before_reset", 0) != 0;
    const Operand from_x = d.FromInputs();
    const auto h = d.MakeState("h", 5);
    const std::string old = w.At(h.before, {"t", "b", "e"});
    const Operand from_h = d.FromState("from_h", old, 0, after ? 3 : 2);
    const auto sum = [&](int64_t g) {
      return d.Part(from_x, g) + " + " + d.Part(from_h, g) + d.Bias(g, 0) + d.Bias(g, 1);
    };
    const std::string update = w.At(d.Gate("update", 0, sum(0)), d.Now());
    const Operand reset = d.Gate("reset", 0, sum(1));
    std::string state;
    if (after) {
      state = fmt::format("{} * ({}{})", w.At(reset, d.Now()), d.Part(from_h, 2), d.Bias(2, 1));
    } else {
      const std::string kept = fmt::format("{} * {}", w.At(reset, {"t", "b", "e"}), old);
      state = d.Part(d.FromState("from_reset", kept, 2, 1), 0) + d.Bias(2, 1);
    }
    const std::string fresh =
        w.At(d.Gate("fresh", 1, d.Part(from_x, 2) + " + " + state + d.Bias(2, 0)), d.Now());
    d.Advance(h,
              fmt::format("(1.0 - {0}) * {1} + {0} * {2}", update, fresh, w.At(h.before, d.Now())));
    d.WriteAll(h);
    d.WriteLast(h, 1);
  });
}

}  // namespace weft::tc::ops
