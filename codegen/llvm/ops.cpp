#include "codegen/llvm/ops.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"

namespace weft::codegen {

using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

bool IsSigned(Dtype dtype) { return KindOf(dtype) == DtypeKind::kSigned; }

// A constant, or that of which a vector of constants is made; null for anything else.
llvm::Constant* ConstantOf(Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  return constant && constant->getType()->isVectorTy() ? constant->getSplatValue() : constant;
}

// A floating-point constant (or a vector of one) that is not a NaN.
bool IsNumber(Value* value) {
  const auto* fp = llvm::dyn_cast_or_null<llvm::ConstantFP>(ConstantOf(value));
  return fp && !fp->isNaN();
}

llvm::Constant* TableOf(std::span<Value* const> literals) {
  llvm::SmallVector<llvm::Constant*> values;
  for (Value* literal : literals) values.push_back(ConstantOf(literal));
  return llvm::ConstantVector::get(values);
}

}  // namespace

Type* Ops::RegisterType(Dtype dtype) const {
  if (dtype == Dtype::kBool) return b_.getInt1Ty();
  if (dtype == Dtype::kF64) return b_.getDoubleTy();
  if (IsFloat(dtype)) return b_.getFloatTy();
  return b_.getIntNTy(static_cast<unsigned>(SizeBytes(dtype)) * 8);  // four bits: i8
}

Type* Ops::MemoryType(Dtype dtype) const {
  if (dtype == Dtype::kF32 || dtype == Dtype::kF64) return RegisterType(dtype);
  return b_.getIntNTy(static_cast<unsigned>(SizeBytes(dtype)) * 8);
}

Type* Ops::Like(Type* element, Value* shape) const {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape->getType());
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

llvm::Constant* Ops::IntOf(Value* like, int64_t value) const {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value), true);
}

Value* Ops::FromMemory(Dtype dtype, Value* value) {
  if (dtype == Dtype::kBool) return b_.CreateICmpNE(value, IntOf(value, 0));
  return IsHalf(dtype) ? FloatOf16(dtype, value) : value;
}

Value* Ops::ToMemory(Dtype dtype, Value* value) {
  if (dtype == Dtype::kBool) return b_.CreateZExt(value, Like(b_.getInt8Ty(), value));
  return IsHalf(dtype) ? BitsOf16(dtype, value) : value;
}

llvm::Constant* Ops::Literal(Dtype dtype, Scalar value) const {
  Type* type = RegisterType(dtype);
  if (dtype == Dtype::kF64)
    return llvm::ConstantFP::get(type->getContext(), llvm::APFloat(value.f64));
  if (IsFloat(dtype)) return llvm::ConstantFP::get(type->getContext(), llvm::APFloat(value.f32));
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.i), true);
}

Value* Ops::Emit(ScalarOp op, Dtype operand, Dtype result, std::span<Value* const> args) {
  switch (op) {
    case ScalarOp::kSelect:
      return Select(args[0], args[1], args[2]);
    case ScalarOp::kCast:
      return Cast(operand, result, args[0]);
    case ScalarOp::kBitcast:
      return Bitcast(operand, result, args[0]);
    case ScalarOp::kIsNan:
      return b_.CreateFCmpUNO(args[0], args[0]);
    case ScalarOp::kPick:
      return Pick(args[0], TableOf(args.subspan(1)));
    case ScalarOp::kAnd:
      return b_.CreateAnd(args[0], args[1]);
    case ScalarOp::kOr:
      return b_.CreateOr(args[0], args[1]);
    case ScalarOp::kNot:
      return b_.CreateNot(args[0]);
    default:
      break;
  }
  if (IsCompare(op)) return Compare(op, operand, args[0], args[1]);
  return IsFloat(operand) ? FloatOp(op, operand, args) : IntOp(op, operand, args);
}

Value* Ops::Select(Value* condition, Value* yes, Value* no) {
  return b_.CreateSelect(llvm::isa<llvm::CallBase>(yes) ? InMaskRegister(condition) : condition,
                         yes, no);
}

