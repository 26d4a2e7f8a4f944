#include "polyhedral/loops/math.h"

#include "base/check.h"
#include "polyhedral/loops/math_parts.h"

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

Value Pick(Value number, std::span<const float> literals) {
  LoopNest& nest = *number.nest_;
  std::vector<ExprId> args = {number.id()};
  for (const float literal : literals) args.push_back(AddLiteral(nest, Dtype::kF32, literal));
  return {nest, AddOp(nest, ScalarOp::kPick, Dtype::kF32, std::move(args))};
}

Value Polynomial(Value x, std::span<const double> c) {
  Value sum = x.Of(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(sum, x, c[i]);
  return sum;
}

namespace {

Value Expand(ScalarOp op, Value x, Value y) {
  switch (op) {
    case ScalarOp::kExp:
      return Exp(x);
    case ScalarOp::kExpm1:
      return Expm1(x);
    case ScalarOp::kSigmoid:
      return Sigmoid(x);
    case ScalarOp::kTanh:
      return Tanh(x);
    case ScalarOp::kSinh:
      return Sinh(x);
    case ScalarOp::kCosh:
      return Cosh(x);
    case ScalarOp::kLog:
      return Log(x);
    case ScalarOp::kLog1p:
      return Log1p(x);
    case ScalarOp::kErf:
      return Erf(x);
    case ScalarOp::kAsinh:
      return Asinh(x);
    case ScalarOp::kAcosh:
      return Acosh(x);
    case ScalarOp::kAtanh:
      return Atanh(x);
    case ScalarOp::kSin:
      return SinCos(x, false);
    case ScalarOp::kCos:
      return SinCos(x, true);
    case ScalarOp::kTan:
      return Tan(x);
    case ScalarOp::kAsin:
      return Asin(x);
    case ScalarOp::kAcos:
      return Acos(x);
    case ScalarOp::kAtan:
      return Atan(x);
    case ScalarOp::kPow:
      return Pow(x, y);
    default:
      break;
  }
  WEFT_CHECK(false, "{} has no expansion", ScalarName(op));
}

// Those that networks run on every element have f32 forms; the others are rare, and exact by way of
// f64.
bool HasSingle(ScalarOp op) {
  return op == ScalarOp::kExp || op == ScalarOp::kExpm1 || op == ScalarOp::kSigmoid ||
         op == ScalarOp::kTanh || op == ScalarOp::kLog || op == ScalarOp::kLog1p ||
         op == ScalarOp::kErf || op == ScalarOp::kSin || op == ScalarOp::kCos ||
         op == ScalarOp::kAsin || op == ScalarOp::kAcos || op == ScalarOp::kAtan;
}

}  // namespace

bool HasPieces(ScalarOp op, Dtype dtype) {
  const bool single = IsFloat(dtype) && dtype != Dtype::kF64;
  return single && (op == ScalarOp::kExp || op == ScalarOp::kErf || op == ScalarOp::kSigmoid ||
                    op == ScalarOp::kTanh);
}

ExprId ExpandMath(LoopNest& nest, ScalarOp op, Dtype dtype, std::span<const ExprId> args) {
  WEFT_CHECK(dtype == Dtype::kF32 || dtype == Dtype::kF64, "math in {}", DtypeName(dtype));
  Value x(nest, args.front()), y(nest, args.back());
  if (dtype == Dtype::kF64 || HasSingle(op)) return Expand(op, x, y).id();
  return Expand(op, x.Cast(Dtype::kF64), y.Cast(Dtype::kF64)).Cast(Dtype::kF32).id();
}

ExprId ExpandExpBelowZero(LoopNest& nest, ExprId arg) {
  return Exp(Value(nest, arg), /*at_most_zero=*/true).id();
}

}  // namespace weft::loops
