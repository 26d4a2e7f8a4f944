// Arithmetic on expressions with operators, so that an expansion reads as a formula.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {

// An expression of f32, f64, i32, i64 or bool in a nest. Copies are the same expression.
class Value {
 public:
  Value(LoopNest& nest, ExprId id) : nest_(&nest), id_(id) {}
  ExprId id() const { return id_; }
  const LoopNest& nest() const { return *nest_; }
  Dtype dtype() const { return (*nest_)[id_].dtype; }

  // A literal of this value's type.
  Value Of(double value) const { return {*nest_, AddLiteral(*nest_, dtype(), value)}; }
  Value Op(ScalarOp op, Dtype result, std::initializer_list<Value> others) const;
  Value Cast(Dtype to) const { return Op(ScalarOp::kCast, to, {}); }
  // Between a float and the integer of its width.
  Value Bits() const {
    return Op(ScalarOp::kBitcast, dtype() == Dtype::kF32 ? Dtype::kI32 : Dtype::kI64, {});
  }
  Value Real() const {
    return Op(ScalarOp::kBitcast, dtype() == Dtype::kI32 ? Dtype::kF32 : Dtype::kF64, {});
  }

  void SetInt(int64_t value) { nest_->exprs[id_.index].literal.i = value; }  // of a fresh literal

 private:
  friend Value Pick(Value number, std::span<const float> literals);
  LoopNest* nest_;
  ExprId id_;
};

// An integer literal of the type of `like`, exact in all 64 bits.
Value IntLiteral(const Value& like, int64_t value);

inline Value operator+(Value a, Value b) { return a.Op(ScalarOp::kAdd, a.dtype(), {b}); }
inline Value operator-(Value a, Value b) { return a.Op(ScalarOp::kSub, a.dtype(), {b}); }
inline Value operator*(Value a, Value b) { return a.Op(ScalarOp::kMul, a.dtype(), {b}); }
inline Value operator/(Value a, Value b) { return a.Op(ScalarOp::kDiv, a.dtype(), {b}); }
inline Value operator+(Value a, double b) { return a + a.Of(b); }
inline Value operator-(Value a, double b) { return a - a.Of(b); }
inline Value operator*(Value a, double b) { return a * a.Of(b); }
inline Value operator-(Value a) { return a.Op(ScalarOp::kNeg, a.dtype(), {}); }
inline Value operator<(Value a, Value b) { return a.Op(ScalarOp::kLt, Dtype::kBool, {b}); }
inline Value operator<(Value a, double b) { return a < a.Of(b); }
inline Value operator>(Value a, double b) { return a.Op(ScalarOp::kGt, Dtype::kBool, {a.Of(b)}); }
inline Value operator>=(Value a, double b) { return a.Op(ScalarOp::kGe, Dtype::kBool, {a.Of(b)}); }
inline Value operator==(Value a, double b) { return a.Op(ScalarOp::kEq, Dtype::kBool, {a.Of(b)}); }
inline Value operator&&(Value a, Value b) { return a.Op(ScalarOp::kAnd, Dtype::kBool, {b}); }
inline Value operator||(Value a, Value b) { return a.Op(ScalarOp::kOr, Dtype::kBool, {b}); }
inline Value operator!(Value a) { return a.Op(ScalarOp::kNot, Dtype::kBool, {}); }
inline Value Fma(Value a, Value b, Value c) { return a.Op(ScalarOp::kFma, a.dtype(), {b, c}); }
inline Value Fma(Value a, double b, Value c) { return Fma(a, a.Of(b), c); }
inline Value Fma(Value a, Value b, double c) { return Fma(a, b, a.Of(c)); }
inline Value Abs(Value a) { return a.Op(ScalarOp::kAbs, a.dtype(), {}); }
inline Value Ldexp(Value a, Value b) { return a.Op(ScalarOp::kLdexp, a.dtype(), {b}); }
inline Value Round(Value a) { return a.Op(ScalarOp::kRound, a.dtype(), {}); }
inline Value Sqrt(Value a) { return a.Op(ScalarOp::kSqrt, a.dtype(), {}); }
inline Value Select(Value c, Value a, Value b) {
  return c.Op(ScalarOp::kSelect, a.dtype(), {a, b});
}
// Of f32, by the low four bits of an i32.
Value Pick(Value number, std::span<const float> literals);
inline Value Shl(Value a, int64_t by) {
  return a.Op(ScalarOp::kShl, a.dtype(), {IntLiteral(a, by)});
}
inline Value Shr(Value a, int64_t by) {
  return a.Op(ScalarOp::kShr, a.dtype(), {IntLiteral(a, by)});
}
inline Value And(Value a, Value b) { return a.Op(ScalarOp::kBitAnd, a.dtype(), {b}); }
inline Value Or(Value a, Value b) { return a.Op(ScalarOp::kBitOr, a.dtype(), {b}); }
inline Value Xor(Value a, Value b) { return a.Op(ScalarOp::kBitXor, a.dtype(), {b}); }
// The literal second: then one instruction does, see min and max of scalars.
inline Value AtMost(double limit, Value a) {
  return a.Op(ScalarOp::kMin, a.dtype(), {a.Of(limit)});
}
inline Value AtLeast(double limit, Value a) {
  return a.Op(ScalarOp::kMax, a.dtype(), {a.Of(limit)});
}

// c[0] + c[1] x + ... by Horner's rule.
Value Polynomial(Value x, std::span<const double> c);

}  // namespace weft::loops
