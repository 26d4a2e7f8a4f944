#include "base/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

Scalar I(int64_t v) {
  Scalar s;
  s.i = v;
  return s;
}
Scalar F(float v) {
  Scalar s;
  s.f32 = v;
  return s;
}
Scalar D(double v) {
  Scalar s;
  s.f64 = v;
  return s;
}

int64_t EvalInt(ScalarOp op, Dtype t, int64_t a, int64_t b) {
  const Scalar args[] = {I(a), I(b)};
  return EvalScalar(op, t, t, {args, static_cast<size_t>(ScalarArity(op))}).i;
}
float EvalF(ScalarOp op, float a, float b) {
  const Scalar args[] = {F(a), F(b)};
  return EvalScalar(op, Dtype::kF32, Dtype::kF32, {args, static_cast<size_t>(ScalarArity(op))}).f32;
}
int64_t CastF(Dtype to, double v) {
  const Scalar args[] = {D(v)};
  return EvalScalar(ScalarOp::kCast, Dtype::kF64, to, args).i;
}

TEST(Scalar, IntegerDivisionIsFloorAndTotal) {
  const Dtype t = Dtype::kI32;
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, t, -7, 2), -4);
  EXPECT_EQ(EvalInt(ScalarOp::kMod, t, -7, 2), 1);
  EXPECT_EQ(EvalInt(ScalarOp::kMod, t, 7, -2), -1);
  EXPECT_EQ(EvalInt(ScalarOp::kTruncDiv, t, -7, 2), -3);
  EXPECT_EQ(EvalInt(ScalarOp::kRem, t, -7, 2), -1);
  for (ScalarOp op : {ScalarOp::kDiv, ScalarOp::kMod, ScalarOp::kTruncDiv, ScalarOp::kRem}) {
    EXPECT_EQ(EvalInt(op, t, 5, 0), 0);
  }
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, t, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, Dtype::kI64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(EvalInt(ScalarOp::kRem, Dtype::kI64, INT64_MIN, -1), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kDiv, Dtype::kU64, -1, 2), INT64_MAX);
}

TEST(Scalar, IntegersWrapAtTheirWidth) {
  EXPECT_EQ(EvalInt(ScalarOp::kAdd, Dtype::kI8, 127, 1), -128);
  EXPECT_EQ(EvalInt(ScalarOp::kAdd, Dtype::kU8, 255, 1), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kMul, Dtype::kI32, 1 << 20, 1 << 20), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kNeg, Dtype::kI64, INT64_MIN, 0), INT64_MIN);
  EXPECT_EQ(EvalInt(ScalarOp::kAbs, Dtype::kI8, -128, 0), -128);
}

TEST(Scalar, ShiftsByTheWidthOrMore) {
  EXPECT_EQ(EvalInt(ScalarOp::kShl, Dtype::kI32, 1, 32), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kShl, Dtype::kU8, 255, 1), 254);
  EXPECT_EQ(EvalInt(ScalarOp::kShr, Dtype::kI32, -8, 1), -4);
  EXPECT_EQ(EvalInt(ScalarOp::kShr, Dtype::kI32, -8, 99), -1);
  EXPECT_EQ(EvalInt(ScalarOp::kShr, Dtype::kU32, 0xFFFFFFFF, 32), 0);
  EXPECT_EQ(EvalInt(ScalarOp::kShl, Dtype::kI32, 1, -1), 0);
}

TEST(Scalar, UnsignedCompares) {
  const Scalar args[] = {I(-1), I(1)};  // the largest u64
  EXPECT_EQ(EvalScalar(ScalarOp::kGt, Dtype::kU64, Dtype::kBool, args).i, 1);
  EXPECT_EQ(EvalScalar(ScalarOp::kGt, Dtype::kI64, Dtype::kBool, args).i, 0);
  EXPECT_EQ(EvalScalar(ScalarOp::kMin, Dtype::kU64, Dtype::kU64, args).i, 1);
}

TEST(Scalar, MinAndMaxPropagateNanAndFminIgnoresIt) {
  const float nan = NAN;
  EXPECT_TRUE(std::isnan(EvalF(ScalarOp::kMin, nan, 1)));
  EXPECT_TRUE(std::isnan(EvalF(ScalarOp::kMax, 1, nan)));
  for (const ScalarOp op : {ScalarOp::kMin, ScalarOp::kMax}) {  // equal: the first one
    EXPECT_TRUE(std::signbit(EvalF(op, -0.0, 0)));
    EXPECT_FALSE(std::signbit(EvalF(op, 0, -0.0)));
  }
  EXPECT_EQ(EvalF(ScalarOp::kFMin, nan, 1), 1);
  EXPECT_EQ(EvalF(ScalarOp::kFMax, 1, nan), 1);
  EXPECT_TRUE(std::isnan(EvalF(ScalarOp::kFMax, nan, nan)));
}

