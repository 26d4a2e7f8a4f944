// Conversions between types, to and from 16 bits without a call to a library.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/PatternMatch.h>

#include <bit>
#include <cmath>

#include "base/check.h"
#include "codegen/llvm/ops.h"

namespace weft::codegen {

using llvm::Type;
using llvm::Value;

namespace {

bool IsSigned(Dtype dtype) { return KindOf(dtype) == DtypeKind::kSigned; }

// Whether floats are integers of 16 bits that were cast.
bool AreSmallIntegers(Value* value) {
  using namespace llvm::PatternMatch;
  Value *splat = nullptr, *integer = nullptr;
  if (match(value, m_Shuffle(m_InsertElt(m_Value(), m_Value(splat), m_ZeroInt()), m_Value(),
                             m_ZeroMask())))
    value = splat;
  return (match(value, m_SIToFP(m_Value(integer))) || match(value, m_UIToFP(m_Value(integer)))) &&
         integer->getType()->getScalarSizeInBits() <= 16;
}

}  // namespace

Value* Ops::Cast(Dtype from, Dtype to, Value* value) {
  if (from == to) return value;
  if (IsFloat(from) && !IsFloat(to)) return FloatToInt(to, value);
  Type* type = Like(RegisterType(to), value);
  if (IsFloat(from)) {
    if (from == Dtype::kF64)
      return IsHalf(to) ? RoundTo16(to, RoundToOdd(value)) : b_.CreateFPTrunc(value, type);
    if (to == Dtype::kF64) return b_.CreateFPExt(value, type);
    return IsHalf(to) ? RoundTo16(to, value) : value;
  }
  if (to == Dtype::kBool) return b_.CreateICmpNE(value, IntOf(value, 0));
  const auto loaded = nibbles_.find(value);
  if (loaded != nibbles_.end() && to == Dtype::kF32) return FloatOfNibbles(loaded->second);
  if (SharesBytes(to)) return Wrap(to, b_.CreateIntCast(value, type, IsSigned(from)));
  if (!IsFloat(to)) {
    Value* wide = b_.CreateIntCast(value, type, IsSigned(from));
    const bool keeps = Bits(from) < Bits(to) && (IsSigned(to) || !IsSigned(from));
    if (loaded != nibbles_.end() && keeps) nibbles_.emplace(wide, loaded->second);
    return wide;
  }
  const auto convert = [&](Type* result) {
    return IsSigned(from) ? b_.CreateSIToFP(value, result) : b_.CreateUIToFP(value, result);
  };
  if (!IsHalf(to)) return convert(type);
  if (SizeBytes(from) <= 2) return RoundTo16(to, convert(type));  // exact in f32
  return RoundTo16(to, RoundToOdd(convert(Like(b_.getDoubleTy(), value))));
}

// A cast to numbers of 16 bits of round(x) + zero, or of round(x), as quantizing ends: null for
// anything else. Between 2^23 and 2^24 floats are integers, so adding 1.5 * 2^23 to what is clamped
// before rounds it and leaves the integer in the lowest bits. Rounding and truncating share a unit
// with quotients on many processors.
Value* Ops::RoundedToInt(Dtype to, Value* value) {
  using namespace llvm::PatternMatch;
  constexpr float kIntegers = 0x1.8p23;
  const bool is_signed = IsSigned(to);
  if (Bits(to) > 16 || !value->getType()->getScalarType()->isFloatTy()) return nullptr;
  Value *x = nullptr, *zero = nullptr;
  const auto rounded = m_Intrinsic<llvm::Intrinsic::roundeven>(m_Value(x));
  if (!match(value, rounded)) {
    if (!match(value, m_FAdd(rounded, m_Value(zero)))) return nullptr;
    if (!AreSmallIntegers(zero)) return nullptr;
  }
  Type* type = value->getType();
  const auto real = [&](double number) -> Value* { return llvm::ConstantFP::get(type, number); };
  const double limit = std::ldexp(1.0, static_cast<int>(Bits(to)) - (is_signed ? 1 : 0));
  const auto less_zero = [&](double number) {
    return zero ? b_.CreateFSub(real(number), zero) : real(number);
  };
  Value *low = less_zero(is_signed ? -limit : 0), *high = less_zero(limit - 1);
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOGT(x, low), x, low);  // a NaN: low
  clamped = b_.CreateSelect(b_.CreateFCmpOLT(clamped, high), clamped, high);
  Type* bits = Like(b_.getInt32Ty(), value);
  const auto bits_of = [&](Value* number) { return b_.CreateBitCast(number, bits); };
  // The bits less the zero point's, most often the same in all iterations.
  Value* offset = bits_of(zero ? b_.CreateFSub(real(kIntegers), zero) : real(kIntegers));
  Value* result = b_.CreateSub(bits_of(b_.CreateFAdd(clamped, real(kIntegers))), offset);
  if (is_signed) result = b_.CreateSelect(b_.CreateFCmpUNO(x, x), IntOf(result, 0), result);
  return b_.CreateTrunc(result, Like(RegisterType(to), value));
}

