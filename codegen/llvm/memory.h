// Loads and stores: where a buffer lies, which lanes touch memory, and what may alias what.
#pragma once

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
  void Store(const loops::Stmt& store, const Chunk& chunk, const Mask& active, LaneValue value);
  void Prefetch(const loops::Stmt& prefetch);
  llvm::Value* Splat(LaneValue value, const Chunk& chunk);
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
  Affine Offset(loops::BufferId id, const std::vector<Affine>& index) const;
  llvm::Type* ElementType(loops::BufferId id) const;
  llvm::Value* FromElement(loops::BufferId id, llvm::Value* value);
  llvm::Value* ToElement(loops::BufferId id, llvm::Value* value);
  llvm::Align AlignAt(loops::BufferId id, const Affine& offset) const;
  llvm::Value* PointerTo(loops::BufferId id, const Affine& offset);
  void Annotate(llvm::Instruction* access, loops::BufferId id);
  llvm::Value* TailMask(const Chunk& chunk);
  bool EndsRow(const loops::Stmt& store, const Chunk& chunk) const;
  llvm::Value* AndMask(llvm::Value* a, llvm::Value* b);
  llvm::Value* LoadOne(loops::BufferId id, llvm::Value* pointer, llvm::Align align,
                       llvm::Value* condition);
  llvm::Value* LoadRow(loops::BufferId id, const Affine& base, const Chunk& chunk,
                       const Mask& mask);
  llvm::Value* LoadNear(loops::BufferId id, const LaneForm& form, const Chunk& chunk,
                        const Mask& mask);
  llvm::Value* LoadEach(loops::BufferId id, const Affine& offset,
                        const std::optional<LaneForm>& form, const Chunk& chunk, const Mask& mask);
  std::vector<llvm::Value*> Pointers(loops::BufferId id, const Affine& offset,
                                     const std::optional<LaneForm>& form, const Chunk& chunk);
  void StoreRow(const loops::Stmt& store, const Affine& base, const Chunk& chunk, llvm::Value* mask,
                llvm::Value* value);
  void StoreRegister(loops::BufferId id, const Affine& base, llvm::Value* mask, llvm::Value* value);
  void StoreEach(loops::BufferId id, const Affine& offset, const std::optional<LaneForm>& form,
                 const Chunk& chunk, llvm::Value* mask, llvm::Value* value);
  template <typename F>
  void When(llvm::Value* condition, F body);
  llvm::Value* LaneCondition(const Mask& mask, int64_t lane);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  Scope& scope_;
  Ops& ops_;
  const loops::LoopNest& nest_;
  unsigned vector_bytes_;
  std::vector<Place> places_;
  llvm::Value* zeros_ = nullptr;
};

}  // namespace weft::codegen
