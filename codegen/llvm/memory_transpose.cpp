// Accesses whose lanes lie far apart while the iterations of an unrolled loop around them lie side
// by side, as in y[j, i] = x[i, j] with lanes along j and i unrolled. As many iterations as 128
// bits hold are accessed at once, in rows, and a transposition in registers turns rows into lanes.
// With four bytes an element:
//
//   lanes     0 1 2 3 | 4 5 6 7          a row is four iterations of one lane; V0 holds those of
//   V0        row 0   | row 4            lanes 0 and 4, and so on; iteration i of all lanes is
//   V1        row 1   | row 5            element i of each row
//
// Where the iterations are few and the next lane's follow those of a lane without a gap, as an
// image's colours do, all of them are one row of memory, which is loaded or stored as a whole.
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "codegen/llvm/memory.h"

namespace weft::codegen {

using llvm::Value;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

// Elements of a row.
int64_t RowLength(Dtype dtype) { return 16 / SizeBytes(dtype); }

// Whether iterations and lanes are one row of memory, with an iteration's lanes `trip` apart, and
// taken as one. Whole squares, and those of many iterations, take fewer instructions.
bool IsInterleaved(Dtype dtype, const LaneForm& form, int64_t trip) {
  constexpr int64_t kMany = 8;
  return trip < kMany && trip % RowLength(dtype) != 0 && form.diffs[1] == trip;
}

// Every iteration runs all statements.
bool RunsAll(const loops::LoopNest& nest, const std::vector<StmtId>& body) {
  return std::ranges::all_of(body, [&](StmtId id) {
    const Stmt& s = nest[id];
    if (s.kind == StmtKind::kStore) return true;
    const bool expanded =
        s.kind == StmtKind::kFor && (s.loop == LoopKind::kUnroll || s.loop == LoopKind::kVector);
    return (expanded || s.kind == StmtKind::kMark) && RunsAll(nest, s.body);
  });
}

int64_t LoadsOf(const loops::LoopNest& nest, ExprId value, BufferId id, std::vector<bool>& seen) {
  if (seen[value.index]) return 0;
  seen[value.index] = true;
  const Expr& e = nest[value];
  int64_t count = e.kind == ExprKind::kLoad && e.buffer == id;
  for (ExprId arg : e.args) count += LoadsOf(nest, arg, id, seen);
  return count;
}

// The lower or higher halves of each 128 bits of two registers, interleaved by so many elements.
std::vector<int> Interleave(int64_t width, int64_t length, bool high, int64_t by) {
  std::vector<int> picked;
  for (int64_t row = 0; row < width; row += length) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t from = i / by % 2, at = (high ? length / 2 : 0) + i / (2 * by) * by + i % by;
      picked.push_back(static_cast<int>(from * width + row + at));
    }
  }
  return picked;
}

int64_t ReverseBits(int64_t i, int64_t below) {
  int64_t reversed = 0;
  for (int64_t bit = 1; bit < below; bit *= 2) reversed = 2 * reversed + (i & bit ? 1 : 0);
  return reversed;
}

}  // namespace

void MemoryEmitter::OpenUnrolled(const Stmt& loop) {
  unrolled_.push_back({.loop = &loop, .round = ++rounds_, .straight = RunsAll(nest_, loop.body)});
}

void MemoryEmitter::CloseUnrolled() {
  unrolled_.pop_back();
  if (unrolled_.empty()) pending_.clear();
}

MemoryEmitter::Touches MemoryEmitter::TouchesOf(const std::vector<StmtId>& body,
                                                BufferId id) const {
  Touches all;
  for (StmtId at : body) {
    const Stmt& s = nest_[at];
    std::vector<bool> seen(nest_.exprs.size());
    if (s.value.valid()) all.loads += LoadsOf(nest_, s.value, id, seen);
    all.stores += s.kind == StmtKind::kStore && s.buffer == id;
    const Touches below = TouchesOf(s.body, id);
    all.loads += below.loads;
    all.stores += below.stores;
  }
  return all;
}

