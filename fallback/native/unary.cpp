// Elementwise operators of one operand. Floats compute in double and are rounded once.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "fallback/native/loops.h"
#include "fallback/native/types.h"

namespace weft::fallback::native {
namespace {

using FloatFn = double (*)(double x, double a, double b);

struct UnaryOp {
  std::string_view name;
  FloatFn f;
  std::string_view a = "", b = "";  // attributes, and what they are if absent
  float a_default = 0, b_default = 0;
};

// No overflow on either side.
double Sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double HardSigmoid(double x, double a, double b) {
  const double y = a * x + b;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

// float -> float.
constexpr UnaryOp kOps[] = {
    {"Abs", [](double x, double, double) { return std::fabs(x); }},
    {"Acos", [](double x, double, double) { return std::acos(x); }},
    {"Acosh", [](double x, double, double) { return std::acosh(x); }},
    {"Asin", [](double x, double, double) { return std::asin(x); }},
    {"Asinh", [](double x, double, double) { return std::asinh(x); }},
    {"Atan", [](double x, double, double) { return std::atan(x); }},
    {"Atanh", [](double x, double, double) { return std::atanh(x); }},
    {"Ceil", [](double x, double, double) { return std::ceil(x); }},
    {"Celu", [](double x, double a, double) { return x > 0 ? x : a * std::expm1(x / a); }, "alpha",
     "", 1},
    {"Cos", [](double x, double, double) { return std::cos(x); }},
    {"Cosh", [](double x, double, double) { return std::cosh(x); }},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, "alpha", "",
     1},
    {"Erf", [](double x, double, double) { return std::erf(x); }},
    {"Exp", [](double x, double, double) { return std::exp(x); }},
    {"Floor", [](double x, double, double) { return std::floor(x); }},
    {"Gelu",
     [](double x, double, double) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }},
    {"HardSigmoid", HardSigmoid, "alpha", "beta", 0.2f, 0.5f},
    {"HardSwish", [](double x, double, double) { return x * HardSigmoid(x, 1.0 / 6, 0.5); }},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, "alpha", "", 0.01f},
    {"Log", [](double x, double, double) { return std::log(x); }},
    {"Mish", [](double x, double, double) { return x * std::tanh(Softplus(x)); }},
    {"Neg", [](double x, double, double) { return -x; }},
    {"Reciprocal", [](double x, double, double) { return 1 / x; }},
    {"Relu", [](double x, double, double) { return x < 0 ? 0 : x; }},
    {"Round", [](double x, double, double) { return std::nearbyint(x); }},
    {"Selu", [](double x, double a, double g) { return x > 0 ? g * x : g * a * std::expm1(x); },
     "alpha", "gamma", 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"Shrink", [](double x, double l, double b) { return x < -l  ? x + b
                                                         : x > l ? x - b
                                                                 : 0; },
     "lambd", "bias", 0.5f, 0},
    {"Sigmoid", [](double x, double, double) { return Sigmoid(x); }},
    {"Sign", [](double x, double, double) { return Sign(x); }},
    {"Sin", [](double x, double, double) { return std::sin(x); }},
    {"Sinh", [](double x, double, double) { return std::sinh(x); }},
    {"Softplus", [](double x, double, double) { return Softplus(x); }},
    {"Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"Swish", [](double x, double a, double) { return x * Sigmoid(a * x); }, "alpha", "", 1},
    {"Tan", [](double x, double, double) { return std::tan(x); }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0; }, "alpha", "", 1},
};

double GeluTanh(double x, double, double) {
  const double c = std::sqrt(2 / std::numbers::pi);
  return x / 2 * (1 + std::tanh(c * (x + 0.044715 * x * x * x)));
}

Status RunFloat(const Args& args, const Out& out) {
  const auto* op = std::ranges::find(kOps, std::string_view(args.call.op), &UnaryOp::name);
  if (op == std::end(kOps)) return NoSuchType(args, args[0].dtype);
  FloatFn f = op->f;
  if (op->name == "Gelu" && args.Text("approximate", "none") == "tanh") f = GeluTanh;
  const double a = FloatAttr(args.call, op->a, op->a_default),
               b = FloatAttr(args.call, op->b, op->b_default);
  ByFloat(args[0].dtype, [&]<typename T>() {
    const T* x = args[0].as<T>();
    for (int64_t i = 0; i < out.elems; ++i)
      out.as<T>()[i] = To<T>(f(static_cast<double>(x[i]), a, b));
  });
  return {};
}

// Integers of 64 bits, signed or not, of which the low ones are kept.
uint64_t OnInt(std::string_view op, int64_t x, bool is_signed) {
  const auto u = static_cast<uint64_t>(x);
  const bool negative = is_signed && x < 0;
  if (op == "Abs") return negative ? 0 - u : u;
  if (op == "Neg") return 0 - u;
  if (op == "Relu") return negative ? 0 : u;
  if (op == "Sign") return negative ? ~uint64_t{0} : x != 0;
  return ~u;  // BitwiseNot
}

Status RunInt(const Args& args, const Out& out) {
  const std::string& op = args.call.op;
  const bool is_shrink = op == "Shrink";
  if (!is_shrink && op != "Abs" && op != "Neg" && op != "Relu" && op != "Sign" &&
      op != "BitwiseNot") {
    return NoSuchType(args, args[0].dtype);
  }
  const double lambd = FloatAttr(args.call, "lambd", 0.5f), bias = FloatAttr(args.call, "bias", 0);
  ByType(args[0].dtype, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* x = args[0].as<T>();
      T* y = out.as<T>();
      for (int64_t i = 0; i < out.elems; ++i) {
        const auto real = static_cast<double>(x[i]);
        y[i] = is_shrink
                   ? To<T>(real < -lambd  ? real + bias
                           : real > lambd ? real - bias
                                          : 0)
                   : static_cast<T>(OnInt(op, static_cast<int64_t>(x[i]), std::is_signed_v<T>));
      }
    }
  });
  return {};
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
  const bool known = ByFloat(x.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < out.elems; ++i) {
      const auto v = static_cast<double>(x.as<T>()[i]);
      out.as<uint8_t>()[i] = op == "IsNaN" ? std::isnan(v) : std::isinf(v) && (v > 0 ? high : low);
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
