// C's fmod without a library: binary long division on the significands.
#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/ops.h"

namespace weft::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// |x| = significand * 2^exponent, the significand with its leading bit in place also for
// subnormals, whose exponent then is below 1; for finite x other than 0.
struct Parts {
  Value *significand, *exponent;
};

Parts Split(llvm::IRBuilder<>& b, Value* magnitude, unsigned fraction_bits) {
  llvm::Type* type = magnitude->getType();
  const auto lit = [&](uint64_t v) { return llvm::ConstantInt::get(type, v); };
  const uint64_t leading = uint64_t{1} << fraction_bits;
  Value* biased = b.CreateLShr(magnitude, lit(fraction_bits));
  Value* fraction = b.CreateAnd(magnitude, lit(leading - 1));
  Value* subnormal = b.CreateICmpEQ(biased, lit(0));
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, fraction, b.getFalse());
  Value* up = b.CreateSub(zeros, lit(type->getIntegerBitWidth() - 1 - fraction_bits));
  up = b.CreateSelect(subnormal, up, lit(0));
  return {b.CreateSelect(subnormal, b.CreateShl(fraction, up), b.CreateOr(fraction, lit(leading))),
          b.CreateSelect(subnormal, b.CreateSub(lit(1), up), biased)};
}

}  // namespace

// r = a's significand; for each binade between the exponents: subtract b's if it fits, double. Then
// normalise: r * 2^e, by shifting up while the exponent allows.
llvm::Function* FmodFunction(llvm::Module& module, llvm::Type* type) {
  const bool wide = type->isDoubleTy();
  const char* name = wide ? "weft_fmod64" : "weft_fmod32";
  if (llvm::Function* known = module.getFunction(name)) return known;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::GlobalValue::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(BasicBlock::Create(context, "entry", function));
  llvm::Type* word = b.getIntNTy(wide ? 64 : 32);
  const unsigned fraction_bits = wide ? 52 : 23;
  const auto lit = [&](uint64_t v) { return llvm::ConstantInt::get(word, v); };
  Value *x = function->getArg(0), *y = function->getArg(1);
  const auto magnitude = [&](Value* v) {
    return b.CreateBitCast(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v), word);
  };
  Value *mx = magnitude(x), *my = magnitude(y);
  Value* infinity = lit(wide ? 0x7ff0000000000000 : 0x7f800000);
  auto* trivial = BasicBlock::Create(context, "trivial", function);
  auto* divide = BasicBlock::Create(context, "divide", function);
  auto* step = BasicBlock::Create(context, "step", function);
  auto* shift = BasicBlock::Create(context, "shift", function);
  auto* scale = BasicBlock::Create(context, "scale", function);
  // x / 0, inf / y and NaN give NaN; |x| < |y| gives x.
  Value* undefined =
      b.CreateOr(b.CreateICmpEQ(my, lit(0)),
                 b.CreateOr(b.CreateICmpUGE(mx, infinity), b.CreateICmpUGT(my, infinity)));
  b.CreateCondBr(b.CreateOr(undefined, b.CreateICmpULT(mx, my)), trivial, divide);
  b.SetInsertPoint(trivial);
  b.CreateRet(b.CreateSelect(undefined, llvm::ConstantFP::getNaN(type), x));

  b.SetInsertPoint(divide);
  const Parts px = Split(b, mx, fraction_bits), py = Split(b, my, fraction_bits);
  b.CreateBr(step);

  b.SetInsertPoint(step);
  llvm::PHINode *r = b.CreatePHI(word, 2), *e = b.CreatePHI(word, 2);
  Value* fits = b.CreateICmpUGE(r, py.significand);
  Value* rest = b.CreateSelect(fits, b.CreateSub(r, py.significand), r);
  b.CreateCondBr(b.CreateICmpSGT(e, py.exponent), shift, scale);
  b.SetInsertPoint(shift);
  r->addIncoming(px.significand, divide);
  e->addIncoming(px.exponent, divide);
  r->addIncoming(b.CreateShl(rest, lit(1)), shift);
  e->addIncoming(b.CreateSub(e, lit(1)), shift);
  b.CreateBr(step);

  // rest * 2^(exponent of y), rest < y's significand: to an exponent of at least 1 (what is shifted
  // out is zero), then the leading bit up to the implicit one as far as the exponent allows.
  b.SetInsertPoint(scale);
  Value* below = b.CreateICmpSLT(py.exponent, lit(1));
  Value* down = b.CreateSelect(below, b.CreateSub(lit(1), py.exponent), lit(0));
  rest = b.CreateLShr(rest, down);
  Value* exponent = b.CreateSelect(below, lit(1), py.exponent);
  Value* unused = lit((wide ? 64 : 32) - 1 - fraction_bits);
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, rest, b.getFalse());
  Value* want = b.CreateSub(zeros, unused);
  Value* allowed = b.CreateSub(exponent, lit(1));
  Value* by = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, want, allowed);
  Value* up = b.CreateShl(rest, by);
  Value* normal = b.CreateICmpUGE(up, lit(uint64_t{1} << fraction_bits));
  Value* biased = b.CreateSelect(normal, b.CreateSub(exponent, by), lit(0));
  Value* fraction = b.CreateAnd(up, lit((uint64_t{1} << fraction_bits) - 1));
  Value* bits = b.CreateOr(b.CreateShl(biased, lit(fraction_bits)), fraction);
  bits = b.CreateSelect(b.CreateICmpEQ(rest, lit(0)), lit(0), bits);
  b.CreateRet(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b.CreateBitCast(bits, type), x));
  return function;
}

}  // namespace weft::codegen
