#include "polyhedral/loops/math.h"

#include "base/check.h"
#include "polyhedral/loops/math_value.h"

namespace weft::loops {

Value Value::Op(ScalarOp op, Dtype result, std::initializer_list<Value> others) const {
  std::vector<ExprId> args = {id_};
  for (const Value& other : others) args.push_back(other.id());
  return {*nest_, AddOp(*nest_, op, result, std::move(args))};
}

Value IntLiteral(const Value& like, int64_t value) {
  Value literal = like.Of(0);
  literal.SetInt(value);
  return literal;
}

Value Polynomial(Value x, std::span<const double> c) {
  Value sum = x.Of(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(sum, x, c[i]);
  return sum;
}

namespace {

// exp(x) = 2^n (1 + p) with n = round(x / ln 2) and p = exp(x - n ln 2) - 1.
struct ExpParts {
  Value n;  // i32 or i64
  Value p;
};

// x within the range where n fits; a NaN gives a NaN in p.
ExpParts SplitExp(Value x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  constexpr double kMagic = 12582912.0;
  constexpr double kLog2E = 1.44269504088896341, kLn2Hi = 0.693145751953125,
                   kLn2Lo = 1.42860682030941723e-06;
  const Value shifted = Fma(x, kLog2E, x.Of(kMagic));
  const Value n = shifted - kMagic;
  const Value r = Fma(n, -kLn2Lo, Fma(n, -kLn2Hi, x));
  constexpr double kC[] = {0.5,           1.66666672e-1, 4.16664638e-2,
                           8.33337288e-3, 1.39305154e-3, 1.98412698e-4};
  const Value p = Fma(r * r, Polynomial(r, kC), r);
  return {shifted.Bits() - IntLiteral(shifted.Bits(), 0x4b400000), p};
}

// 2^n for a normal result.
Value PowerOfTwo(Value n) { return Shl(n + IntLiteral(n, 127), 23).Real(); }

Value Exp(Value x) {
  const ExpParts e = SplitExp(AtLeast(-104.0, AtMost(89.0, x)));
  // In two factors, so that results beyond the normal range are rounded once.
  const Value half = Shr(e.n, 1);
  return (e.p + 1.0) * PowerOfTwo(half) * PowerOfTwo(e.n - half);
}

Value Sigmoid(Value x) {
  const Value e = Exp(-Abs(x));
  return Select(x >= 0.0, e.Of(1.0), e) / (e + 1.0);
}

// em / (em + 2) with em = exp(2 |x|) - 1.
Value Tanh(Value x) {
  const ExpParts e = SplitExp(AtMost(20.0, Abs(x) * 2.0));
  const Value scale = PowerOfTwo(e.n);
  const Value em = Fma(scale, e.p, scale - 1.0);
  const Value sign = And(x.Bits(), IntLiteral(x.Bits(), INT32_MIN));
  return Or((em / (em + 2.0)).Bits(), sign).Real();
}

}  // namespace

ExprId ExpandMath(LoopNest& nest, ScalarOp op, Dtype dtype, std::span<const ExprId> args) {
  WEFT_CHECK(dtype == Dtype::kF32, "math in {}", DtypeName(dtype));
  const Value x(nest, args[0]);
  switch (op) {
    case ScalarOp::kExp:
      return Exp(x).id();
    case ScalarOp::kSigmoid:
      return Sigmoid(x).id();
    case ScalarOp::kTanh:
      return Tanh(x).id();
    default:
      break;
  }
  WEFT_CHECK(false, "{} has no expansion", ScalarName(op));
}

}  // namespace weft::loops
