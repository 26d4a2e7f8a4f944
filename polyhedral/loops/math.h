// Math functions as primitives: the polynomials that kernels really compute.
//
// AddOp calls ExpandMath for every operation of class Math, so a nest never holds one. The
// expansions (range reduction, Horner polynomials by fma, exponent arithmetic by bit operations)
// are the same for every vector width; exp has forms more, with the same bits, for processors that
// have kLdexp and for arguments that are at most 0. Where a processor has kPick, which looks a
// number up in a register, exp, erf, sigmoid and tanh of f32 go by pieces. NaN, infinities, signed
// zeros and subnormal results are kept.
//
// Largest errors in ulps of the result, over bit patterns from one end of the type to the other,
// which codegen/llvm/math_test.cpp measures and bounds:
//
//   f32   exp 0.94, log 0.80, tanh 2.47, erf 3.35, sigmoid 1.99, expm1 1.33, asin 2.16, acos 1.04,
//         atan 1.52; all others, computed in f64, 0.50; by pieces exp 1.06, tanh 1.54, erf 2.19,
//         sigmoid 3.21
//   f64   exp 0.94, log 0.77, tanh 2.45, erf 1.6, sigmoid 1.95, pow 2.99, asin 3.25; others below 3
//
// sin, cos and tan give NaN from |x| = 2^52 on.
#pragma once

#include <span>

#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {

// op is of class Math and args are of dtype f32 or f64. Returns the expression of its value.
ExprId ExpandMath(LoopNest& nest, ScalarOp op, Dtype dtype, std::span<const ExprId> args);

// Whether an operation of class Math goes by pieces on values of this type where a nest has_pick.
bool HasPieces(ScalarOp op, Dtype dtype);

// exp of an f32 or f64 known to be at most 0, or NaN: the same bits by fewer operations.
ExprId ExpandExpBelowZero(LoopNest& nest, ExprId arg);

}  // namespace weft::loops