// The innermost unrolled loop along which the lanes' elements are rows, if the buffer allows it.
const MemoryEmitter::Unrolled* MemoryEmitter::RowsOf(BufferId id, const Affine& offset,
                                                     const LaneForm& form, const Chunk& chunk,
                                                     const Touches& most) const {
  if (IsRegister(id) || chunk.width < RowLength(nest_[id].dtype)) return nullptr;
  for (int64_t lane = 2; lane < chunk.active; ++lane)
    if (form.diffs[lane] != lane * form.diffs[1]) return nullptr;
  for (size_t k = unrolled_.size(); k-- > 0;) {
    const Unrolled& u = unrolled_[k];
    const Var v = u.loop->var;
    if (!u.straight) return nullptr;
    if (u.loop->step != 1 || loops::ConstantTrip(*u.loop) < 2) continue;
    if (offset.CoefficientOf(v) != 1 || (offset - Affine::OfVar(v)).Uses(v)) continue;
    const Touches touches = TouchesOf(u.loop->body, id);
    const bool few = touches.loads <= most.loads && touches.stores <= most.stores;
    return few ? &u : nullptr;
  }
  return nullptr;
}

// Registers of rows to as many of iterations, or the other way round: it is its own inverse. A
// stage interleaves registers whose numbers differ in one bit, which becomes a bit of the place in
// the row; the highest bit of that place becomes the one of the number instead.
void MemoryEmitter::Transpose(std::vector<Value*>& rows, int64_t width) {
  const auto length = static_cast<int64_t>(rows.size());
  std::vector<Value*> mixed = rows;
  for (int64_t by = 1; by < length; by *= 2) {
    for (int64_t low = 0; low < length; ++low) {
      if (low & by) continue;
      Value *a = mixed[low], *b = mixed[low + by];
      mixed[low] = b_.CreateShuffleVector(a, b, Interleave(width, length, false, by));
      mixed[low + by] = b_.CreateShuffleVector(a, b, Interleave(width, length, true, by));
    }
  }
  for (int64_t i = 0; i < length; ++i) rows[i] = mixed[ReverseBits(i, length)];
}

Value* MemoryEmitter::LoadTransposed(const Expr& load, const Affine& offset, const LaneForm& form,
                                     const Chunk& chunk) {
  const BufferId id = load.buffer;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const Unrolled* u = RowsOf(id, offset, form, chunk, {.loads = kAny, .stores = 0});
  if (u == nullptr) return nullptr;
  const bool is_input = nest_[id].access == loops::Access::kIn;
  const int64_t trip = loops::ConstantTrip(*u->loop);
  const bool interleaved = IsInterleaved(nest_[id].dtype, form, trip);
  const int64_t length = interleaved ? trip : RowLength(nest_[id].dtype);
  const int64_t first = u->at / length * length, columns = std::min(length, trip - first);
  const Affine base = form.base + (first - u->at);
  Square& square = squares_[{id.index, base, form.diffs[1], is_input ? 0 : u->round, chunk.active}];
  // A loop that ended sooner may have loaded fewer of them.
  if (square.block != b_.GetInsertBlock() || square.columns < columns) {
    square = {.block = b_.GetInsertBlock(),
              .columns = columns,
              .values = interleaved ? LoadInterleaved(id, base, columns, chunk)
                                    : LoadSquare(id, base, form, columns, chunk)};
  }
  return square.values[static_cast<size_t>(u->at - first)];
}

std::vector<Value*> MemoryEmitter::LoadSquare(BufferId id, const Affine& base, const LaneForm& form,
                                              int64_t columns, const Chunk& chunk) {
  const int64_t length = RowLength(nest_[id].dtype);
  std::vector<Value*> rows(
      length, llvm::PoisonValue::get(llvm::FixedVectorType::get(ElementType(id), chunk.width)));
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    Value*& row = rows[lane % length];
    row = InsertRow(row, LoadPiece(id, base + form.diffs[lane], columns), lane / length * length);
  }
  Transpose(rows, chunk.width);
  return rows;
}

std::vector<Value*> MemoryEmitter::LoadInterleaved(BufferId id, const Affine& base, int64_t columns,
                                                   const Chunk& chunk) {
  Value* all = LoadPiece(id, base, columns * chunk.active);
  std::vector<Value*> values;
  for (int64_t i = 0; i < columns; ++i) {
    std::vector<int> picked(chunk.width, llvm::PoisonMaskElem);
    for (int64_t lane = 0; lane < chunk.active; ++lane)
      picked[lane] = static_cast<int>(lane * columns + i);
    values.push_back(b_.CreateShuffleVector(all, picked));
  }
  return values;
}

