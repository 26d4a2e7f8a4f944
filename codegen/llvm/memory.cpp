#include "codegen/llvm/memory.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace weft::codegen {

using llvm::Value;
using loops::BufferId;

namespace {

llvm::Type* Row(llvm::Type* element, unsigned width) {
  return width == 1 ? element : llvm::FixedVectorType::get(element, width);
}

bool IsConstantMask(Value* mask) { return mask && llvm::isa<llvm::Constant>(mask); }

bool IsSet(Value* mask, int64_t lane) {
  const auto* bit =
      llvm::cast<llvm::Constant>(mask)->getAggregateElement(static_cast<unsigned>(lane));
  return bit && bit->isOneValue();
}

}  // namespace

Value* MemoryEmitter::AndMask(Value* a, Value* b) {
  return a && b ? b_.CreateAnd(a, b) : a ? a : b;
}

Mask MemoryEmitter::Both(const Mask& a, const Mask& b) {
  return {.uniform = AndMask(a.uniform, b.uniform),
          .lanes = AndMask(a.lanes, b.lanes),
          .never = a.never || b.never};
}

Mask MemoryEmitter::Not(const Mask& a, const Chunk& chunk) {
  if (a.never) return {};
  if (!a.uniform && !a.lanes) return {.never = true};
  if (!a.lanes) return {.uniform = b_.CreateNot(a.uniform)};
  Value* lanes =
      a.uniform ? b_.CreateAnd(a.lanes, b_.CreateVectorSplat(chunk.width, a.uniform)) : a.lanes;
  return {.lanes = b_.CreateNot(lanes)};
}

Mask MemoryEmitter::MaskOf(const std::vector<Affine>& conditions, const Chunk& chunk) {
  Mask mask;
  for (const Affine& condition : conditions) {
    const std::optional<LaneForm> form = scope_.Lanes(condition, chunk);
    if (form) {
      const auto [least, most] =
          std::minmax_element(form->diffs.begin(), form->diffs.begin() + chunk.active);
      if (scope_.ranges().NonNegative(form->base + *least)) continue;
      mask.never |= scope_.ranges().NonNegative(-(form->base + *most) - 1);
      if (mask.never) return mask;
    }
    if (chunk.width == 1 || (form && form->Uniform(chunk.active))) {
      Value* value = form ? scope_.Emit(form->base) : scope_.EmitLanes(condition, chunk);
      mask.uniform = AndMask(mask.uniform, b_.CreateICmpSGE(value, b_.getInt64(0)));
      continue;
    }
    Value* value = scope_.EmitLanes(condition, chunk);
    mask.lanes = AndMask(mask.lanes,
                         b_.CreateICmpSGE(value, llvm::Constant::getNullValue(value->getType())));
  }
  return mask;
}

Value* MemoryEmitter::Splat(LaneValue value, const Chunk& chunk) {
  return value.is_vector || chunk.width == 1 ? value.value
                                             : b_.CreateVectorSplat(chunk.width, value.value);
}

// The lanes that count, if not all do.
Value* MemoryEmitter::TailMask(const Chunk& chunk) {
  if (chunk.active == chunk.width) return nullptr;
  llvm::SmallVector<llvm::Constant*, 64> bits;
  for (int64_t lane = 0; lane < chunk.width; ++lane)
    bits.push_back(b_.getInt1(lane < chunk.active));
  return llvm::ConstantVector::get(bits);
}

