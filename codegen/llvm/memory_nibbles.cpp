// Operands of four-bit elements, which lie two in a byte.
//
// Lanes at a distance of 1, 2, 4 or 8 elements are one load: of half a byte a lane, or of the 8, 16
// or 32 bits that begin with a lane's element, where elements beside it are those of other
// iterations, which share the load. Either ends with an element among the bits of each 32. Other
// lanes are loaded one by one.
//
// A store reads the byte and writes it back with the other half as it was, so it stands where one
// rank alone writes the operand (rule 10 of the loop nest).
#include <algorithm>

#include "codegen/llvm/memory.h"

namespace weft::codegen {

using llvm::Value;
using loops::BufferId;

namespace {

// The distance of the lanes; 0 if they are not evenly apart, or not all of them count.
int64_t Distance(const LaneForm& form, const Chunk& chunk) {
  if (chunk.active != chunk.width || chunk.width < 2) return 0;
  for (int64_t lane = 0; lane < chunk.active; ++lane)
    if (form.diffs[lane] != lane * form.diffs[1]) return 0;
  return form.diffs[1];
}

}  // namespace

bool MemoryEmitter::IsPacked(BufferId id) const {
  return nest_[id].space == loops::Space::kGlobal && SharesBytes(nest_[id].dtype);
}

// One element: where its byte lies, and how far up in it.
MemoryEmitter::Nibble MemoryEmitter::NibbleAt(BufferId id, const Affine& offset) {
  Value* half = scope_.Emit(Mod(offset, 2));
  return {PointerTo(id, offset), b_.CreateTrunc(b_.CreateShl(half, 2), b_.getInt8Ty())};
}

MemoryEmitter::Nibble MemoryEmitter::NibbleAt(BufferId id, Value* offset) {
  Value* byte = b_.CreateAShr(offset, 1);
  Value* half = b_.CreateTrunc(b_.CreateAnd(offset, 1), b_.getInt8Ty());
  return {b_.CreateGEP(b_.getInt8Ty(), places_[id.index].base, byte), b_.CreateShl(half, 2)};
}

std::vector<MemoryEmitter::Nibble> MemoryEmitter::Nibbles(BufferId id, const Affine& offset,
                                                          const std::optional<LaneForm>& form,
                                                          const Chunk& chunk) {
  std::vector<Nibble> nibbles;
  Value* offsets = form ? nullptr : scope_.EmitLanes(offset, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    if (form) {
      nibbles.push_back(NibbleAt(id, form->base + form->diffs[lane]));
    } else {
      nibbles.push_back(NibbleAt(
          id, chunk.width == 1 ? offsets
                               : b_.CreateExtractElement(offsets, static_cast<uint64_t>(lane))));
    }
  }
  return nibbles;
}

Value* MemoryEmitter::LoadNibble(BufferId id, const Nibble& at, Value* condition) {
  Value* byte = LoadOne(id, at.byte, llvm::Align(1), condition);
  return ops_.Wrap(nest_[id].dtype, b_.CreateLShr(byte, at.shift));
}

// Lanes that are evenly apart, with one load; null if that would not do.
Value* MemoryEmitter::LoadNibbleRow(BufferId id, const LaneForm& form, const Chunk& chunk,
                                    Value* condition) {
  constexpr unsigned kZeroBytes = 64;
  const int64_t distance = Distance(form, chunk), width = chunk.width;
  if (distance != 1 && distance != 2 && distance != 4 && distance != 8) return nullptr;
  const int64_t unit = std::max<int64_t>(2, distance), constant = form.base.constant();
  const int64_t beside = distance == 1 ? 0 : FloorMod(constant, unit);
  if (scope_.MultipleOf(form.base - constant) % unit != 0 || (constant - beside) % unit != 0)
    return nullptr;
  // The last lane's bits end inside of the operand.
  const loops::Buffer& buffer = nest_[id];
  const bool fixed = std::ranges::all_of(buffer.shape, &Affine::IsConstant);
  if (distance > 1 && (!fixed || AllocElems(buffer.layout, StoredShape(buffer)) % unit != 0))
    return nullptr;
  const auto load = [&](unsigned bits, unsigned count) -> Value* {
    const Affine from = form.base - beside;
    auto* type = llvm::FixedVectorType::get(b_.getIntNTy(bits), count);
    Value* pointer = PointerTo(id, from);
    if (condition) pointer = b_.CreateSelect(condition, pointer, zeros_);
    auto* row = b_.CreateAlignedLoad(type, pointer, AlignAt(id, from));
    if (!condition) Annotate(row, id);
    return row;
  };
  const auto lanes_of = [&](unsigned bits, int64_t count) {
    return llvm::FixedVectorType::get(b_.getIntNTy(bits), static_cast<unsigned>(count));
  };
  if (width * distance / 2 > kZeroBytes) return nullptr;
  if (distance > 1) {
    Value* bits =
        b_.CreateZExt(load(static_cast<unsigned>(4 * distance), chunk.width), lanes_of(32, width));
    return ops_.FromNibbles(buffer.dtype, bits, 4 * beside);
  }
  Value* bytes = load(8, chunk.width / 2);
  if (width * 4 <= vector_bytes_) {  // the second half of a byte 28 bits up: 32 from the first
    Value* pairs = b_.CreateZExt(bytes, lanes_of(64, width / 2));
    pairs = b_.CreateOr(pairs, b_.CreateShl(pairs, 28));
    return ops_.FromNibbles(buffer.dtype, b_.CreateBitCast(pairs, lanes_of(32, width)), 0);
  }
  Value* pairs = b_.CreateZExt(bytes, lanes_of(16, width / 2));
  pairs = b_.CreateOr(pairs, b_.CreateShl(pairs, 4));
  return ops_.Wrap(buffer.dtype, b_.CreateBitCast(pairs, lanes_of(8, width)));
}

LaneValue MemoryEmitter::LoadPacked(const loops::Expr& load, const Chunk& chunk, const Mask& guard,
                                    const Mask& mask) {
  const BufferId id = load.buffer;
  const Affine offset = Offset(id, load.index);
  const std::optional<LaneForm> form = scope_.Lanes(offset, chunk);
  const bool same = form && form->Uniform(chunk.active);
  if (chunk.width == 1 || (same && !mask.lanes)) {
    const Chunk one;
    return {LoadNibble(id, Nibbles(id, offset, form, one)[0], mask.uniform), false};
  }
  if (form && !mask.lanes) {
    if (Value* row = LoadNibbleRow(id, *form, chunk, mask.uniform)) return {row, true};
  }
  Value* row =
      llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt8Ty(), chunk.width));
  const std::vector<Nibble> nibbles = Nibbles(id, offset, form, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    Value* one = LoadNibble(id, nibbles[lane], LaneCondition(mask, lane));
    row = b_.CreateInsertElement(row, one, static_cast<uint64_t>(lane));
  }
  if (guard.lanes)
    row = b_.CreateSelect(guard.lanes, row, llvm::Constant::getNullValue(row->getType()));
  return {row, true};
}

