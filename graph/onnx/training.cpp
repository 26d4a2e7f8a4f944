// Steps of optimizers, of ai.onnx.preview.training: each updates several tensors, one independent
// of the other. The formulas are those of the domain's operator descriptions.
#include <fmt/format.h>

#include <algorithm>

#include "graph/onnx/expansion.h"

namespace weft::graph {
namespace {

// Inputs are the rate, the count of updates so far, then all tensors, all gradients and so on, of
// `kinds` kinds; outputs are `results` kinds. Returns how many tensors there are.
Result<size_t> Tensors(const Expansion& e, size_t kinds, size_t results) {
  const size_t inputs = e.node().inputs.size(), count = inputs < 2 ? 0 : (inputs - 2) / kinds;
  if (count == 0 || inputs != 2 + kinds * count)
    return Invalid(
        fmt::format("found {} inputs, expected 2 and {} for each tensor", inputs, kinds));
  for (size_t i = 0; i < inputs; ++i) {
    if (!e.Has(i)) return Invalid(fmt::format("input {} is absent", i));
  }
  if (e.node().outputs.size() > results * count)
    return Invalid(fmt::format("found {} outputs, expected {} for each of {} tensors",
                               e.node().outputs.size(), results, count));
  return count;
}

// The gradient of the loss and of the tensor's own square, which is to remain small.
ValueId Regularized(Formula& f, const Expansion& e, ValueId x, ValueId gradient) {
  const float factor = FloatAttr(e.node(), "norm_coefficient", 0);
  return factor == 0 ? gradient : f.Add(f.Mul(f.Number(factor, x), x), gradient);
}

// Whether updates came before this one.
ValueId Later(Formula& f, Expansion& e) { return f.Do(Op::kGreater, {e.In(1), e.Int("none", 0)}); }

// Duchi et al., "Adaptive Subgradient Methods", 2011.
Status ExpandAdagrad(Expansion& e) {
  WEFT_TRY(e.Only({"decay_factor", "epsilon", "norm_coefficient"}));
  WEFT_TRY(const size_t count, Tensors(e, 3, 2));
  Formula f(e);
  const ValueId r = e.In(0);
  const ValueId updates = f.Do(Op::kCastLike, {e.In(1), r});
  const ValueId decay = f.Mul(updates, f.Number(FloatAttr(e.node(), "decay_factor", 0), r));
  const ValueId rate = f.Div(r, f.Add(f.Number(1, r), decay));
  for (size_t i = 0; i < count; ++i) {
    const ValueId x = e.In(2 + i), h = e.In(2 + 2 * count + i);
    const ValueId g = Regularized(f, e, x, e.In(2 + count + i));
    const ValueId h_new = f.Add(h, f.Mul(g, g));
    const ValueId root =
        f.Add(f.Do(Op::kSqrt, {h_new}), f.Number(FloatAttr(e.node(), "epsilon", 1e-6F), x));
    WEFT_TRY(f.Finish(f.Sub(x, f.Div(f.Mul(rate, g), root)), i));
    WEFT_TRY(f.Finish(h_new, count + i));
  }
  return {};
}

// Kingma and Ba, "Adam", 2015, algorithm 1.
Status ExpandAdam(Expansion& e) {
  WEFT_TRY(e.Only({"alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post"}));
  WEFT_TRY(const size_t count, Tensors(e, 4, 3));
  const float alpha = FloatAttr(e.node(), "alpha", 0.9F);
  const float beta = FloatAttr(e.node(), "beta", 0.999F);
  const float after = FloatAttr(e.node(), "norm_coefficient_post", 0);
  Formula f(e);
  const ValueId r = e.In(0), t = e.In(1), one = f.Number(1, r);
  const auto left = [&](float decay) {  // of the start, after t updates
    return f.Sub(one, f.Do(Op::kPow, {f.Number(decay, r), t}));
  };
  const ValueId unbiased = f.Div(f.Mul(r, f.Do(Op::kSqrt, {left(beta)})), left(alpha));
  const ValueId rate = f.Do(Op::kWhere, {Later(f, e), unbiased, r});
  for (size_t i = 0; i < count; ++i) {
    const ValueId x = e.In(2 + i), v = e.In(2 + 2 * count + i), h = e.In(2 + 3 * count + i);
    const ValueId g = Regularized(f, e, x, e.In(2 + count + i));
    const auto mean = [&](float decay, ValueId old, ValueId now) {
      return f.Add(f.Mul(f.Number(decay, x), old), f.Mul(f.Number(1 - double{decay}, x), now));
    };
    const ValueId v_new = mean(alpha, v, g), h_new = mean(beta, h, f.Mul(g, g));
    const ValueId root =
        f.Add(f.Do(Op::kSqrt, {h_new}), f.Number(FloatAttr(e.node(), "epsilon", 1e-6F), x));
    ValueId x_new = f.Sub(x, f.Mul(rate, f.Div(v_new, root)));
    if (after != 0) x_new = f.Mul(f.Number(1 - double{after}, x), x_new);
    WEFT_TRY(f.Finish(x_new, i));
    WEFT_TRY(f.Finish(v_new, count + i));
    WEFT_TRY(f.Finish(h_new, 2 * count + i));
  }
  return {};
}

// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013,
// section 2.
Status ExpandMomentum(Expansion& e) {
  WEFT_TRY(e.Only({"alpha", "beta", "mode", "norm_coefficient"}));
  WEFT_TRY(const size_t count, Tensors(e, 3, 2));
  const std::string mode = StringAttr(e.node(), "mode", "");
  if (mode != "standard" && mode != "nesterov")
    return Invalid("attribute \"mode\" is neither \"standard\" nor \"nesterov\"");
  for (const char* name : {"alpha", "beta", "norm_coefficient"}) {
    if (!FindAttribute(e.node(), name))
      return Invalid(fmt::format("required attribute \"{}\" is absent", name));
  }
  Formula f(e);
  const ValueId r = e.In(0);
  const ValueId beta =
      f.Do(Op::kWhere, {Later(f, e), f.Number(FloatAttr(e.node(), "beta", 0), r), f.Number(1, r)});
  for (size_t i = 0; i < count; ++i) {
    const ValueId x = e.In(2 + i), v = e.In(2 + 2 * count + i);
    const ValueId g = Regularized(f, e, x, e.In(2 + count + i));
    const ValueId alpha = f.Number(FloatAttr(e.node(), "alpha", 0), x);
    const ValueId v_new = f.Add(f.Mul(alpha, v), f.Mul(beta, g));
    const ValueId step = mode == "standard" ? v_new : f.Add(g, f.Mul(alpha, v_new));
    WEFT_TRY(f.Finish(f.Sub(x, f.Mul(r, step)), i));
    WEFT_TRY(f.Finish(v_new, count + i));
  }
  return {};
}

}  // namespace

Expander FindTraining(std::string_view op) {
  if (op == "Adagrad") return ExpandAdagrad;
  if (op == "Adam") return ExpandAdam;
  if (op == "Momentum") return ExpandMomentum;
  return nullptr;
}

}  // namespace weft::graph