LaneValue MemoryEmitter::Load(const loops::Expr& load, const Chunk& chunk, const Mask& active) {
  const Mask guard = MaskOf(load.guards, chunk);
  llvm::Type* type = ops_.RegisterType(load.dtype);
  if (guard.never || active.never) return {llvm::Constant::getNullValue(type), false};
  const Mask mask = Both(guard, active);
  if (IsPacked(load.buffer)) return LoadPacked(load, chunk, guard, mask);
  const Affine offset = Offset(load.buffer, load.index);
  const std::optional<LaneForm> form = scope_.Lanes(offset, chunk);
  if (form && form->Uniform(chunk.active)) {
    Value* condition = mask.uniform;
    if (mask.lanes) {  // if any lane that counts wants it
      Value* bits =
          b_.CreateBitCast(AndMask(TailMask(chunk), mask.lanes), b_.getIntNTy(chunk.width));
      condition =
          AndMask(condition, b_.CreateICmpNE(bits, llvm::ConstantInt::get(bits->getType(), 0)));
    }
    Value* one = LoadOne(load.buffer, PointerTo(load.buffer, form->base),
                         AlignAt(load.buffer, form->base), condition);
    one = FromElement(load.buffer, one);
    if (!guard.lanes) return {one, false};
    Value* all = b_.CreateVectorSplat(chunk.width, one);
    return {b_.CreateSelect(guard.lanes, all, llvm::Constant::getNullValue(all->getType())), true};
  }
  if (chunk.width == 1) {
    const std::vector<Value*> pointers = Pointers(load.buffer, offset, form, chunk);
    return {
        FromElement(load.buffer, LoadOne(load.buffer, pointers[0], llvm::Align(1), mask.uniform)),
        false};
  }
  const bool row = form && form->Contiguous(chunk.active);
  Value* value = row    ? LoadRow(load.buffer, form->base, chunk, mask)
                 : form ? LoadNear(load.buffer, *form, chunk, mask)
                        : nullptr;
  // Guards may hold for this iteration only, and its neighbours are loaded along.
  if (value == nullptr && form && load.guards.empty() && !mask.uniform && !mask.lanes)
    value = LoadTransposed(load, offset, *form, chunk);
  if (value == nullptr) value = LoadEach(load.buffer, offset, form, chunk, mask);
  return {FromElement(load.buffer, value), true};
}

// The lanes of the loop's first step, if its steps are successive elements of memory, and all lanes
// read the same ones or each those behind the lane before.
std::optional<LaneForm> MemoryEmitter::StepsInRows(const loops::Expr& load, const loops::Stmt& loop,
                                                   const Chunk& chunk) {
  const int64_t steps = loops::ConstantTrip(loop);
  const Affine lo = scope_.Resolve(loop.lo[0]);
  const auto at = [&](int64_t i) {
    scope_.Substitute(loop.var, lo + i);
    return scope_.Lanes(Offset(load.buffer, load.index), chunk);
  };
  const std::optional<LaneForm> form = at(0);
  if (!form || IsRegister(load.buffer)) return std::nullopt;
  for (int64_t i = 1; i < steps; ++i) {
    const std::optional<LaneForm> next = at(i);
    if (!next || next->base != form->base + i || next->diffs != form->diffs) return std::nullopt;
  }
  bool apart = true;
  for (int64_t lane = 0; lane < chunk.active; ++lane) apart &= form->diffs[lane] == lane * steps;
  return apart || form->Uniform(chunk.active) ? form : std::nullopt;
}

LaneValue MemoryEmitter::LoadSteps(const loops::Expr& load, const loops::Stmt& loop,
                                   const Chunk& chunk, const Mask& active) {
  const int64_t steps = loops::ConstantTrip(loop);
  const auto count = static_cast<unsigned>(steps);
  const std::optional<LaneForm> form = StepsInRows(load, loop, chunk);
  const Mask mask = Both(MaskOf(load.guards, chunk), active);
  if (form && !mask.lanes && !mask.never) {
    const bool same = form->Uniform(chunk.active);
    const Chunk row{.active = same ? steps : chunk.active * steps,
                    .width = same ? count : chunk.width * count};
    return {LoadRow(load.buffer, form->base, row, mask), !same};
  }
  WEFT_CHECK(!IsFloat(load.dtype), "steps of halves that lie in no row");
  Value* all = llvm::PoisonValue::get(Row(ElementType(load.buffer), chunk.width * count));
  const Affine lo = scope_.Resolve(loop.lo[0]);
  for (unsigned i = 0; i < count; ++i) {
    scope_.Substitute(loop.var, lo + i);
    Value* step = Splat(Load(load, chunk, active), chunk);
    for (unsigned lane = 0; lane < chunk.width; ++lane)
      all = b_.CreateInsertElement(all, b_.CreateExtractElement(step, lane), lane * count + i);
  }
  return {all, true};
}