// LLVM takes a choice by constant lanes for a shuffle, and then an operation masked by them is two
// instructions. So it does not get to see what the lanes are.
Value* Ops::InMaskRegister(Value* mask) {
  constexpr unsigned kFewest = 8;  // lanes, one a bit of the smallest mask
  const auto* lanes = llvm::dyn_cast<llvm::ConstantVector>(mask);
  if (!mask_registers_ || !lanes || lanes->getSplatValue()) return mask;
  const unsigned width = lanes->getNumOperands();
  if (width < kFewest) return mask;
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  Value*& known = masks_[{function, mask}];
  if (known) return known;
  llvm::APInt bits(width, 0);
  for (unsigned lane = 0; lane < width; ++lane)
    bits.setBitVal(lane, lanes->getOperand(lane)->isOneValue());
  llvm::IRBuilder<>::InsertPointGuard back(b_);
  b_.SetInsertPoint(&function->getEntryBlock(), function->getEntryBlock().getFirstInsertionPt());
  Type* integer = b_.getIntNTy(width);
  auto* same = llvm::InlineAsm::get(llvm::FunctionType::get(integer, {integer}, false), "", "=r,0",
                                    /*hasSideEffects=*/false);
  Value* hidden = b_.CreateCall(same, {llvm::ConstantInt::get(integer, bits)});
  return known = b_.CreateBitCast(hidden, mask->getType());
}

Value* Ops::Compare(ScalarOp op, Dtype dtype, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  struct Predicates {
    P on_float, on_signed, on_unsigned;
  };
  constexpr Predicates kPredicates[] = {
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE}};
  const Predicates& p = kPredicates[static_cast<size_t>(op) - static_cast<size_t>(ScalarOp::kLt)];
  return b_.CreateCmp(IsFloat(dtype)    ? p.on_float
                      : IsSigned(dtype) ? p.on_signed
                                        : p.on_unsigned,
                      a, b);
}

Value* Ops::FloatOp(ScalarOp op, Dtype dtype, std::span<Value* const> args) {
  Value *a = args[0], *b = args.back(), *result = nullptr;
  const auto unary = [&](ID id) { return b_.CreateUnaryIntrinsic(id, a); };
  switch (op) {  // the first group gives a value that 16 bits can hold if they held the operands
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
      return FloatMinMax(op, a, b);
    case ScalarOp::kNeg:
      return b_.CreateFNeg(a);
    case ScalarOp::kAbs:
      return unary(llvm::Intrinsic::fabs);
    case ScalarOp::kFloor:
      return unary(llvm::Intrinsic::floor);
    case ScalarOp::kCeil:
      return unary(llvm::Intrinsic::ceil);
    case ScalarOp::kTrunc:
      return unary(llvm::Intrinsic::trunc);
    case ScalarOp::kRound:
      return unary(llvm::Intrinsic::roundeven);
    case ScalarOp::kAdd:
      result = b_.CreateFAdd(a, b);
      break;
    case ScalarOp::kSub:
      result = b_.CreateFSub(a, b);
      break;
    case ScalarOp::kMul:
      result = b_.CreateFMul(a, b);
      break;
    case ScalarOp::kDiv:
      result = b_.CreateFDiv(a, b);
      break;
    case ScalarOp::kTruncDiv:
      result = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(a, b));
      break;
    case ScalarOp::kMod:
    case ScalarOp::kRem:
      result = FloatRemainder(op, a, b);
      break;
    case ScalarOp::kSqrt:
      result = unary(llvm::Intrinsic::sqrt);
      break;
    case ScalarOp::kFma:
      result = b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, args[1], b});
      break;
    case ScalarOp::kFmaFlush:
      return FmaFlush(a, args[1], b);
    case ScalarOp::kAddFlush:
      return Flush(b_.CreateFAdd(Flush(a), Flush(b)));
    case ScalarOp::kLdexp:
      return Ldexp(a, b);
    default:
      WEFT_UNREACHABLE();
  }
  return IsHalf(dtype) ? RoundTo16(dtype, result) : result;
}

