// LSTM, GRU and RNN: the products with the inputs for all steps at once, then step after step.
//
// Activations, clipping and reversed rows are read as in the comprehensions of the same operators
// (tc_lang/ops/recurrent.cpp).
#include "fallback/native/recurrent.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "fallback/native/curves.h"
#include "fallback/native/gemm.h"
#include "fallback/native/types.h"
#include "fallback/native/vectors.h"

namespace weft::fallback::native {
namespace {

template <typename C>
using Curve = void (*)(C* x, int64_t count, double a, double b);

struct Named {
  std::string_view name;
  Curve<float> on_f32;
  Curve<double> on_f64;
  int parameters = 0;
  double a = 0, b = 0;
};

// x[i] = F(x[i], a, b), computed in double.
template <typename C, typename F>
void Each(C* x, int64_t count, double a, double b) {
  Vectorised([=] {
    for (int64_t i = 0; i < count; ++i) x[i] = static_cast<C>(F()(static_cast<double>(x[i]), a, b));
  });
}

template <typename F>
constexpr Named Of(std::string_view name, F, int parameters = 0, double a = 0, double b = 0) {
  return {name, Each<float, F>, Each<double, F>, parameters, a, b};
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr Named kActivations[] = {
    Of(
        "Affine", [](double x, double a, double b) { return a * x + b; }, 2, kNone, kNone),
    Of(
        "Elu", [](double x, double a, double) { return Elu(x, a); }, 1, 1),
    Of(
        "HardSigmoid", [](double x, double a, double b) { return HardSigmoid(x, a, b); }, 2, 0.2,
        0.5),
    Of(
        "LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 1, 0.01),
    Of("Relu", [](double x, double, double) { return x < 0 ? 0 : x; }),
    Of(
        "ScaledTanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, kNone,
        kNone),
    Of("Sigmoid", [](double x, double, double) { return Sigmoid(x); }),
    Of("Softplus", [](double x, double, double) { return Softplus(x); }),
    Of("Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }),
    Of("Tanh", [](double x, double, double) { return std::tanh(x); }),
    Of(
        "ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0; }, 1, 1),
};

struct Activation {
  const Named* named = nullptr;
  double a = 0, b = 0;

  template <typename C>
  void Apply(C* x, int64_t count) const {
    if constexpr (std::is_same_v<C, double>)
      named->on_f64(x, count, a, b);
    else
      named->on_f32(x, count, a, b);
  }
};

const Named* FindActivation(std::string_view name) {
  const auto same = [&](const Named& known) {
    return std::ranges::equal(known.name, name, [](unsigned char x, unsigned char y) {
      return std::tolower(x) == std::tolower(y);
    });
  };
  const auto* found = std::ranges::find_if(kActivations, same);
  return found == std::end(kActivations) ? nullptr : found;
}

template <typename T>
std::vector<T> List(const LibraryCall& call, std::string_view name) {
  const CallAttribute* found = FindAttribute(call, name);
  const auto* list = found ? std::get_if<std::vector<T>>(&found->value) : nullptr;
  return list ? *list : std::vector<T>();
}

// The extents of a node, and what its attributes say.
struct Cells {
  int64_t steps = 0, rows = 0, inputs = 0, units = 0, gates = 0, directions = 1;
  bool batch_first = false, reverse = false;  // the first direction; a second one is
  double clip = 0;
  std::vector<Activation> activations;  // of all directions
  std::vector<int64_t> lengths;         // by row
};

int64_t DirectionsOf(const LibraryCall& call) {
  return StringAttr(call, "direction", "forward") == "bidirectional" ? 2 : 1;
}

// Those that a direction has if the node names none.
std::span<const std::string_view> Defaults(const LibraryCall& call) {
  static constexpr std::string_view kOfGates[] = {"Sigmoid", "Tanh", "Tanh"};
  const std::span all(kOfGates);
  return call.op == "LSTM" ? all : call.op == "GRU" ? all.first(2) : all.subspan(1, 1);
}

// Those of all directions.
Result<std::vector<Activation>> Activations(const LibraryCall& call) {
  const auto names = List<std::string>(call, "activations");
  const auto alphas = List<float>(call, "activation_alpha"),
             betas = List<float>(call, "activation_beta");
  const auto defaults = Defaults(call);
  auto alpha = alphas.begin(), beta = betas.begin();
  std::vector<Activation> all;
  for (size_t i = 0; i < static_cast<size_t>(DirectionsOf(call)) * defaults.size(); ++i) {
    const std::string name =
        i < names.size() ? names[i] : std::string(defaults[i % defaults.size()]);
    Activation one{.named = FindActivation(name)};
    if (one.named == nullptr) return Unsupported("the activation " + name);
    one.a = one.named->a;
    one.b = one.named->b;
    if (one.named->parameters > 0 && alpha != alphas.end()) one.a = *alpha++;
    if (one.named->parameters > 1 && beta != betas.end()) one.b = *beta++;
    if (std::isnan(one.a) || std::isnan(one.b))
      return Unsupported(name + " without its parameters");
    all.push_back(one);
  }
  return all;
}

Status CheckShape(const Args& args, size_t i, const Shape& shape) {
  if (!args.Has(i)) return {};
  WEFT_TRY(args.NeedType(i, args[0].dtype));
  if (args[i].shape == shape) return {};
  return args.Error("{} is {}, expected {}", args.Name(i), Print(args[i].shape), Print(shape));
}

Result<std::vector<int64_t>> Lengths(const Args& args, const Cells& c) {
  std::vector<int64_t> lengths(static_cast<size_t>(c.rows), c.steps);
  if (!args.Has(4)) return lengths;
  WEFT_TRY(const std::vector<int64_t> given, args.Ints(4));
  if (given.size() != lengths.size())
    return args.Error("{} has {} elements, expected {}", args.Name(4), given.size(), c.rows);
  for (const int64_t length : given)
    if (length < 0 || length > c.steps)
      return args.Error("{} has {}, expected 0 to {}", args.Name(4), length, c.steps);
  return given;
}

Result<Cells> CellsOf(const Args& args, int64_t gates) {
  WEFT_TRY(args.Need(3));
  Cells c{.gates = gates, .batch_first = args.Int("layout", 0) != 0};
  if (args[0].rank() != 3 || args[2].rank() != 3)
    return args.Error("{} and {} are expected to have rank 3", args.Name(0), args.Name(2));
  const Shape& x = args[0].shape;
  c.steps = x[c.batch_first ? 1 : 0];
  c.rows = x[c.batch_first ? 0 : 1];
  c.inputs = x[2];
  c.units = args[2].shape[2];
  c.directions = DirectionsOf(args.call);
  c.reverse = args.Text("direction", "forward") == "reverse";
  c.clip = FloatAttr(args.call, "clip", 0);
  int64_t sums = 0;  // of a row: each gate of each unit
  if (__builtin_mul_overflow(gates, c.units, &sums) ||
      !CountElems(Shape{std::max<int64_t>(c.steps, 1), c.rows, 2 * c.gates, c.units}).ok())
    return args.Error("{} is too large", args.Name(2));
  const Shape state =
      c.batch_first ? Shape{c.rows, c.directions, c.units} : Shape{c.directions, c.rows, c.units};
  WEFT_TRY(CheckShape(args, 1, {c.directions, sums, c.inputs}));
  WEFT_TRY(CheckShape(args, 2, {c.directions, sums, c.units}));
  WEFT_TRY(CheckShape(args, 3, {c.directions, 2 * sums}));
  WEFT_TRY(CheckShape(args, 5, state));
  WEFT_TRY(CheckShape(args, 6, state));
  WEFT_TRY(CheckShape(args, 7, {c.directions, 3 * c.units}));
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double elems =
      real(c.steps) * real(c.rows) * real(c.inputs + sums) + real(c.rows + c.units) * real(sums);
  WEFT_TRY(args.NeedScratch(elems * (args[0].dtype == Dtype::kF64 ? 8 : 4)));
  WEFT_TRY(c.lengths, Lengths(args, c));
  WEFT_TRY(c.activations, Activations(args.call));
  return c;
}

// One direction of a node, in C. Sums of a row lie gate by gate.
template <typename T, typename C = Compute<T>>
class Direction {
 public:
  Direction(const Args& args, const Cells& c, int64_t number)
      : args_(args),
        c_(c),
        number_(number),
        sums_(c.gates * c.units),
        reverse_(c.reverse || number == 1),
        bias_(static_cast<size_t>(2 * sums_), C{0}),
        recurrent_(c.units * sums_),
        from_x_(c.steps * c.rows * sums_),
        from_h_(c.rows * sums_) {
    if (args.Has(3)) Copy(args[3].as<T>() + number * 2 * sums_, 2 * sums_, bias_.data());
    // Rows of its transpose lie as the products want them, in every step. Written line by line.
    constexpr int64_t kStep = 16;
    const T* r = args[2].as<T>() + number * sums_ * c.units;
    for (int64_t k = 0; k < sums_; k += kStep)
      for (int64_t e = 0; e < c.units; ++e)
        for (int64_t l = k; l < std::min(sums_, k + kStep); ++l)
          recurrent_.get()[e * sums_ + l] = static_cast<C>(r[l * c.units + e]);
  }

  // step(t) for each step, in order.
  template <typename Step>
  void Run(Step step) {
    MultiplyInputs();
    for (int64_t t = 0; t < c_.steps; ++t) {
      Poll();
      step(t);
    }
  }
  // row(b, its sums from the input) for each that has not ended at step t.
  template <typename Row>
  void ForRows(int64_t t, Row row) const {
    for (int64_t b = 0; b < c_.rows; ++b)
      if (t < c_.lengths[b]) row(b, from_x_.get() + (t * c_.rows + b) * sums_);
  }

  // `count` gates from `first` on of state * R, into FromState of each row.
  void MultiplyState(const std::vector<C>& state, int64_t first, int64_t count) {
    const Product<C> product{.m = c_.rows,
                             .n = count * c_.units,
                             .k = c_.units,
                             .a = state.data(),
                             .a_row = c_.units,
                             .b = recurrent_.get() + first * c_.units,
                             .b_row = sums_,
                             .c = from_h_.get() + first * c_.units,
                             .c_row = sums_};
    Multiply<C>(1, [&](int64_t) { return product; });
  }
  const C* FromState(int64_t row) const { return from_h_.get() + row * sums_; }
  const C* Bias(int64_t half, int64_t gate) const {
    return bias_.data() + half * sums_ + gate * c_.units;
  }

  // sum[i] += from_state[i] + both biases, for `count` gates from the first on.
  void AddAll(C* sum, int64_t row, int64_t count) const {
    const C* h = FromState(row);
    const C *w = Bias(0, 0), *r = Bias(1, 0);
    for (int64_t i = 0; i < count * c_.units; ++i) sum[i] += h[i] + w[i] + r[i];
  }
  // The clip bounds what enters a gate.
  void Activate(size_t which, C* x, bool clipped = true) const {
    if (clipped && c_.clip > 0) {
      const C most = static_cast<C>(c_.clip);
      for (int64_t i = 0; i < c_.units; ++i) x[i] = std::min(std::max(x[i], -most), most);
    }
    const size_t each = c_.activations.size() / static_cast<size_t>(c_.directions);
    c_.activations[static_cast<size_t>(number_) * each + which].Apply(x, c_.units);
  }

  std::vector<C> Initial(size_t operand) const {
    std::vector<C> state(static_cast<size_t>(c_.rows * c_.units), C{0});
    for (int64_t b = 0; args_.Has(operand) && b < c_.rows; ++b)
      Copy(args_[operand].as<T>() + StateAt(b), c_.units, state.data() + b * c_.units);
    return state;
  }
  void Write(const Out& y, int64_t b, int64_t t, const C* state) const {
    const int64_t place = PlaceOf(b, t);
    const int64_t at = c_.batch_first ? (b * c_.steps + place) * c_.directions + number_
                                      : (place * c_.directions + number_) * c_.rows + b;
    for (int64_t j = 0; j < c_.units; ++j) y.as<T>()[at * c_.units + j] = To<T>(state[j]);
  }
  void WriteLast(const Out& y, const std::vector<C>& state) const {
    for (int64_t b = 0; b < c_.rows; ++b)
      for (int64_t j = 0; j < c_.units; ++j)
        y.as<T>()[StateAt(b) + j] = To<T>(state[static_cast<size_t>(b * c_.units + j)]);
  }

 private:
  static void Copy(const T* from, int64_t count, C* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<C>(from[i]);
  }
  int64_t StateAt(int64_t b) const {
    return (c_.batch_first ? b * c_.directions + number_ : number_ * c_.rows + b) * c_.units;
  }
  // Where the step of a row reads and writes; behind its end, where nobody looks, the first place.
  int64_t PlaceOf(int64_t b, int64_t t) const {
    return reverse_ ? std::max<int64_t>(c_.lengths[b] - 1 - t, 0) : t;
  }

  void MultiplyInputs() {
    Scratch<C> x(c_.steps * c_.rows * c_.inputs);  // in the order of the steps
    for (int64_t t = 0; t < c_.steps; ++t) {
      for (int64_t b = 0; b < c_.rows; ++b) {
        const int64_t place = PlaceOf(b, t);
        const int64_t at = c_.batch_first ? b * c_.steps + place : place * c_.rows + b;
        Copy(args_[0].as<T>() + at * c_.inputs, c_.inputs, x.get() + (t * c_.rows + b) * c_.inputs);
      }
    }
    const Widened<T> weights(args_[1].as<T>() + number_ * sums_ * c_.inputs, sums_ * c_.inputs);
    const Product<C> product{.m = c_.steps * c_.rows,
                             .n = sums_,
                             .k = c_.inputs,
                             .a = x.get(),
                             .a_row = c_.inputs,
                             .b = weights.get(),
                             .b_row = 1,
                             .b_column = c_.inputs,
                             .c = from_x_.get(),
                             .c_row = sums_};
    Multiply<C>(1, [&](int64_t) { return product; });
  }

  const Args& args_;
  const Cells& c_;
  const int64_t number_, sums_;
  const bool reverse_;
  std::vector<C> bias_;  // of the input's product, then of the state's
  Scratch<C> recurrent_, from_x_, from_h_;
};

struct Outputs {
  Out all, hidden, cell;
};

template <typename T>
void RunRnn(const Args& args, const Cells& c, int64_t number, const Outputs& out) {
  using C = Compute<T>;
  Direction<T> d(args, c, number);
  std::vector<C> h = d.Initial(5);
  d.Run([&](int64_t t) {
    d.MultiplyState(h, 0, 1);
    d.ForRows(t, [&](int64_t b, C* sum) {
      d.AddAll(sum, b, 1);
      d.Activate(0, sum);
      std::copy_n(sum, c.units, h.data() + b * c.units);
      if (out.all.data != nullptr) d.Write(out.all, b, t, sum);
    });
  });
  if (out.hidden.data != nullptr) d.WriteLast(out.hidden, h);
}

// Gates i, o, f, c; peepholes in the order i, o, f.
template <typename T>
void RunLstm(const Args& args, const Cells& c, int64_t number, const Outputs& out) {
  using C = Compute<T>;
  Direction<T> d(args, c, number);
  const int64_t units = c.units;
  std::vector<C> h = d.Initial(5), cell = d.Initial(6), shown(static_cast<size_t>(units));
  const bool coupled = args.Int("input_forget", 0) != 0;
  const T* peepholes = args.Has(7) ? args[7].as<T>() + number * 3 * units : nullptr;
  const auto peep = [&](int64_t gate, C* sum, const C* at) {
    for (int64_t j = 0; peepholes != nullptr && j < units; ++j)
      sum[j] += static_cast<C>(peepholes[gate * units + j]) * at[j];
  };
  const auto forget = [&](C* gate, const C* in, const C* state) {
    for (int64_t j = 0; coupled && j < units; ++j) gate[j] = 1 - in[j];
    if (coupled) return;
    peep(2, gate, state);
    d.Activate(0, gate);
  };
  d.Run([&](int64_t t) {
    d.MultiplyState(h, 0, 4);
    d.ForRows(t, [&](int64_t b, C* in) {
      C *open = in + units, *keep = in + 2 * units, *fresh = in + 3 * units;
      C *state = cell.data() + b * units, *hidden = h.data() + b * units;
      d.AddAll(in, b, 4);
      peep(0, in, state);
      d.Activate(0, in);
      forget(keep, in, state);
      d.Activate(1, fresh);
      for (int64_t j = 0; j < units; ++j) state[j] = keep[j] * state[j] + in[j] * fresh[j];
      peep(1, open, state);
      d.Activate(0, open);
      std::copy_n(state, units, shown.data());
      d.Activate(2, shown.data(), false);
      for (int64_t j = 0; j < units; ++j) hidden[j] = open[j] * shown[j];
      if (out.all.data != nullptr) d.Write(out.all, b, t, hidden);
    });
  });
  if (out.hidden.data != nullptr) d.WriteLast(out.hidden, h);
  if (out.cell.data != nullptr) d.WriteLast(out.cell, cell);
}

// Gates z, r, h; the reset gate r works before or after the product with the state.
template <typename T>
void RunGru(const Args& args, const Cells& c, int64_t number, const Outputs& out) {
  using C = Compute<T>;
  Direction<T> d(args, c, number);
  const int64_t units = c.units;
  const bool after = args.Int("linear_before_reset", 0) != 0;
  std::vector<C> h = d.Initial(5), kept = h;
  const C *w = d.Bias(0, 2), *r = d.Bias(1, 2);
  d.Run([&](int64_t t) {
    d.MultiplyState(h, 0, after ? 3 : 2);
    d.ForRows(t, [&](int64_t b, C* update) {
      C* reset = update + units;
      d.AddAll(update, b, 2);
      d.Activate(0, update);
      d.Activate(0, reset);
      for (int64_t j = b * units; j < (b + 1) * units; ++j)
        kept[static_cast<size_t>(j)] = reset[j - b * units] * h[static_cast<size_t>(j)];
    });
    if (!after) d.MultiplyState(kept, 2, 1);
    d.ForRows(t, [&](int64_t b, C* update) {
      C *reset = update + units, *fresh = update + 2 * units, *hidden = h.data() + b * units;
      const C* state = d.FromState(b) + 2 * units;
      for (int64_t j = 0; j < units; ++j)
        fresh[j] += w[j] + (after ? reset[j] : C{1}) * (state[j] + r[j]);
      d.Activate(1, fresh);
      for (int64_t j = 0; j < units; ++j)
        hidden[j] = (1 - update[j]) * fresh[j] + update[j] * hidden[j];
      if (out.all.data != nullptr) d.Write(out.all, b, t, hidden);
    });
  });
  if (out.hidden.data != nullptr) d.WriteLast(out.hidden, h);
}

}  // namespace

std::string WhyNoActivation(const LibraryCall& call) {
  const auto activations = Activations(call);
  return activations.ok() ? "" : call.op + ": " + activations.status().what();
}

Status RunRecurrent(const Args& args) {
  const bool is_lstm = args.call.op == "LSTM", is_gru = args.call.op == "GRU";
  WEFT_TRY(const Cells c, CellsOf(args, is_lstm ? 4 : is_gru ? 3 : 1));
  const Dtype dtype = args[0].dtype;
  Outputs out;
  if (args.Wants(0)) {
    WEFT_TRY(out.all, args.Output(0, dtype,
                                  c.batch_first ? Shape{c.rows, c.steps, c.directions, c.units}
                                                : Shape{c.steps, c.directions, c.rows, c.units}));
    if (out.all.elems > 0)
      std::fill_n(out.all.as<std::byte>(), StorageBytes(dtype, out.all.elems), std::byte{0});
  }
  const Shape state =
      c.batch_first ? Shape{c.rows, c.directions, c.units} : Shape{c.directions, c.rows, c.units};
  if (args.Wants(1)) {
    WEFT_TRY(out.hidden, args.Output(1, dtype, state));
  }
  if (args.Wants(2)) {
    WEFT_TRY(out.cell, args.Output(2, dtype, state));
  }
  if (c.rows == 0) return {};  // of no sequences there may be many steps
  const bool known = ByFloat(dtype, [&]<typename T>() {
    for (int64_t d = 0; d < c.directions; ++d) {
      if (is_lstm)
        RunLstm<T>(args, c, d, out);
      else if (is_gru)
        RunGru<T>(args, c, d, out);
      else
        RunRnn<T>(args, c, d, out);
    }
  });
  return known ? Status() : NoSuchType(args, dtype);
}

}  // namespace weft::fallback::native
