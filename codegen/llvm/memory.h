// Loads and stores: where a buffer lies, which lanes touch memory, and what may alias what.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "codegen/llvm/ops.h"
#include "codegen/llvm/scope.h"

namespace weft::codegen {

// Which lanes take part. Both null: all of them.
struct Mask {
  llvm::Value* uniform = nullptr;  // i1, for all lanes
  llvm::Value* lanes = nullptr;    // <width x i1>
  bool never = false;              // none, as is known already
};

struct LaneValue {
  llvm::Value* value = nullptr;
  bool is_vector = false;  // else the same in all lanes
};

class MemoryEmitter {
 public:
  MemoryEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, Scope& scope, Ops& ops,
                const loops::LoopNest& nest, unsigned vector_bytes);

  // At the function's entry. `rank` is an i32.
  void OpenBuffers(llvm::Value* args, llvm::Value* rank);

  Mask MaskOf(const std::vector<Affine>& conditions, const Chunk& chunk);
  Mask Both(const Mask& a, const Mask& b);
  Mask Not(const Mask& a, const Chunk& chunk);

  // A guarded load: lanes outside `guard` give 0, lanes outside `active` anything.
  LaneValue Load(const loops::Expr& load, const Chunk& chunk, const Mask& active);
  // The elements of `steps` successive values of `step`, from where its loop begins on, side by
  // side for each lane: <width * steps x element>; what is the same in all lanes once: <steps x
  // element>. Guards do not use `step`.
  LaneValue LoadSteps(const loops::Expr& load, const loops::Stmt& loop, const Chunk& chunk,
                      const Mask& active);
  std::optional<LaneForm> StepsInRows(const loops::Expr& load, const loops::Stmt& loop,
                                      const Chunk& chunk);
  void Store(const loops::Stmt& store, const Chunk& chunk, const Mask& active, LaneValue value);
  void Prefetch(const loops::Stmt& prefetch);
  // Around the iterations of an unrolled loop, and before each.
  void OpenUnrolled(const loops::Stmt& loop);
  void Iteration(int64_t number) { unrolled_.back().at = number; }
  void CloseUnrolled();
  llvm::Value* Splat(LaneValue value, const Chunk& chunk);
  // Elements from a buffer's first, as it lies in memory, and the address of one.
  Affine Offset(loops::BufferId id, const std::vector<Affine>& index) const;
  llvm::Value* PointerTo(loops::BufferId id, const Affine& offset);
  // A pointer to 64 zero bytes.
  llvm::Value* zeros() const { return zeros_; }