TEST(Scalar, RemaindersOfFloats) {
  EXPECT_EQ(EvalF(ScalarOp::kMod, -7, 2), 1);
  EXPECT_EQ(EvalF(ScalarOp::kRem, -7, 2), -1);
  EXPECT_TRUE(std::isnan(EvalF(ScalarOp::kMod, 1, 0)));
}

TEST(Scalar, CastsTruncateSaturateAndAreTotal) {
  EXPECT_EQ(CastF(Dtype::kI32, -1.9), -1);
  EXPECT_EQ(CastF(Dtype::kI8, 1000), 127);
  EXPECT_EQ(CastF(Dtype::kI8, -1000), -128);
  EXPECT_EQ(CastF(Dtype::kU8, -3), 0);
  EXPECT_EQ(CastF(Dtype::kI64, 1e30), INT64_MAX);
  EXPECT_EQ(CastF(Dtype::kI64, -INFINITY), INT64_MIN);
  EXPECT_EQ(CastF(Dtype::kU64, 1e30), -1);
  EXPECT_EQ(CastF(Dtype::kI32, NAN), 0);
  EXPECT_EQ(CastF(Dtype::kBool, 0.5), 1);
  EXPECT_EQ(CastF(Dtype::kBool, NAN), 1);
}

TEST(Scalar, SixteenBitFloatsRoundOnce) {
  const Scalar args[] = {F(1), F(0.0004F)};
  EXPECT_EQ(EvalScalar(ScalarOp::kAdd, Dtype::kF16, Dtype::kF16, args).f32, 1.0F);
  // Just above the midpoint of two halves, by less than float32 can tell: rounding twice would go
  // down.
  const double above = 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(ScalarOf(Dtype::kF16, above).f32, 1 + std::ldexp(1.0F, -10));
  EXPECT_EQ(ScalarOf(Dtype::kF16, -above).f32, -1 - std::ldexp(1.0F, -10));
  EXPECT_EQ(ScalarOf(Dtype::kBF16, 1e39).f32, std::numeric_limits<float>::infinity());
}

