// Scalar operations as IR, for one value or for the lanes of a vector, bit for bit as base/scalar.h
// says.
//
// In registers a bool is an i1 and a 16-bit float is an f32 that its type can represent; in memory
// they are i8 and i16. An integer of four bits is an i8 that holds its value, but two share a byte
// of an operand (memory_nibbles.cpp). No instruction carries a fast-math flag.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <span>
#include <utility>

#include "base/scalar.h"

namespace weft::codegen {

class Ops {
 public:
  // With `mask_registers`, as AVX-512 has them, an operation and a choice between its result and
  // what was there are one instruction.
  Ops(llvm::IRBuilder<>& builder, llvm::Module& module, bool mask_registers)
      : b_(builder), module_(module), mask_registers_(mask_registers) {}

  llvm::Type* RegisterType(Dtype dtype) const;
  llvm::Type* MemoryType(Dtype dtype) const;
  llvm::Value* FromMemory(Dtype dtype, llvm::Value* value);
  llvm::Value* ToMemory(Dtype dtype, llvm::Value* value);
  llvm::Constant* Literal(Dtype dtype, Scalar value) const;

  // The arguments are all scalars or all vectors of the same length.
  llvm::Value* Emit(ScalarOp op, Dtype operand, Dtype result, std::span<llvm::Value* const> args);
  llvm::Value* Cast(Dtype from, Dtype to, llvm::Value* value);
  llvm::Value* Wrap(Dtype dtype, llvm::Value* bytes);  // to four bits
  // A register of four-bit integers, given in as many i32 from a bit on, with anything around them.
  llvm::Value* FromNibbles(Dtype dtype, llvm::Value* lanes, int64_t at);
  llvm::Value* Select(llvm::Value* condition, llvm::Value* yes, llvm::Value* no);
  // Of f32 and of pairs of bfloat16, as i32: kFmaFlush of the upper halves, then of the lower.
  llvm::Value* AddPairs(llvm::Value* sum, llvm::Value* a, llvm::Value* b);

 private:
  llvm::Value* InMaskRegister(llvm::Value* mask);
  llvm::Type* Like(llvm::Type* element, llvm::Value* shape) const;
  llvm::Constant* IntOf(llvm::Value* like, int64_t value) const;
  llvm::Value* FloatOp(ScalarOp op, Dtype dtype, std::span<llvm::Value* const> args);
  llvm::Value* FmaFlush(llvm::Value* a, llvm::Value* b, llvm::Value* sum);
  llvm::Value* Flush(llvm::Value* a);
  llvm::Value* Ldexp(llvm::Value* a, llvm::Value* b);
  llvm::Value* Scalef(llvm::Value* a, llvm::Value* b);
  llvm::Value* Pick(llvm::Value* number, llvm::Constant* table);
  llvm::Value* Load(llvm::Value* number, llvm::Constant* table);
  llvm::Value* FloatMinMax(ScalarOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* FloatRemainder(ScalarOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* RemainderOfLanes(llvm::Value* a, llvm::Value* b);
  llvm::Value* IntOp(ScalarOp op, Dtype dtype, std::span<llvm::Value* const> args);
  llvm::Value* IntQuotient(bool is_signed, llvm::Value* a, llvm::Value* divisor);
  llvm::Value* IntDivide(ScalarOp op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* IntShift(ScalarOp op, bool is_signed, llvm::Value* a, llvm::Value* by);
  llvm::Value* Compare(ScalarOp op, Dtype dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* Bitcast(Dtype from, Dtype to, llvm::Value* value);
  llvm::Value* RoundTo16(Dtype dtype, llvm::Value* value);  // f32 -> f32
  llvm::Value* RoundToOdd(llvm::Value* value);              // f64 -> f32
  llvm::Value* BitsOf16(Dtype dtype, llvm::Value* value);   // f32 -> i16
  llvm::Value* FloatOf16(Dtype dtype, llvm::Value* bits);   // i16 -> f32
  llvm::Value* FloatToInt(Dtype to, llvm::Value* value);
  llvm::Value* RoundedToInt(Dtype to, llvm::Value* value);
  struct Nibbles {
    Dtype dtype = Dtype::kI4;
    llvm::Value* lanes = nullptr;  // i32
    int64_t at = 0;                // the lowest of the four bits
  };
  llvm::Value* FloatOfNibbles(const Nibbles& nibbles);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  bool mask_registers_;
  std::map<std::pair<llvm::Function*, llvm::Value*>, llvm::Value*> masks_;
  std::map<llvm::Constant*, llvm::GlobalVariable*> tables_;  // of Pick
  std::map<llvm::Value*, Nibbles> nibbles_;                  // what integers were loaded as
};

// An internal function T fmod(T, T), made on first use: C's fmod, by subtracting shifted multiples.
llvm::Function* FmodFunction(llvm::Module& module, llvm::Type* type);

}  // namespace weft::codegen