 private:
  struct Place {
    llvm::Value* base = nullptr;
    int64_t align = 1;
    llvm::MDNode *scope = nullptr, *others = nullptr;
    std::vector<int64_t> strides;  // register space: of each axis
    int32_t lane_axis = -1;        // register space: the innermost, padded one
  };
  void OpenRegister(size_t id, int32_t lane_axis);
  void MakeAliasScopes();
  bool IsRegister(loops::BufferId id) const { return nest_[id].space == loops::Space::kRegister; }
  llvm::Type* ElementType(loops::BufferId id) const;
  llvm::Value* FromElement(loops::BufferId id, llvm::Value* value);
  llvm::Value* ToElement(loops::BufferId id, llvm::Value* value);
  llvm::Align AlignAt(loops::BufferId id, const Affine& offset) const;
  void Annotate(llvm::Instruction* access, loops::BufferId id);
  llvm::Value* TailMask(const Chunk& chunk);
  bool EndsRow(const loops::Stmt& store, const Chunk& chunk) const;
  llvm::Value* AndMask(llvm::Value* a, llvm::Value* b);
  llvm::Value* LoadOne(loops::BufferId id, llvm::Value* pointer, llvm::Align align,
                       llvm::Value* condition);
  llvm::Value* LoadRow(loops::BufferId id, const Affine& base, const Chunk& chunk,
                       const Mask& mask);
  int64_t WholeRows(loops::BufferId id, const Affine& base, int64_t first, int64_t last,
                    int64_t width, int64_t rows) const;
  llvm::Value* LoadNear(loops::BufferId id, const LaneForm& form, const Chunk& chunk,
                        const Mask& mask);
  llvm::Value* LoadEach(loops::BufferId id, const Affine& offset,
                        const std::optional<LaneForm>& form, const Chunk& chunk, const Mask& mask);
  std::vector<llvm::Value*> Pointers(loops::BufferId id, const Affine& offset,
                                     const std::optional<LaneForm>& form, const Chunk& chunk);
  void StoreRow(const loops::Stmt& store, const Affine& base, const Chunk& chunk, llvm::Value* mask,
                llvm::Value* value);
  void StoreWhole(loops::BufferId id, const Affine& at, llvm::Value* value, bool stream);
  void StoreRegister(loops::BufferId id, const Affine& base, llvm::Value* mask, llvm::Value* value);
  void StoreEach(loops::BufferId id, const Affine& offset, const std::optional<LaneForm>& form,
                 const Chunk& chunk, llvm::Value* mask, llvm::Value* value);
  // memory_nibbles.cpp
  struct Nibble {
    llvm::Value *byte = nullptr, *shift = nullptr;  // a pointer, an i8
  };
  bool IsPacked(loops::BufferId id) const;
  Nibble NibbleAt(loops::BufferId id, const Affine& offset);
  Nibble NibbleAt(loops::BufferId id, llvm::Value* offset);
  std::vector<Nibble> Nibbles(loops::BufferId id, const Affine& offset,
                              const std::optional<LaneForm>& form, const Chunk& chunk);
  llvm::Value* LoadNibble(loops::BufferId id, const Nibble& at, llvm::Value* condition);
  llvm::Value* LoadNibbleRow(loops::BufferId id, const LaneForm& form, const Chunk& chunk,
                             llvm::Value* condition);
  LaneValue LoadPacked(const loops::Expr& load, const Chunk& chunk, const Mask& guard,
                       const Mask& mask);
  void StorePacked(loops::BufferId id, const Affine& offset, const std::optional<LaneForm>& form,
                   const Chunk& chunk, llvm::Value* mask, llvm::Value* value);
  // memory_transpose.cpp
  struct Unrolled {
    const loops::Stmt* loop = nullptr;
    int64_t at = 0;         // the iteration
    int64_t round = 0;      // tells this expansion of the loop from others
    bool straight = false;  // each iteration runs all statements
  };
  struct Touches {
    int64_t loads = 0, stores = 0;
  };
  // Iterations of a place in memory: buffer, first element, distance of lanes, round, lanes.
  using SquareKey = std::tuple<size_t, Affine, int64_t, int64_t, int64_t>;
  struct Square {
    llvm::BasicBlock* block = nullptr;  // where they were loaded
    int64_t columns = 0;                // iterations, from the first
    std::vector<llvm::Value*> values;
  };
  Touches TouchesOf(const std::vector<loops::StmtId>& body, loops::BufferId id) const;
  const Unrolled* RowsOf(loops::BufferId id, const Affine& offset, const LaneForm& form,
                         const Chunk& chunk, const Touches& most) const;
  void Transpose(std::vector<llvm::Value*>& rows, int64_t width);
  llvm::Value* LoadTransposed(const loops::Expr& load, const Affine& offset, const LaneForm& form,
                              const Chunk& chunk);
  std::vector<llvm::Value*> LoadSquare(loops::BufferId id, const Affine& base, const LaneForm& form,
                                       int64_t columns, const Chunk& chunk);
  std::vector<llvm::Value*> LoadInterleaved(loops::BufferId id, const Affine& base, int64_t columns,
                                            const Chunk& chunk);
  llvm::Value* LoadPiece(loops::BufferId id, const Affine& at, int64_t columns);
  llvm::Value* InsertRow(llvm::Value* into, llvm::Value* row, int64_t at);
  bool StoreTransposed(const loops::Stmt& store, const Affine& offset, const LaneForm& form,
                       const Chunk& chunk, llvm::Value* value);
  void StoreSquare(loops::BufferId id, const Affine& base, const LaneForm& form,
                   std::vector<llvm::Value*>& values, int64_t columns, const Chunk& chunk,
                   bool stream);
  void StoreInterleaved(const loops::Stmt& store, const Affine& base,
                        const std::vector<llvm::Value*>& values, const Chunk& chunk);
  template <typename F>
  void When(llvm::Value* condition, F body) {
    if (!condition) return body();
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto* then = llvm::BasicBlock::Create(module_.getContext(), "then", function);
    auto* after = llvm::BasicBlock::Create(module_.getContext(), "after", function);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  llvm::Value* LaneCondition(const Mask& mask, int64_t lane);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  Scope& scope_;
  Ops& ops_;
  const loops::LoopNest& nest_;
  unsigned vector_bytes_;
  std::vector<Place> places_;
  llvm::Value* zeros_ = nullptr;
  std::vector<Unrolled> unrolled_;
  int64_t rounds_ = 0;
  std::map<SquareKey, Square> squares_;
  std::map<SquareKey, std::vector<llvm::Value*>> pending_;  // to be stored
};

}  // namespace weft::codegen
