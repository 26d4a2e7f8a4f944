// The expansions, and what they share. Each works in the type of its argument unless it says
// otherwise.
#pragma once

#include "polyhedral/loops/math_value.h"

namespace weft::loops {

// What the exponent arithmetic of a float type needs to know.
struct FloatFormat {
  int64_t fraction_bits, bias;
  double magic;  // 1.5 * 2^fraction_bits: adding it leaves the nearest integer in the low bits
  int64_t magic_bits;
  double ln2_hi, ln2_lo;          // ln2_hi is of the type, ln2_lo the rest
  int64_t sqrt_half_bits;         // of sqrt(1/2)
  double least_normal, scale_up;  // smaller ones are multiplied by scale_up = 2^scale_bits first
  double scale_bits;
};
const FloatFormat& FormatOf(Value x);
bool GoesByPieces(Value x);  // f32, where the nest has_pick

// exp(x) = 2^n (1 + p), n an integer of x's width. x must be in a range where n fits the exponent
// twice over.
struct ExpParts {
  Value n, p;
};
ExpParts SplitExp(Value x);
ExpParts SplitExp(Value x, Value tail);  // of x + tail, tail tiny
Value PowerOfTwo(Value n);               // for a normal result
// Whether exp(x) would be subnormal. In f32 the nearest number to -126 ln 2 is below it.
Value Vanishes(Value x);
Value IntToFloat(Value n);  // |n| small

// The sign bit of `sign` on a non-negative magnitude.
Value WithSign(Value magnitude, Value sign);
// a = f * 2^k with f in [sqrt(1/2), sqrt(2)), of a positive finite x. k is a float.
struct LogParts {
  Value f, k;
};
LogParts SplitLog(Value x);

Value Exp(Value x, bool at_most_zero = false);
Value Expm1(Value x);
Value Sigmoid(Value x);
Value Tanh(Value x);
Value Sinh(Value x);
Value Cosh(Value x);
Value Log(Value x);
Value Log1p(Value x);
Value Erf(Value x);
// Of f32, by kPick: see math_pieces.cpp.
Value ErfByPieces(Value x);
Value ExpByPieces(Value x, bool at_most_zero);
Value SigmoidByPieces(Value x);
Value TanhByPieces(Value x);
Value SinCos(Value x, bool cosine);
Value Asin(Value x);
Value Acos(Value x);
Value Atan(Value x);
// f64:
Value Pow(Value x, Value y);
Value Asinh(Value x);
Value Acosh(Value x);
Value Atanh(Value x);
Value Tan(Value x);

}  // namespace weft::loops