Value* Ops::AddPairs(Value* sum, Value* a, Value* b) {
  using namespace llvm;
  constexpr unsigned kFewest = 4;  // lanes of a register
  auto* type = dyn_cast<FixedVectorType>(sum->getType());
  const unsigned lanes = type ? type->getNumElements() : 1;
  const auto widened = [&](Value* value) {
    if (lanes == 1 && !type) return b_.CreateVectorSplat(kFewest, value);
    const int places[] = {0, 1, lanes > 2 ? 2 : 0, 0};
    return lanes < kFewest ? b_.CreateShuffleVector(value, places) : value;
  };
  const unsigned width = std::max(lanes, kFewest);
  auto* pairs = FixedVectorType::get(b_.getBFloatTy(), 2 * width);
  const ID id = width == 16  ? Intrinsic::x86_avx512bf16_dpbf16ps_512
                : width == 8 ? Intrinsic::x86_avx512bf16_dpbf16ps_256
                             : Intrinsic::x86_avx512bf16_dpbf16ps_128;
  Value* next = b_.CreateIntrinsic(
      id, {},
      {widened(sum), b_.CreateBitCast(widened(a), pairs), b_.CreateBitCast(widened(b), pairs)});
  if (lanes >= kFewest) return next;
  if (!type) return b_.CreateExtractElement(next, uint64_t{0});
  const int places[] = {0, 1, 2};
  return b_.CreateShuffleVector(next, ArrayRef(places, lanes));
}

// The lower half of a pair whose upper half adds nothing, not even to a zero of either sign: -0.
Value* Ops::FmaFlush(Value* a, Value* b, Value* sum) {
  Type* bits = Like(b_.getInt32Ty(), sum);
  const auto lower = [&](Value* value) {
    return b_.CreateLShr(b_.CreateBitCast(value, bits), uint64_t{16});
  };
  Value* minus_zero = llvm::ConstantInt::get(bits, uint64_t{1} << 31);
  return AddPairs(sum, b_.CreateOr(lower(a), minus_zero), lower(b));
}

// f32, subnormal numbers as zeros of their sign.
Value* Ops::Flush(Value* a) {
  Type* integer = Like(b_.getInt32Ty(), a);
  const auto constant = [&](uint32_t mask) { return llvm::ConstantInt::get(integer, mask); };
  Value *bits = b_.CreateBitCast(a, integer),
        *tiny = b_.CreateICmpEQ(b_.CreateAnd(bits, constant(0x7F800000)), constant(0)),
        *zero = b_.CreateBitCast(b_.CreateAnd(bits, constant(0x80000000)), a->getType());
  return b_.CreateSelect(tiny, zero, a);
}

// In two factors: the first product is exact, so that the second rounds once wherever it lands.
// Added to a number whose last bit is worth 1, b and twice the bias are the low bits of the sum;
// their halves are the exponent fields of the factors, and what lies above them is shifted out.
Value* Ops::Ldexp(Value* a, Value* b) {
  if (mask_registers_) return Scalef(a, b);
  const bool wide = a->getType()->getScalarType()->isDoubleTy();
  const double magic = wide ? 0x1.8p52 + 2 * 1023 : 0x1.8p23 + 2 * 127;
  Type* integer = Like(wide ? b_.getInt64Ty() : b_.getInt32Ty(), a);
  Value* whole = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b);
  Value* sum = b_.CreateFAdd(whole, llvm::ConstantFP::get(b->getType(), magic));
  Value *bits = b_.CreateBitCast(sum, integer), *half = b_.CreateAShr(bits, uint64_t{1});
  const auto power = [&](Value* field) {
    return b_.CreateBitCast(b_.CreateShl(field, uint64_t{wide ? 52U : 23U}), a->getType());
  };
  return b_.CreateFMul(b_.CreateFMul(a, power(half)), power(b_.CreateSub(bits, half)));
}