void MemoryEmitter::StorePacked(BufferId id, const Affine& offset,
                                const std::optional<LaneForm>& form, const Chunk& chunk,
                                Value* mask, Value* value) {
  Value* low = b_.CreateAnd(value, llvm::ConstantInt::get(value->getType(), 15));
  if (!mask && form && Distance(*form, chunk) == 1 && scope_.MultipleOf(form->base) % 2 == 0) {
    const unsigned count = chunk.width / 2;
    Value* pairs = b_.CreateBitCast(low, llvm::FixedVectorType::get(b_.getInt16Ty(), count));
    pairs = b_.CreateOr(pairs, b_.CreateLShr(pairs, 4));
    Value* bytes = b_.CreateTrunc(pairs, llvm::FixedVectorType::get(b_.getInt8Ty(), count));
    auto* store = b_.CreateAlignedStore(bytes, PointerTo(id, form->base), AlignAt(id, form->base));
    return Annotate(store, id);
  }
  const std::vector<Nibble> nibbles = Nibbles(id, offset, form, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    Value* one = chunk.width == 1 ? low : b_.CreateExtractElement(low, static_cast<uint64_t>(lane));
    Value* condition = mask ? b_.CreateExtractElement(mask, static_cast<uint64_t>(lane)) : nullptr;
    When(condition, [&] {
      auto* old = b_.CreateAlignedLoad(b_.getInt8Ty(), nibbles[lane].byte, llvm::Align(1));
      Annotate(old, id);
      Value* kept =
          b_.CreateAnd(old, b_.CreateNot(b_.CreateShl(b_.getInt8(15), nibbles[lane].shift)));
      Value* both = b_.CreateOr(kept, b_.CreateShl(one, nibbles[lane].shift));
      Annotate(b_.CreateAlignedStore(both, nibbles[lane].byte, llvm::Align(1)), id);
    });
  }
}

}  // namespace weft::codegen