Value* MemoryEmitter::LoadPiece(BufferId id, const Affine& at, int64_t columns) {
  llvm::Type* element = ElementType(id);
  llvm::Type* type = columns == 1 ? element : llvm::FixedVectorType::get(element, columns);
  auto* load = b_.CreateAlignedLoad(type, PointerTo(id, at), AlignAt(id, at));
  Annotate(load, id);
  return load;
}

// `row` from element `at` on.
Value* MemoryEmitter::InsertRow(Value* into, Value* row, int64_t at) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(row->getType());
  if (type == nullptr) return b_.CreateInsertElement(into, row, static_cast<uint64_t>(at));
  const auto width =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(into->getType())->getNumElements());
  const auto length = static_cast<int>(type->getNumElements());
  std::vector<int> wide, picked;
  for (int i = 0; i < width; ++i) {
    const bool inside = i >= at && i < at + length;
    wide.push_back(i < length ? i : -1);
    picked.push_back(inside ? width + i - static_cast<int>(at) : i);
  }
  return b_.CreateShuffleVector(into, b_.CreateShuffleVector(row, wide), picked);
}

bool MemoryEmitter::StoreTransposed(const Stmt& store, const Affine& offset, const LaneForm& form,
                                    const Chunk& chunk, Value* value) {
  const BufferId id = store.buffer;
  const Unrolled* u = RowsOf(id, offset, form, chunk, {.loads = 0, .stores = 1});
  if (u == nullptr) return false;
  const int64_t trip = loops::ConstantTrip(*u->loop);
  const bool interleaved = IsInterleaved(nest_[id].dtype, form, trip);
  const int64_t length = interleaved ? trip : RowLength(nest_[id].dtype);
  const int64_t first = u->at / length * length;
  const Affine base = form.base + (first - u->at);
  std::vector<Value*>& values = pending_[{id.index, base, form.diffs[1], u->round, chunk.active}];
  if (u->at == first) values.assign(length, llvm::PoisonValue::get(value->getType()));
  values[static_cast<size_t>(u->at - first)] = value;
  const int64_t columns = u->at - first + 1;
  if (columns < length && u->at + 1 < trip) return true;
  if (interleaved)
    StoreInterleaved(store, base, values, chunk);
  else
    StoreSquare(id, base, form, values, columns, chunk,
                store.stream && form.diffs[1] == trip && columns > 1);
  return true;
}

void MemoryEmitter::StoreSquare(BufferId id, const Affine& base, const LaneForm& form,
                                std::vector<Value*>& values, int64_t columns, const Chunk& chunk,
                                bool stream) {
  const auto length = static_cast<int64_t>(values.size());
  Transpose(values, chunk.width);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    std::vector<int> picked;
    for (int64_t i = 0; i < columns; ++i)
      picked.push_back(static_cast<int>(lane / length * length + i));
    Value* row = values[static_cast<size_t>(lane % length)];
    Value* piece = columns == 1 ? b_.CreateExtractElement(row, static_cast<uint64_t>(picked[0]))
                                : b_.CreateShuffleVector(row, picked);
    StoreWhole(id, base + form.diffs[lane], piece, stream);
  }
}

void MemoryEmitter::StoreInterleaved(const Stmt& store, const Affine& base,
                                     const std::vector<Value*>& values, const Chunk& chunk) {
  const auto columns = static_cast<int64_t>(values.size());
  Value* all = llvm::PoisonValue::get(
      llvm::FixedVectorType::get(values[0]->getType()->getScalarType(), columns * chunk.width));
  for (int64_t i = 0; i < columns; ++i)
    all = InsertRow(all, values[static_cast<size_t>(i)], i * chunk.width);
  std::vector<int> picked;
  for (int64_t lane = 0; lane < chunk.active; ++lane)
    for (int64_t i = 0; i < columns; ++i)
      picked.push_back(static_cast<int>(i * chunk.width + lane));
  // LLVM may forget that a store of more than a vector goes past the caches.
  const size_t piece = store.stream ? static_cast<size_t>(chunk.width) : picked.size();
  for (size_t at = 0; at < picked.size(); at += piece) {
    const std::span part = std::span(picked).subspan(at, std::min(piece, picked.size() - at));
    StoreWhole(store.buffer, base + static_cast<int64_t>(at),
               b_.CreateShuffleVector(all, llvm::ArrayRef(part.data(), part.size())), store.stream);
  }
}

}  // namespace weft::codegen