// What comes after the panel in use would crowd the first-level cache.
void MemoryEmitter::Prefetch(const loops::Stmt& prefetch) {
  constexpr uint32_t kRead = 0, kSecondLevel = 2, kFirstLevel = 3, kData = 1;
  const Affine offset = scope_.Resolve(prefetch.index[0]);
  Value* at = scope_.Emit(IsPacked(prefetch.buffer) ? FloorDiv(offset, 2) : offset);
  Value* pointer =
      b_.CreateGEP(ElementType(prefetch.buffer), places_[prefetch.buffer.index].base, at);
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                     {pointer, b_.getInt32(kRead),
                      b_.getInt32(prefetch.near ? kFirstLevel : kSecondLevel), b_.getInt32(kData)});
}

// Where the condition fails, the load goes to a zero instead: no branch.
Value* MemoryEmitter::LoadOne(BufferId id, Value* pointer, llvm::Align align, Value* condition) {
  if (condition) pointer = b_.CreateSelect(condition, pointer, zeros_);
  auto* load = b_.CreateAlignedLoad(ElementType(id), pointer, align);
  if (!condition) Annotate(load, id);
  return load;
}

Value* MemoryEmitter::LoadRow(BufferId id, const Affine& base, const Chunk& chunk,
                              const Mask& mask) {
  llvm::Type* type = Row(ElementType(id), chunk.width);
  Value* pointer = PointerTo(id, base);
  const llvm::Align align = AlignAt(id, base);
  if (IsRegister(id)) {
    Value* value = b_.CreateAlignedLoad(type, pointer, align);
    // Integers of lanes that don't count are any, but one and the same: a division looks at them
    // twice.
    return chunk.active < chunk.width && type->isIntOrIntVectorTy() ? b_.CreateFreeze(value)
                                                                    : value;
  }
  if (mask.uniform) pointer = b_.CreateSelect(mask.uniform, pointer, zeros_);
  llvm::Instruction* load = nullptr;
  if (Value* lanes = AndMask(TailMask(chunk), mask.lanes)) {
    load = b_.CreateMaskedLoad(type, pointer, align, lanes, llvm::Constant::getNullValue(type));
  } else {
    load = b_.CreateAlignedLoad(type, pointer, align);
  }
  if (!mask.uniform) Annotate(load, id);
  return load;
}

std::vector<Value*> MemoryEmitter::Pointers(BufferId id, const Affine& offset,
                                            const std::optional<LaneForm>& form,
                                            const Chunk& chunk) {
  std::vector<Value*> pointers;
  if (form) {
    for (int64_t lane = 0; lane < chunk.active; ++lane)
      pointers.push_back(PointerTo(id, form->base + form->diffs[lane]));
    return pointers;
  }
  Value* offsets = scope_.EmitLanes(offset, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    Value* at =
        chunk.width == 1 ? offsets : b_.CreateExtractElement(offsets, static_cast<uint64_t>(lane));
    pointers.push_back(b_.CreateGEP(ElementType(id), places_[id.index].base, at));
  }
  return pointers;
}

Value* MemoryEmitter::LaneCondition(const Mask& mask, int64_t lane) {
  Value* bit =
      mask.lanes ? b_.CreateExtractElement(mask.lanes, static_cast<uint64_t>(lane)) : nullptr;
  return AndMask(bit, mask.uniform);
}

// The first of `rows` rows of `width` elements, counted from `base`, that begin where a multiple of
// their number does and hold the elements from `first` to `last` of `base`, if none of them lies
// behind the buffer's end; else a number above `first`.
int64_t MemoryEmitter::WholeRows(BufferId id, const Affine& base, int64_t first, int64_t last,
                                 int64_t width, int64_t rows) const {
  const int64_t none = first + 1, constant = base.constant();
  std::vector<Affine> end;
  for (const Affine& extent : nest_[id].shape) end.push_back(extent - 1);
  const Affine size = Offset(id, end) + 1;
  if (!size.IsConstant() || size.constant() % width != 0) return none;
  if (scope_.MultipleOf(base - constant) % width != 0) return none;
  const int64_t begin = FloorDiv(constant + first, width) * width;
  return constant + last < begin + rows * width ? begin - constant : none;
}

