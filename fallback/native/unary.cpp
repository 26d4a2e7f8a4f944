// Elementwise operators of one operand. Floats compute in double and are rounded once.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "fallback/native/curves.h"
#include "fallback/native/loops.h"
#include "fallback/native/types.h"
#include "fallback/native/vectors.h"

namespace weft::fallback::native {
namespace {

template <typename T>
using Loop = void (*)(const T* x, T* y, int64_t count, double a, double b);

struct UnaryOp {
  std::string_view name;
  Loop<float> on_f32;
  Loop<double> on_f64;    // of 16-bit floats too
  std::string_view a, b;  // attributes, and what they are if absent
  float a_default = 0, b_default = 0;
};

// y[i] = F(x[i], a, b), F computing in C. Its branches become selections, so both sides are
// computed.
template <typename T, typename C, typename F>
void Each(const T* x, T* y, int64_t count, double a, double b) {
  Vectorised([=, a = static_cast<C>(a), b = static_cast<C>(b)] {
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(F()(static_cast<C>(x[i]), a, b));
  });
}

struct Attributes {
  std::string_view a, b;
  float a_default = 0, b_default = 0;
};

template <typename F>
constexpr UnaryOp InDouble(std::string_view name, F, Attributes at = {}) {
  return {name,        Each<float, double, F>, Each<double, double, F>, at.a, at.b, at.a_default,
          at.b_default};
}
// For what is the same when it is computed in the type itself: what is exact, and a single rounded
// operation on floats (binary.cpp).
template <typename F>
constexpr UnaryOp InType(std::string_view name, F, Attributes at = {}) {
  return {name,         Each<float, float, F>, Each<double, double, F>, at.a, at.b,
          at.a_default, at.b_default};
}

// float -> float.
constexpr UnaryOp kOps[] = {
    InType("Abs", [](auto x, auto, auto) { return std::fabs(x); }),
    InDouble("Acos", [](double x, double, double) { return std::acos(x); }),
    InDouble("Acosh", [](double x, double, double) { return std::acosh(x); }),
    InDouble("Asin", [](double x, double, double) { return std::asin(x); }),
    InDouble("Asinh", [](double x, double, double) { return std::asinh(x); }),
    InDouble("Atan", [](double x, double, double) { return std::atan(x); }),
    InDouble("Atanh", [](double x, double, double) { return std::atanh(x); }),
    InType("Ceil", [](auto x, auto, auto) { return std::ceil(x); }),
    InDouble("Celu",
             [](double x, double a, double) {
               const double below = a * std::expm1(x / a);
               return x > 0 ? x : below;
             },
             {"alpha", "", 1}),
    InDouble("Cos", [](double x, double, double) { return std::cos(x); }),
    InDouble("Cosh", [](double x, double, double) { return std::cosh(x); }),
    InDouble("Elu", [](double x, double a, double) { return Elu(x, a); }, {"alpha", "", 1}),
    InDouble("Erf", [](double x, double, double) { return std::erf(x); }),
    InDouble("Exp", [](double x, double, double) { return std::exp(x); }),
    InType("Floor", [](auto x, auto, auto) { return std::floor(x); }),
    InDouble("Gelu", [](double x, double,
                        double) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }),
    InDouble("HardSigmoid", [](double x, double a, double b) { return HardSigmoid(x, a, b); },
             {"alpha", "beta", 0.2f, 0.5f}),
    InDouble("HardSwish",
             [](double x, double, double) { return x * HardSigmoid(x, 1.0 / 6, 0.5); }),
    InType("LeakyRelu", [](auto x, auto a, auto) { return x < 0 ? a * x : x; },
           {"alpha", "", 0.01f}),
    InDouble("Log", [](double x, double, double) { return std::log(x); }),
    InDouble("Mish", [](double x, double, double) { return x * std::tanh(Softplus(x)); }),
    InType("Neg", [](auto x, auto, auto) { return -x; }),
    InType("Reciprocal", [](auto x, auto, auto) { return 1 / x; }),
    InType("Relu", [](auto x, auto, auto) { return x < 0 ? 0 : x; }),
    InType("Round", [](auto x, auto, auto) { return std::nearbyint(x); }),
    InDouble("Selu",
             [](double x, double a, double g) {
               const double below = g * a * std::expm1(x);
               return x > 0 ? g * x : below;
             },
             {"alpha", "gamma", 1.67326319217681884765625f, 1.05070102214813232421875f}),
    InType("Shrink",
           [](auto x, auto l, auto b) {
             const auto up = x + b, down = x - b;
             return x < -l ? up : x > l ? down : 0;
           },
           {"lambd", "bias", 0.5f, 0}),
    InDouble("Sigmoid", [](double x, double, double) { return Sigmoid(x); }),
    InType("Sign", [](auto x, auto, auto) { return x > 0   ? 1
                                                   : x < 0 ? -1
                                                           : x; }),
    InDouble("Sin", [](double x, double, double) { return std::sin(x); }),
    InDouble("Sinh", [](double x, double, double) { return std::sinh(x); }),
    InDouble("Softplus", [](double x, double, double) { return Softplus(x); }),
    InDouble("Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }),
    InType("Sqrt", [](auto x, auto, auto) { return std::sqrt(x); }),
    InDouble("Swish", [](double x, double a, double) { return x * Sigmoid(a * x); },
             {"alpha", "", 1}),
    InDouble("Tan", [](double x, double, double) { return std::tan(x); }),
    InDouble("Tanh", [](double x, double, double) { return std::tanh(x); }),
    InType("ThresholdedRelu", [](auto x, auto a, auto) { return x > a ? x : 0; }, {"alpha", "", 1}),
};

constexpr UnaryOp kGeluTanh = InDouble("Gelu", [](double x, double, double) {
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  return x / 2 * (1 + std::tanh(kScale * (x + 0.044715 * x * x * x)));
});

// By way of doubles, some at a time.
template <typename T>
void By16(const UnaryOp& op, const T* x, T* y, int64_t count, double a, double b) {
  constexpr int64_t kMost = 512;
  std::array<double, kMost> wide, done;
  for (int64_t from = 0; from < count; from += kMost) {
    const int64_t n = std::min(kMost, count - from);
    Vectorised([x = x + from, n, to = wide.data()] {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(x[i]);
    });
    op.on_f64(wide.data(), done.data(), n, a, b);
    Vectorised([y = y + from, n, of = done.data()] {
      for (int64_t i = 0; i < n; ++i) y[i] = To<T>(of[i]);
    });
  }
}

constexpr int64_t kPiece = 1 << 16;  // elements that take some ten microseconds

Status RunFloat(const Args& args, const Out& out) {
  const auto* op = std::ranges::find(kOps, std::string_view(args.call.op), &UnaryOp::name);
  if (op == std::end(kOps)) return NoSuchType(args, args[0].dtype);
  if (op->name == "Gelu" && args.Text("approximate", "none") == "tanh") op = &kGeluTanh;
  const double a = FloatAttr(args.call, op->a, op->a_default),
               b = FloatAttr(args.call, op->b, op->b_default);
  InPieces(out.elems, kPiece, [&](int64_t from, int64_t to) {
    ByFloat(out.dtype, [&]<typename T>() {
      const T* x = args[0].as<T>() + from;
      T* y = out.as<T>() + from;
      if constexpr (std::is_same_v<T, float>)
        op->on_f32(x, y, to - from, a, b);
      else if constexpr (std::is_same_v<T, double>)
        op->on_f64(x, y, to - from, a, b);
      else
        By16(*op, x, y, to - from, a, b);
    });
  });
  return {};
}

// Integers, of which the low bits are kept.
template <typename T>
bool OnInts(std::string_view op, const T* x, T* y, int64_t count) {
  using U = std::make_unsigned_t<T>;
  const auto each = [=](auto f) {
    Vectorised([=] {
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(f(x[i]));
    });
    return true;
  };
  const auto negated = [](T v) { return static_cast<U>(0u - static_cast<U>(v)); };
  if (op == "Abs") return each([=](T v) { return v < 0 ? negated(v) : static_cast<U>(v); });
  if (op == "Neg") return each(negated);
  if (op == "Relu") return each([](T v) { return v < 0 ? T{0} : v; });
  if (op == "Sign") return each([](T v) { return v < 0 ? -1 : v != 0; });
  return op == "BitwiseNot" && each([](T v) { return ~v; });
}

Status RunInt(const Args& args, const Out& out) {
  const bool is_shrink = args.call.op == "Shrink";
  const double lambd = FloatAttr(args.call, "lambd", 0.5f), bias = FloatAttr(args.call, "bias", 0);
  bool known = false;
  ByType(args[0].dtype, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* x = args[0].as<T>();
      T* y = out.as<T>();
      known = is_shrink || OnInts(args.call.op, x, y, out.elems);
      for (int64_t i = 0; is_shrink && i < out.elems; ++i) {
        const auto real = static_cast<double>(x[i]);
        y[i] = To<T>(real < -lambd ? real + bias : real > lambd ? real - bias : 0);
      }
    }
  });
  return known ? Status() : NoSuchType(args, args[0].dtype);
}