// Truncates, saturates, NaN = 0: clamped first, as LLVM's own saturating conversions go lane by
// lane.
Value* Ops::FloatToInt(Dtype to, Value* value) {
  if (to == Dtype::kBool)
    return b_.CreateFCmpUNE(value, llvm::ConstantFP::get(value->getType(), 0.0));
  if (Value* rounded = RoundedToInt(to, value)) return rounded;
  const bool is_signed = IsSigned(to), is_double = value->getType()->getScalarType()->isDoubleTy();
  const auto bits = static_cast<int>(Bits(to));
  const auto real = [&](double x) { return llvm::ConstantFP::get(value->getType(), x); };
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // one above the largest
  const bool exact = bits <= (is_double ? 32 : 16);                   // the largest is a float
  const double below = is_double ? std::nextafter(limit, 0) : std::nextafterf(limit, 0);
  Value *low = real(is_signed ? -limit : 0), *high = real(exact ? limit - 1 : below);
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOGT(value, low), value, low);  // a NaN: low
  clamped = b_.CreateSelect(b_.CreateFCmpOLT(clamped, high), clamped, high);
  Type* type = Like(RegisterType(to), value);
  Type* carrier = bits < 32 ? Like(b_.getInt32Ty(), value) : type;
  Value* result = is_signed || bits < 32 ? b_.CreateFPToSI(clamped, carrier)
                                         : b_.CreateFPToUI(clamped, carrier);
  if (!exact) {
    const llvm::APInt most =
        is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    result = b_.CreateSelect(b_.CreateFCmpOGE(value, real(limit)),
                             llvm::ConstantInt::get(carrier, most), result);
  }
  if (is_signed) result = b_.CreateSelect(b_.CreateFCmpUNO(value, value), IntOf(result, 0), result);
  return b_.CreateTrunc(result, type);
}

// The low four bits of each byte as a number.
Value* Ops::Wrap(Dtype dtype, Value* bytes) {
  Value* low = b_.CreateAnd(bytes, IntOf(bytes, 15));
  if (!IsSigned(dtype)) return low;
  return b_.CreateSub(b_.CreateXor(low, IntOf(bytes, 8)), IntOf(bytes, 8));
}

Value* Ops::FromNibbles(Dtype dtype, Value* lanes, int64_t at) {
  Value* low = b_.CreateLShr(lanes, IntOf(lanes, at));
  Value* bytes = Wrap(dtype, b_.CreateTrunc(low, Like(b_.getInt8Ty(), lanes)));
  nibbles_[bytes] = {dtype, lanes, at};
  return bytes;
}

// A table of 16 floats fits one register of AVX-512, and VPERMPS asks for the low four bits only:
// a shift and a permutation, which share two ports. Or, without a shift where they lie below the
// exponent: the bits are those of a float of which the lowest has the value 1, and what else it has
// is subtracted, which is exact. Half of them each way keeps more ports busy.
Value* Ops::FloatOfNibbles(const Nibbles& nibbles) {
  constexpr int64_t kFraction = 23, kHighest = 16, kShift = 12;
  Type* f32 = Like(b_.getFloatTy(), nibbles.lanes);
  const int64_t sign = IsSigned(nibbles.dtype) ? 8 : 0;
  const auto shifted = [&](int64_t by) {
    return b_.CreateLShr(nibbles.lanes, IntOf(nibbles.lanes, by));
  };
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(nibbles.lanes->getType());
  const bool by_table = nibbles.at == 0 || nibbles.at > kHighest;
  if (mask_registers_ && vector && vector->getNumElements() == 16 && by_table) {
    llvm::SmallVector<llvm::Constant*, 16> table;
    for (int64_t i = 0; i < 16; ++i)
      table.push_back(
          llvm::ConstantFP::get(b_.getFloatTy(), static_cast<double>(i >= 8 ? i - 2 * sign : i)));
    return Pick(shifted(nibbles.at), llvm::ConstantVector::get(table));
  }
  const int64_t at = nibbles.at > kHighest ? nibbles.at - kShift : nibbles.at;
  Value* lanes = shifted(nibbles.at - at);
  const auto base = static_cast<float>(int64_t{1} << (kFraction - at));
  const int64_t rest = std::bit_cast<int32_t>(base) | sign << at;  // two's complement as 0 .. 15
  Value* bits =
      b_.CreateXor(b_.CreateAnd(lanes, IntOf(lanes, int64_t{15} << at)), IntOf(lanes, rest));
  return b_.CreateFSub(
      b_.CreateBitCast(bits, f32),
      llvm::ConstantFP::get(f32, static_cast<double>(base) + static_cast<double>(sign)));
}

