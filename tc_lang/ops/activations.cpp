// Activation functions: each a formula of the element x and the operator's attributes.
#include <cmath>

#include "tc_lang/ops/families.h"

namespace weft::tc::ops {
namespace {

using graph::Op;

struct Parameter {
  std::string_view name;
  float otherwise = 0;
};

// {x} is the element; {p}, {q} are the attributes; the constants are the element's type.
struct Formula {
  Op op;
  Parameter p, q;
  std::string_view text;
};

// max(x, 0) + log1p(exp(-|x|)) is log(1 + exp(x)) without overflow; its tanh is n / (n + 2) with
// n = e^x (e^x + 2), which is 1 in every type from x = 40 on.
constexpr Formula kFormulas[] = {
    {Op::kCelu, {"alpha", 1.0F}, {}, "max({x}, 0.0) + min({p} * expm1({x} / {p}), 0.0)"},
    {Op::kElu, {"alpha", 1.0F}, {}, "{x} < 0.0 ? {p} * expm1({x}) : {x}"},
    {Op::kHardSigmoid, {"alpha", 0.2F}, {"beta", 0.5F}, "max(min({x} * {p} + {q}, 1.0), 0.0)"},
    {Op::kHardSwish, {}, {}, "{x} * max(min({x} * 0.16666666666666667 + 0.5, 1.0), 0.0)"},
    {Op::kLeakyRelu, {"alpha", 0.01F}, {}, "{x} < 0.0 ? {p} * {x} : {x}"},
    {Op::kMish,
     {},
     {},
     "{x} * (exp(min({x}, 40.0)) * (exp(min({x}, 40.0)) + 2.0) / "
     "(exp(min({x}, 40.0)) * (exp(min({x}, 40.0)) + 2.0) + 2.0))"},
    {Op::kSelu,
     {"alpha", 1.67326319217681884765625F},
     {"gamma", 1.05070102214813232421875F},
     "{x} > 0.0 ? {q} * {x} : {q} * ({p} * expm1({x}))"},
    {Op::kShrink,
     {"lambd", 0.5F},
     {"bias", 0.0F},
     "{x} < -{p} ? {x} + {q} : ({x} > {p} ? {x} - {q} : 0.0)"},
    {Op::kSoftplus, {}, {}, "max({x}, 0.0) + log1p(exp(-abs({x})))"},
    {Op::kSoftsign, {}, {}, "{x} / (1.0 + abs({x}))"},
    {Op::kSwish, {"alpha", 1.0F}, {}, "{x} * sigmoid({p} * {x})"},
    {Op::kThresholdedRelu, {"alpha", 1.0F}, {}, "{x} > {p} ? {x} : 0.0"}};

constexpr std::string_view kGelu = "0.5 * {x} * (1.0 + erf({x} * 0.70710678118654752))";
// Hendrycks and Gimpel, Gaussian error linear units, section 2: half of 1 + tanh(z) is the sigmoid
// of 2 z, which loses nothing to a sum where it is near 0; 2 sqrt(2 / pi) = 1.59576...
constexpr std::string_view kGeluTanh =
    "{x} * sigmoid(1.5957691216057307 * ({x} + 0.044715 * {x} * {x} * {x}))";

Formula FormulaOf(const graph::Node& node) {
  if (node.op == Op::kRelu) return {Op::kRelu, {}, {}, "max({x}, {zero})"};
  if (node.op == Op::kGelu) {
    return {Op::kGelu,
            {},
            {},
            graph::StringAttr(node, "approximate", "none") == "tanh" ? kGeluTanh : kGelu};
  }
  for (const Formula& f : kFormulas) {
    if (f.op == node.op) return f;
  }
  return {node.op, {}, {}, "{x}"};
}

}  // namespace

void Activation(Writer& w) {
  const Operand x = w.Arg(0), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  const Formula f = FormulaOf(w.node);
  if (!IsFloat(x.dtype) && w.node.op != Op::kRelu) return w.Refuse("an activation of integers");
  const auto value = [&](const Parameter& p) {
    return Lit(x.dtype, p.name.empty() ? 0 : w.Float(p.name, p.otherwise));
  };
  using fmt::arg;
  w.Set("pointwise", y, i,
        fmt::format(fmt::runtime(f.text), arg("x", w.AtAligned(x, i, y.dims)), arg("p", value(f.p)),
                    arg("q", value(f.q)), arg("zero", Lit(x.dtype, 0))));
}

// The slope is broadcast to x.
void PRelu(Writer& w) {
  const Operand x = w.In(0), slope = w.Arg(1), y = w.Out();
  const Subs i = w.Indices("i", y.dims);
  w.Set("pointwise", y, i,
        fmt::format("{0} < {1} ? {2} * {0} : {0}", w.At(x, i), Lit(x.dtype, 0),
                    w.AtAligned(slope, i, y.dims)));
}

}  // namespace weft::tc::ops