// VSCALEF of AVX-512, register by register.
Value* Ops::Scalef(Value* a, Value* b) {
  using namespace llvm;
  const bool wide = a->getType()->getScalarType()->isDoubleTy();
  auto* type = dyn_cast<FixedVectorType>(a->getType());
  if (!type) {
    constexpr uint64_t kFirst = 0;
    const auto alone = [&](Value* x) { return b_.CreateVectorSplat(2, x); };
    return b_.CreateExtractElement(Scalef(alone(a), alone(b)), kFirst);
  }
  constexpr ID kSingle[] = {Intrinsic::x86_avx512_mask_scalef_ps_128,
                            Intrinsic::x86_avx512_mask_scalef_ps_256,
                            Intrinsic::x86_avx512_mask_scalef_ps_512};
  constexpr ID kDouble[] = {Intrinsic::x86_avx512_mask_scalef_pd_128,
                            Intrinsic::x86_avx512_mask_scalef_pd_256,
                            Intrinsic::x86_avx512_mask_scalef_pd_512};
  const unsigned lanes = type->getNumElements(), least = wide ? 2 : 4;
  const unsigned width = std::clamp(std::bit_ceil(lanes), least, 4 * least);  // of a register
  const auto kind = static_cast<size_t>(std::countr_zero(width / least));
  SmallVector<Value*> parts;
  for (unsigned at = 0; at < lanes; at += width) {
    SmallVector<int> places(width, -1);
    for (unsigned k = 0; k < width && at + k < lanes; ++k) places[k] = static_cast<int>(at + k);
    Value* part = b_.CreateShuffleVector(a, places);
    SmallVector<Value*> args = {part, b_.CreateShuffleVector(b, places), part,
                                b_.getIntN(width == 16 ? 16 : 8, ~uint64_t{0})};
    if (kind == 2) args.push_back(b_.getInt32(4));  // rounds as the mode says
    parts.push_back(b_.CreateIntrinsic((wide ? kDouble : kSingle)[kind], {}, args));
  }
  SmallVector<int> all(lanes);
  std::iota(all.begin(), all.end(), 0);
  return b_.CreateShuffleVector(concatenateVectors(b_, parts), all);
}

// VPERMPS of AVX-512, register by register, which looks at no other bits of an index; else, and for
// one value alone, a load from a table.
Value* Ops::Pick(Value* number, llvm::Constant* table) {
  using namespace llvm;
  constexpr unsigned kCount = 16;
  auto* type = dyn_cast<FixedVectorType>(number->getType());
  if (!type || !mask_registers_) return Load(number, table);
  const unsigned lanes = type->getNumElements();
  SmallVector<Value*> parts;
  for (unsigned at = 0; at < lanes; at += kCount) {
    SmallVector<int> places(kCount, -1);
    for (unsigned k = 0; k < kCount && at + k < lanes; ++k) places[k] = static_cast<int>(at + k);
    parts.push_back(b_.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {},
                                       {table, b_.CreateShuffleVector(number, places)}));
  }
  SmallVector<int> all(lanes);
  std::iota(all.begin(), all.end(), 0);
  return b_.CreateShuffleVector(concatenateVectors(b_, parts), all);
}

Value* Ops::Load(Value* number, llvm::Constant* table) {
  using namespace llvm;
  GlobalVariable*& known = tables_[table];
  if (!known) {
    known = new GlobalVariable(module_, table->getType(), /*isConstant=*/true,
                               GlobalValue::PrivateLinkage, table, "table");
    known->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  }
  Type* element = table->getType()->getScalarType();
  const auto one = [&](Value* index) {
    Value* at = b_.CreateZExt(b_.CreateAnd(index, uint64_t{15}), b_.getInt64Ty());
    return b_.CreateLoad(element, b_.CreateInBoundsGEP(element, known, at));
  };
  auto* type = dyn_cast<FixedVectorType>(number->getType());
  if (!type) return one(number);
  Value* found = PoisonValue::get(FixedVectorType::get(element, type->getNumElements()));
  for (uint64_t k = 0; k < type->getNumElements(); ++k)
    found = b_.CreateInsertElement(found, one(b_.CreateExtractElement(number, k)), k);
  return found;
}

// The select of an ordered comparison is one minps or maxps, which gives the operand that it does
// not ask for on equality and on a NaN in either. A NaN in the other one is mended by a second
// select, unless that is a literal.
Value* Ops::FloatMinMax(ScalarOp op, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  const bool least = op == ScalarOp::kMin || op == ScalarOp::kFMin;
  const bool propagates = op == ScalarOp::kMin || op == ScalarOp::kMax;
  Value *asked = propagates ? b : a, *other = propagates ? a : b;
  Value* chosen =
      b_.CreateSelect(b_.CreateFCmp(least ? P::FCMP_OLT : P::FCMP_OGT, asked, other), asked, other);
  if (IsNumber(b)) return chosen;
  return b_.CreateSelect(b_.CreateFCmpUNO(b, b), propagates ? b : a, chosen);
}