// float -> bool, and Not.
Status RunTest(const Args& args) {
  const std::string& op = args.call.op;
  const In& x = args[0];
  WEFT_TRY(const Out out, args.Output(0, Dtype::kBool, x.shape));
  if (op == "Not") {
    WEFT_TRY(args.NeedType(0, Dtype::kBool));
    for (int64_t i = 0; i < out.elems; ++i) out.as<uint8_t>()[i] = x.as<uint8_t>()[i] == 0;
    return {};
  }
  const bool high = args.Int("detect_positive", 1) != 0, low = args.Int("detect_negative", 1) != 0;
  const bool is_nan = op == "IsNaN";
  const bool known = ByFloat(x.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < out.elems; ++i) {
      const auto v = static_cast<double>(x.as<T>()[i]);
      out.as<uint8_t>()[i] = is_nan ? std::isnan(v) : std::isinf(v) && (v > 0 ? high : low);
    }
  });
  return known ? Status() : NoSuchType(args, x.dtype);
}

}  // namespace

Status RunUnary(const Args& args) {
  WEFT_TRY(args.Need(1));
  const std::string& op = args.call.op;
  if (op == "Not" || op == "IsNaN" || op == "IsInf") return RunTest(args);
  const In& x = args[0];
  WEFT_TRY(const Out out, args.Output(0, x.dtype, x.shape));
  if (IsFloat(x.dtype)) return RunFloat(args, out);
  return IsInteger(x.dtype) ? RunInt(args, out) : NoSuchType(args, x.dtype);
}

}  // namespace weft::fallback::native