Value* Ops::Bitcast(Dtype from, Dtype to, Value* value) {
  if (SharesBytes(to)) return Wrap(to, value);
  if (IsHalf(from)) value = BitsOf16(from, value);
  if (IsHalf(to)) return FloatOf16(to, value);
  return b_.CreateBitCast(value, Like(RegisterType(to), value));
}

Value* Ops::RoundTo16(Dtype dtype, Value* value) {
  if (dtype == Dtype::kF16) {
    Value* half = b_.CreateFPTrunc(value, Like(b_.getHalfTy(), value));
    return b_.CreateFPExt(half, value->getType());
  }
  // To nearest even by adding just under half of the last kept bit, and that bit.
  Value* bits = b_.CreateBitCast(value, Like(b_.getInt32Ty(), value));
  Value* last = b_.CreateAnd(b_.CreateLShr(bits, IntOf(bits, 16)), IntOf(bits, 1));
  Value* rounded = b_.CreateAdd(b_.CreateAdd(bits, IntOf(bits, 0x7fff)), last);
  Value* quiet = b_.CreateOr(bits, IntOf(bits, 0x400000));
  Value* kept = b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, rounded);
  return b_.CreateBitCast(b_.CreateAnd(kept, IntOf(bits, ~int64_t{0xffff})), value->getType());
}

// f64 -> f32 with the last bit set if anything was lost, so that rounding to 16 bits does not round
// twice.
Value* Ops::RoundToOdd(Value* value) {
  Value* near = b_.CreateFPTrunc(value, Like(b_.getFloatTy(), value));
  Value* back = b_.CreateFPExt(near, value->getType());
  Value* inexact = b_.CreateFCmpONE(back, value);
  const auto magnitude = [&](Value* v) {
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  };
  Value* away = b_.CreateFCmpOGT(magnitude(back), magnitude(value));
  Value* bits = b_.CreateBitCast(near, Like(b_.getInt32Ty(), value));
  Value* down = b_.CreateSub(bits, b_.CreateZExt(away, bits->getType()));
  Value* odd = b_.CreateOr(down, b_.CreateZExt(inexact, bits->getType()));
  return b_.CreateBitCast(odd, near->getType());
}

Value* Ops::BitsOf16(Dtype dtype, Value* value) {
  Type* i16 = Like(b_.getInt16Ty(), value);
  if (dtype == Dtype::kF16)
    return b_.CreateBitCast(b_.CreateFPTrunc(value, Like(b_.getHalfTy(), value)), i16);
  Value* stored = nullptr;  // what FloatOf16 made of it
  using namespace llvm::PatternMatch;
  if (match(value, m_BitCast(m_Shl(m_ZExt(m_Value(stored)), m_SpecificInt(16)))) &&
      stored->getType() == i16)
    return stored;
  Value* bits = b_.CreateBitCast(value, Like(b_.getInt32Ty(), value));
  return b_.CreateTrunc(b_.CreateLShr(bits, IntOf(bits, 16)), i16);  // exact: the value was rounded
}

Value* Ops::FloatOf16(Dtype dtype, Value* bits) {
  Type* f32 = Like(b_.getFloatTy(), bits);
  if (dtype == Dtype::kF16)
    return b_.CreateFPExt(b_.CreateBitCast(bits, Like(b_.getHalfTy(), bits)), f32);
  Value* wide = b_.CreateZExt(bits, Like(b_.getInt32Ty(), bits));
  return b_.CreateBitCast(b_.CreateShl(wide, IntOf(wide, 16)), f32);
}

}  // namespace weft::codegen