Value* Ops::FloatRemainder(ScalarOp op, Value* a, Value* b) {
  const bool lanes = a->getType()->isVectorTy();
  Value* r =
      lanes ? RemainderOfLanes(a, b) : b_.CreateCall(FmodFunction(module_, a->getType()), {a, b});
  if (op == ScalarOp::kRem) return r;
  Value* zero = llvm::ConstantFP::get(a->getType(), 0.0);
  Value* differ = b_.CreateXor(b_.CreateFCmpOLT(r, zero), b_.CreateFCmpOLT(b, zero));
  Value* moved = b_.CreateSelect(differ, b_.CreateFAdd(r, b), r);
  Value* signed_zero = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, b);
  return b_.CreateSelect(b_.CreateFCmpOEQ(r, zero), signed_zero, moved);
}

// C's fmod where the quotient is a number that a double holds to the unit and a little more, so
// that the rounded one is too large by at most 1: then a - n b is exact, and of the wrong sign if
// it is. If there are other lanes, all are divided one by one.
Value* Ops::RemainderOfLanes(Value* a, Value* b) {
  using namespace llvm;
  auto* type = cast<FixedVectorType>(a->getType());
  Type* wide = VectorType::get(b_.getDoubleTy(), type->getElementCount());
  const auto unary = [&](ID id, Value* x) { return b_.CreateUnaryIntrinsic(id, x); };
  const auto as = [&](Type* to, Value* x) { return b_.CreateFPCast(x, to); };
  Value *x = as(wide, a), *y = as(wide, b), *zero = ConstantFP::get(wide, 0.0);
  Value* n = unary(Intrinsic::trunc, b_.CreateFDiv(x, y));
  Value* rest = b_.CreateIntrinsic(Intrinsic::fma, {wide}, {b_.CreateFNeg(n), y, x});
  Value* crosses =
      b_.CreateOr(b_.CreateAnd(b_.CreateFCmpOLT(rest, zero), b_.CreateFCmpOGT(x, zero)),
                  b_.CreateAnd(b_.CreateFCmpOGT(rest, zero), b_.CreateFCmpOLT(x, zero)));
  Value* once = b_.CreateBinaryIntrinsic(Intrinsic::copysign, unary(Intrinsic::fabs, y), x);
  rest = b_.CreateSelect(crosses, b_.CreateFAdd(rest, once), rest);
  Value* quick = as(type, b_.CreateBinaryIntrinsic(Intrinsic::copysign, rest, x));
  Value* known =
      b_.CreateAnd(b_.CreateFCmpOLT(unary(Intrinsic::fabs, n), ConstantFP::get(wide, 0x1p52)),
                   b_.CreateFCmpOLT(unary(Intrinsic::fabs, y), ConstantFP::getInfinity(wide)));

  Function* function = b_.GetInsertBlock()->getParent();
  BasicBlock *before = b_.GetInsertBlock(),
             *slow = BasicBlock::Create(b_.getContext(), "rem", function),
             *after = BasicBlock::Create(b_.getContext(), "after_rem", function);
  b_.CreateCondBr(b_.CreateAndReduce(known), after, slow,
                  MDBuilder(b_.getContext()).createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(slow);
  Value* one_by_one = PoisonValue::get(type);
  Function* fmod = FmodFunction(module_, type->getElementType());
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    Value* of_lane =
        b_.CreateCall(fmod, {b_.CreateExtractElement(a, lane), b_.CreateExtractElement(b, lane)});
    one_by_one = b_.CreateInsertElement(one_by_one, of_lane, lane);
  }
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  PHINode* r = b_.CreatePHI(type, 2);
  r->addIncoming(quick, before);
  r->addIncoming(one_by_one, slow);
  return r;
}