// As VDPBF16PS does it: subnormal operands and results are zeros of their sign, and what counts is
// the result as it would be rounded without an end to the exponent.
TEST(Scalar, FmaFlushTakesSubnormalNumbersForZeros) {
  const auto flush = [](float a, float b, float c) {
    const Scalar args[] = {F(a), F(b), F(c)};
    return EvalScalar(ScalarOp::kFmaFlush, Dtype::kF32, Dtype::kF32, args).f32;
  };
  const auto is_zero = [](float value, bool negative) {
    return value == 0 && std::signbit(value) == negative;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(flush(3, 5, 1), 16);
  EXPECT_EQ(flush(0x1p-130F, 0x1p100F, 1), 1);
  EXPECT_EQ(flush(0x1p100F, 0x1p-130F, 1), 1);
  EXPECT_TRUE(is_zero(flush(-0.0F, 1, -0x1p-130F), true));
  EXPECT_TRUE(is_zero(flush(0x1p-70F, 0x1p-60F, 0), false));
  EXPECT_TRUE(is_zero(flush(-0x1p-70F, 0x1p-60F, 0), true));
  EXPECT_EQ(flush(0x1p-70F, 0x1p-56F, 0), 0x1p-126F);
  EXPECT_TRUE(is_zero(flush(-0x1p-75F, 0x1p-75F, 0x1p-126F), false));  // fma: 2^-126
  EXPECT_TRUE(is_zero(flush(0x1p-75F, 0x1p-75F, -0x1p-126F), true));
  EXPECT_EQ(flush(-0x1p-76F, 0x1p-75F, 0x1p-126F), 0x1p-126F);
  EXPECT_EQ(flush(infinity, 2, -5), infinity);
  EXPECT_TRUE(std::isnan(flush(infinity, 0x1p-130F, 1)));
}

TEST(Scalar, AddFlushTakesSubnormalNumbersForZeros) {
  const auto flush = [](float a, float b) {
    const Scalar args[] = {F(a), F(b)};
    return EvalScalar(ScalarOp::kAddFlush, Dtype::kF32, Dtype::kF32, args).f32;
  };
  EXPECT_EQ(flush(0x1p-126F, 0x1p-127F), 0x1p-126F);
  EXPECT_EQ(flush(0x1.8p-126F, -0x1p-126F), 0);
  EXPECT_TRUE(std::signbit(flush(-0x1.8p-126F, 0x1p-126F)));
  EXPECT_TRUE(std::signbit(flush(-0x1p-130F, -0.0F)));
  EXPECT_FALSE(std::signbit(flush(-0x1p-130F, 0.0F)));
  EXPECT_EQ(flush(0x1p-126F, 0x1p-126F), 0x1p-125F);
  EXPECT_TRUE(std::isnan(flush(INFINITY, -INFINITY)));
}

TEST(Scalar, LdexpRoundsOnce) {
  const auto scaled = [](float a, float b) {
    const Scalar args[] = {F(a), F(b)};
    return EvalScalar(ScalarOp::kLdexp, Dtype::kF32, Dtype::kF32, args).f32;
  };
  EXPECT_EQ(scaled(1.5F, 3), 12);
  EXPECT_EQ(scaled(1.5F, 3.75F), 12);
  EXPECT_EQ(scaled(1.5F, -0.25F), 0.75F);
  EXPECT_EQ(scaled(1.5F, -150), 0x1p-149F);
  EXPECT_EQ(scaled(1.25F, 128), std::numeric_limits<float>::infinity());
  EXPECT_EQ(scaled(-0x1p-149F, 254), -0x1p105F);
  EXPECT_TRUE(std::isnan(scaled(NAN, 1)) && std::isnan(scaled(1, NAN)));
}

TEST(Scalar, PickLooksAtFourBits) {
  std::vector<Scalar> args = {I(0)};
  for (int k = 0; k < 16; ++k) args.push_back(F(static_cast<float>(k)));
  const auto picked = [&](int64_t number) {
    args[0] = I(number);
    return EvalScalar(ScalarOp::kPick, Dtype::kF32, Dtype::kF32, args).f32;
  };
  EXPECT_EQ(picked(0), 0);
  EXPECT_EQ(picked(31), 15);
  EXPECT_EQ(picked(-3), 13);
  EXPECT_EQ(picked(INT32_MIN), 0);
}

TEST(Scalar, EveryTypeStoresWhatItLoads) {
  for (Dtype t :
       {Dtype::kBool, Dtype::kU8, Dtype::kI8, Dtype::kU16, Dtype::kI16, Dtype::kU32, Dtype::kI32,
        Dtype::kU64, Dtype::kI64, Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64}) {
    alignas(8) std::byte memory[16] = {};
    StoreScalar(t, memory, 1, ScalarOf(t, 1));
    EXPECT_EQ(AsDouble(t, LoadScalar(t, memory, 1)), 1) << DtypeName(t);
    EXPECT_EQ(AsDouble(t, LoadScalar(t, memory, 0)), 0) << DtypeName(t);
  }
}

TEST(Scalar, NamesAndClasses) {
  EXPECT_EQ(ParseScalarFunction("fmax"), ScalarOp::kFMax);
  EXPECT_EQ(ParseScalarFunction("+"), std::nullopt);
  EXPECT_TRUE(IsMath(ScalarOp::kPow));
  EXPECT_FALSE(IsMath(ScalarOp::kSqrt));
  EXPECT_TRUE(IsCompare(ScalarOp::kNe));
  EXPECT_FALSE(IsCompare(ScalarOp::kAnd));
}

TEST(Scalar, FourBitsShareBytesAndWrap) {
  uint8_t bytes[] = {0x21, 0xf8};
  EXPECT_EQ(LoadScalar(Dtype::kI4, bytes, 0).i, 1);
  EXPECT_EQ(LoadScalar(Dtype::kI4, bytes, 2).i, -8);
  EXPECT_EQ(LoadScalar(Dtype::kI4, bytes, 3).i, -1);
  EXPECT_EQ(LoadScalar(Dtype::kU4, bytes, 3).i, 15);
  StoreScalar(Dtype::kI4, bytes, 1, I(-3));
  StoreScalar(Dtype::kU4, bytes, 2, I(9));
  EXPECT_EQ(bytes[0], 0xd1);
  EXPECT_EQ(bytes[1], 0xf9);
  EXPECT_EQ(CastF(Dtype::kI4, -8.9), -8);
  EXPECT_EQ(CastF(Dtype::kI4, 1e9), 7);
  EXPECT_EQ(CastF(Dtype::kU4, -1), 0);
  EXPECT_EQ(CastF(Dtype::kU4, 15.5), 15);
  const Scalar wide[] = {I(25)};
  EXPECT_EQ(EvalScalar(ScalarOp::kCast, Dtype::kI32, Dtype::kI4, wide).i, -7);
  EXPECT_EQ(EvalScalar(ScalarOp::kCast, Dtype::kI32, Dtype::kU4, wide).i, 9);
}

}  // namespace
}  // namespace weft
