// Math functions as primitives: the polynomials that kernels really compute.
//
// AddOp calls ExpandMath for every operation of class Math, so a nest never holds one. The
// expansions (range reduction, Horner polynomials by fma, exponent arithmetic by bit operations)
// are the same for every vector width and target. Errors against correctly rounded results,
// measured exhaustively for f32 by a test: stated beside each function in math.cpp and in
// docs/performance.md.
#pragma once

#include <span>

#include "polyhedral/loops/loop_nest.h"

namespace weft::loops {

// op is of class Math and args are of dtype f32 or f64. Returns the expression of its value.
ExprId ExpandMath(LoopNest& nest, ScalarOp op, Dtype dtype, std::span<const ExprId> args);

}  // namespace weft::loops