Value* Ops::IntOp(ScalarOp op, Dtype dtype, std::span<Value* const> args) {
  Value *a = args[0], *b = args.back();
  const bool is_signed = IsSigned(dtype);
  switch (op) {
    case ScalarOp::kAdd:
      return b_.CreateAdd(a, b);
    case ScalarOp::kSub:
      return b_.CreateSub(a, b);
    case ScalarOp::kMul:
      return b_.CreateMul(a, b);
    case ScalarOp::kFma:
      return b_.CreateAdd(b_.CreateMul(a, args[1]), b);
    case ScalarOp::kDiv:
    case ScalarOp::kMod:
    case ScalarOp::kTruncDiv:
    case ScalarOp::kRem:
      return IntDivide(op, is_signed, a, b);
    case ScalarOp::kMin:
    case ScalarOp::kFMin:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a,
                                      b);
    case ScalarOp::kMax:
    case ScalarOp::kFMax:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a,
                                      b);
    case ScalarOp::kNeg:
      return b_.CreateNeg(a);
    case ScalarOp::kAbs:
      return is_signed ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getFalse()) : a;
    case ScalarOp::kBitAnd:
      return b_.CreateAnd(a, b);
    case ScalarOp::kBitOr:
      return b_.CreateOr(a, b);
    case ScalarOp::kBitXor:
      return b_.CreateXor(a, b);
    case ScalarOp::kBitNot:
      return b_.CreateNot(a);
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return IntShift(op, is_signed, a, b);
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRound:
      return a;
    default:
      WEFT_UNREACHABLE();
  }
}

// No vector of integers divides, but floats do, and a quotient of integers of half as many bits as
// the fraction has, truncated, is theirs: a / b is at least 1 / b away from the next integer.
Value* Ops::IntQuotient(bool is_signed, Value* a, Value* divisor) {
  const unsigned bits = a->getType()->getScalarSizeInBits();
  if (!a->getType()->isVectorTy() || bits > 32 || llvm::isa<llvm::Constant>(divisor))
    return is_signed ? b_.CreateSDiv(a, divisor) : b_.CreateUDiv(a, divisor);
  llvm::Type* real = Like(bits > 16 ? b_.getDoubleTy() : b_.getFloatTy(), a);
  const auto to_real = [&](Value* n) {
    return is_signed ? b_.CreateSIToFP(n, real) : b_.CreateUIToFP(n, real);
  };
  Value* q = b_.CreateFDiv(to_real(a), to_real(divisor));
  return is_signed ? b_.CreateFPToSI(q, a->getType()) : b_.CreateFPToUI(q, a->getType());
}

// Total: x / 0 = x % 0 = 0, and the least integer over -1 wraps, since the machine divides by 1
// there.
Value* Ops::IntDivide(ScalarOp op, bool is_signed, Value* a, Value* b) {
  const bool quotient = op == ScalarOp::kDiv || op == ScalarOp::kTruncDiv;
  Value *zero = IntOf(b, 0), *by_zero = b_.CreateICmpEQ(b, zero);
  Value* minus_one = b_.CreateICmpEQ(b, IntOf(b, -1));
  Value* special = is_signed ? b_.CreateOr(by_zero, minus_one) : by_zero;
  Value* divisor = b_.CreateSelect(special, IntOf(b, 1), b);
  Value* q = IntQuotient(is_signed, a, divisor);
  Value* r = b_.CreateSub(a, b_.CreateMul(q, divisor));
  if (!is_signed) return b_.CreateSelect(by_zero, zero, quotient ? q : r);
  if (op == ScalarOp::kDiv || op == ScalarOp::kMod) {  // towards minus infinity
    Value* opposite = b_.CreateICmpSLT(b_.CreateXor(r, divisor), zero);
    Value* inexact = b_.CreateAnd(b_.CreateICmpNE(r, zero), opposite);
    q = b_.CreateSelect(inexact, b_.CreateSub(q, IntOf(q, 1)), q);
    r = b_.CreateSelect(inexact, b_.CreateAdd(r, divisor), r);
  }
  q = b_.CreateSelect(minus_one, b_.CreateNeg(a), q);
  return b_.CreateSelect(by_zero, zero, quotient ? q : r);
}

Value* Ops::IntShift(ScalarOp op, bool is_signed, Value* a, Value* by) {
  const int64_t bits = a->getType()->getScalarSizeInBits();
  if (op == ScalarOp::kShr && is_signed) {
    return b_.CreateAShr(a,
                         b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, by, IntOf(by, bits - 1)));
  }
  Value* fits = b_.CreateICmpULT(by, IntOf(by, bits));
  Value* amount = b_.CreateSelect(fits, by, IntOf(by, 0));
  Value* shifted = op == ScalarOp::kShl ? b_.CreateShl(a, amount) : b_.CreateLShr(a, amount);
  return b_.CreateSelect(fits, shifted, IntOf(a, 0));
}

}  // namespace weft::codegen