// Lanes that are a few elements apart, such as every second one or each one twice: one or two whole
// rows, shuffled. What lies between two elements that may be read may be read. Null if it does not
// pay or which lanes count is not known.
Value* MemoryEmitter::LoadNear(BufferId id, const LaneForm& form, const Chunk& chunk,
                               const Mask& mask) {
  constexpr int64_t kFewest = 4;
  if (chunk.active < kFewest) return nullptr;
  if (mask.lanes && !IsConstantMask(mask.lanes)) return nullptr;
  const auto counts = [&](int64_t lane) { return !mask.lanes || IsSet(mask.lanes, lane); };
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    if (!counts(lane)) continue;
    first = std::min(first, form.diffs[lane]);
    last = std::max(last, form.diffs[lane]);
  }
  if (first > last) return nullptr;
  const int64_t width = chunk.width;
  if (IsRegister(id)) {
    if (!form.base.IsConstant()) return nullptr;
    // Whole registers, so that none is taken apart; one behind the last is padding.
    const int64_t at = form.base.constant();
    first = FloorDiv(at + first, width) * width - at;
    last = FloorDiv(at + last, width) * width - at + width - 1;
  }
  int64_t span = last - first + 1;
  if (span > 2 * width) return nullptr;
  // Where whole registers' places are the buffer's, all of them: loads beside these ask for the
  // same, and none of a register lies in two lines of a cache.
  const int64_t rows = span > width ? 2 : 1;
  const int64_t whole_rows = WholeRows(id, form.base, first, last, width, rows);
  if (whole_rows <= first) {
    first = whole_rows;
    span = rows * width;
  }
  const Chunk row{.active = std::min(span, width), .width = chunk.width};
  const Mask all{.uniform = mask.uniform};
  Value* low = LoadRow(id, form.base + first, row, all);
  Value* high = span > width ? LoadRow(id, form.base + (first + span - width), row, all) : low;
  llvm::SmallVector<int, 64> picked(chunk.width, 0);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    const int64_t at = form.diffs[lane] - first;
    if (counts(lane)) picked[lane] = static_cast<int>(at < width ? at : at - span + 2 * width);
  }
  Value* value = b_.CreateShuffleVector(low, high, picked);
  if (!mask.lanes) return value;
  return b_.CreateSelect(mask.lanes, value, llvm::Constant::getNullValue(value->getType()));
}

// Strided and gathered: an element a lane. (Gather instructions are no faster on the machines of
// today.)
Value* MemoryEmitter::LoadEach(BufferId id, const Affine& offset,
                               const std::optional<LaneForm>& form, const Chunk& chunk,
                               const Mask& mask) {
  Value* row = llvm::Constant::getNullValue(Row(ElementType(id), chunk.width));
  const std::vector<Value*> pointers = Pointers(id, offset, form, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    if (IsConstantMask(mask.lanes) && !IsSet(mask.lanes, lane)) continue;
    const llvm::Align align = form ? AlignAt(id, form->base + form->diffs[lane]) : llvm::Align(1);
    Value* one = LoadOne(id, pointers[lane], align, LaneCondition(mask, lane));
    row = b_.CreateInsertElement(row, one, static_cast<uint64_t>(lane));
  }
  return row;
}

void MemoryEmitter::Store(const loops::Stmt& store, const Chunk& chunk, const Mask& active,
                          LaneValue value) {
  if (active.never) return;
  const Affine offset = Offset(store.buffer, store.index);
  const std::optional<LaneForm> form = scope_.Lanes(offset, chunk);
  Value* lanes = EndsRow(store, chunk) ? active.lanes : AndMask(TailMask(chunk), active.lanes);
  When(active.uniform, [&] {
    if (IsPacked(store.buffer))
      return StorePacked(store.buffer, offset, form, chunk, lanes, Splat(value, chunk));
    if (chunk.width > 1 && form && form->Contiguous(chunk.active)) {
      Value* row = ToElement(store.buffer, Splat(value, chunk));
      return IsRegister(store.buffer) ? StoreRegister(store.buffer, form->base, lanes, row)
                                      : StoreRow(store, form->base, chunk, lanes, row);
    }
    const bool masked = active.uniform || active.lanes;
    if (form && !masked && chunk.width > 1 &&
        StoreTransposed(store, offset, *form, chunk, ToElement(store.buffer, Splat(value, chunk))))
      return;
    StoreEach(store.buffer, offset, form, chunk, lanes,
              ToElement(store.buffer, Splat(value, chunk)));
  });
}

// True if only padding lies behind the chunk's last lane.
bool MemoryEmitter::EndsRow(const loops::Stmt& store, const Chunk& chunk) const {
  const int32_t axis = places_[store.buffer.index].lane_axis;
  if (axis < 0) return false;
  const std::optional<LaneForm> form = scope_.Lanes(store.index[axis], chunk);
  const Affine behind =
      form ? form->base + chunk.active - nest_[store.buffer].shape[axis] : Affine(-1);
  if (!form || !form->Contiguous(chunk.active) || behind != Affine(0)) return false;
  // All lanes, also those that are not active, lie in the row and its padding (OpenRegister).
  const int64_t extent = nest_[store.buffer].shape[axis].constant();
  const int64_t element = module_.getDataLayout().getTypeAllocSize(ElementType(store.buffer));
  const int64_t lanes = vector_bytes_ / element;
  return form->base.IsConstant() &&
         form->base.constant() + chunk.width <= (extent + lanes - 1) / lanes * lanes;
}

// In registers whole rows are written, with the old lanes where the mask says so. What lies behind
// the end of the row is padding.
void MemoryEmitter::StoreRegister(BufferId id, const Affine& base, Value* mask, Value* value) {
  Value* pointer = PointerTo(id, base);
  const llvm::Align align = AlignAt(id, base);
  if (mask) {
    Value* old = b_.CreateAlignedLoad(value->getType(), pointer, align);
    value = ops_.Select(mask, value, old);
  }
  b_.CreateAlignedStore(value, pointer, align);
}

// All of a value side by side; past the caches, if so said and it does not lie across lines.
void MemoryEmitter::StoreWhole(BufferId id, const Affine& at, Value* value, bool stream) {
  const llvm::Align align = AlignAt(id, at);
  auto* store = b_.CreateAlignedStore(value, PointerTo(id, at), align);
  Annotate(store, id);
  if (!stream || align.value() < module_.getDataLayout().getTypeStoreSize(value->getType())) return;
  llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(module_.getContext(), one));
}

void MemoryEmitter::StoreRow(const loops::Stmt& s, const Affine& base, const Chunk& chunk,
                             Value* mask, Value* value) {
  if (!mask) {
    StoreWhole(s.buffer, base, value, s.stream);
    return;
  }
  Value* pointer = PointerTo(s.buffer, base);
  const llvm::Align align = AlignAt(s.buffer, base);
  int64_t active = 0;
  while (IsConstantMask(mask) && active < chunk.width && IsSet(mask, active)) ++active;
  bool prefix = IsConstantMask(mask);
  for (int64_t lane = active; prefix && lane < chunk.width; ++lane) prefix = !IsSet(mask, lane);
  if (!prefix || vector_bytes_ == 64) {
    Annotate(b_.CreateMaskedStore(value, pointer, align, mask), s.buffer);
    return;
  }
  // A masked store is slow before AVX-512: pieces of 4, 2 and 1 lanes are not.
  for (int64_t lane = 0; lane < active;) {
    const auto piece = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(active - lane)));
    llvm::SmallVector<int, 64> picked;
    for (int64_t i = 0; i < piece; ++i) picked.push_back(static_cast<int>(lane + i));
    Value* part = piece == 1 ? b_.CreateExtractElement(value, static_cast<uint64_t>(lane))
                             : b_.CreateShuffleVector(value, picked);
    Annotate(b_.CreateAlignedStore(part, PointerTo(s.buffer, base + lane),
                                   AlignAt(s.buffer, base + lane)),
             s.buffer);
    lane += piece;
  }
}

void MemoryEmitter::StoreEach(BufferId id, const Affine& offset,
                              const std::optional<LaneForm>& form, const Chunk& chunk, Value* mask,
                              Value* value) {
  const std::vector<Value*> pointers = Pointers(id, offset, form, chunk);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    if (IsConstantMask(mask) && !IsSet(mask, lane)) continue;
    const llvm::Align align = form ? AlignAt(id, form->base + form->diffs[lane]) : llvm::Align(1);
    Value* one =
        chunk.width == 1 ? value : b_.CreateExtractElement(value, static_cast<uint64_t>(lane));
    Value* condition = mask && !IsConstantMask(mask)
                           ? b_.CreateExtractElement(mask, static_cast<uint64_t>(lane))
                           : nullptr;
    When(condition, [&] { Annotate(b_.CreateAlignedStore(one, pointers[lane], align), id); });
  }
}

}  // namespace weft::codegen
