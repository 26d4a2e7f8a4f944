// The walk over a nest that emits its function: statements (kernel.cpp), loops (kernel_loops.cpp),
// what statements compute (kernel_values.cpp) and sums of products of small numbers, in each lane
// (kernel_dot.cpp) or as matrices (kernel_matrix.cpp).
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/target.h"
#include "codegen/llvm/memory.h"
#include "codegen/llvm/sum_of_products.h"

namespace weft::codegen {

class KernelBuilder {
 public:
  KernelBuilder(const loops::LoopNest& nest, const Target& target, llvm::Module& module)
      : nest_(nest),
        target_(target),
        module_(module),
        b_(module.getContext()),
        scope_(b_, nest),
        ops_(b_, module, target.HasAvx512()),
        memory_(b_, module, scope_, ops_, nest, static_cast<unsigned>(target.VectorBytes())) {}

  void Build();

 private:
  // Statements.
  void Body(const std::vector<loops::StmtId>& body);
  void Statement(loops::StmtId id);
  void If(const loops::Stmt& s);
  void Single(const loops::Stmt& s);
  void Barrier();
  void Let(const loops::Stmt& s);
  void Fault(const loops::Stmt& let, const std::array<llvm::Value*, 3>& found, llvm::Value* inside,
             const Chunk& chunk);
  void Assign(const loops::Stmt& s);

  // Loops.
  void SerialLoop(const loops::Stmt& s);
  std::set<loops::ExprId> ValuesOf(const loops::Stmt& s) const;
  int64_t WorkOf(const std::vector<loops::StmtId>& body) const;
  bool SharesReads(const loops::Stmt& loop, int64_t copies, const std::vector<loops::StmtId>& body,
                   std::vector<const loops::Stmt*>& unrolled) const;
  int64_t CopiesOf(const loops::Stmt& s, int64_t trip) const;
  void LoopOfCopies(const loops::Stmt& s, int64_t trip, int64_t copies);
  llvm::Value* Rounds(const loops::Stmt& s, llvm::Value* lo, llvm::Value* hi, bool poll);
  void Copies(const loops::Stmt& s, const Affine& first, int64_t copies);
  bool IsFetched(const loops::Stmt& prefetch) const;
  void ParallelLoop(loops::StmtId id);
  void UnrolledLoop(const loops::Stmt& s);
  void VectorLoop(const loops::Stmt& s);
  void InLanes(const loops::Stmt& s, llvm::function_ref<void()> body);
  // `count` iterations of a loop around lanes, from `first` on, that keep the most extreme of what
  // they find; false if it is none.
  bool Extremes(const loops::Stmt& loop, const Affine& first, int64_t count);
  // An unrolled loop inside the lanes that sums up products of small numbers; false if it is none.
  bool DotProduct(const loops::Stmt& loop);
  llvm::Value* StepsOf(const loops::Expr& load, const loops::Stmt& loop, bool widen,
                       const Chunk& chunk, const Mask& mask);
  llvm::Value* PairOf(const loops::Expr& load, const loops::Stmt& loop, const Chunk& chunk,
                      const Mask& mask);
  llvm::Value* AddSmallProduct(const loops::Expr& sum, const Chunk& chunk, const Mask& mask,
                               std::map<loops::ExprId, LaneValue>& known);
  llvm::Value* AddFloats(llvm::Value* sum, llvm::Value* a, llvm::Value* b);
  llvm::Value* AddIntegers(llvm::Value* sum, llvm::Value* a, llvm::Value* b, bool quads,
                           unsigned width);
  // Loops around a sum of products of bytes or bfloat16, over tiles; false if they are none.
  // `first`, if there is one, stands before them and must set the sums to zero.
  bool MatrixProduct(const loops::Stmt& loop, const loops::Stmt* first = nullptr);
  struct MatrixSum;
  bool OpenMatrixSum(const loops::Stmt& loop, MatrixSum& p) const;
  std::optional<SumOfProducts> SumIn(MatrixSum& p) const;
  std::optional<MatrixSum> AsMatrixSum(const loops::Stmt& loop);
  bool MoveApart(loops::BufferId buffer, const std::vector<Affine>& index, const loops::Stmt* one,
                 const loops::Stmt* other) const;
  bool FactorsLie(MatrixSum& p);
  bool SumsLie(MatrixSum& p) const;
  Affine OffsetIn(const MatrixSum& p, loops::BufferId buffer, const std::vector<Affine>& index,
                  int64_t m, int64_t n, int64_t s = 0, const Affine& q = 0) const;
  void UseTiles(const MatrixSum& p, int64_t quads);
  bool ClearsSums(const MatrixSum& p, const loops::Stmt& first) const;
  void Tile(llvm::Intrinsic::ID move, int64_t tile, loops::BufferId buffer, const Affine& at,
            int64_t stride);
  void MultiplyTiles(const MatrixSum& p, const Affine& q);
  void MatrixLoops(const MatrixSum& p, size_t depth, int64_t first, int64_t at_once, int64_t times);
  void CountedLoop(llvm::Value* begin, llvm::Value* end, int64_t step, bool runs, bool poll,
                   llvm::function_ref<void(llvm::Value*)> body);
  llvm::Value* BoundValue(const std::vector<Affine>& list, bool largest);
  void PollCancel(llvm::BasicBlock* exit);
  bool HoldsBarrier(const std::vector<loops::StmtId>& body) const;
  int64_t Unpolled(const std::vector<loops::StmtId>& body);
  bool IsLong(const loops::Stmt& s, int64_t trips, int64_t once) const;
  bool HoldsLoop(const std::vector<loops::StmtId>& body) const;
  int64_t LanesOf(const loops::Stmt& vector_loop) const;  // that fill a register
  int64_t RegistersOf(const loops::Stmt& vector_loop) const {
    const int64_t lanes = LanesOf(vector_loop);
    return (loops::ConstantTrip(vector_loop) + lanes - 1) / lanes;
  }
  unsigned LaneBytes(const std::vector<loops::StmtId>& body) const;
  unsigned ValueBytes(loops::ExprId id, std::vector<bool>& seen) const;
  bool TakesTurns(const loops::Stmt& loop) const;
  void InTurns(const loops::Stmt& s, const Affine& first, int64_t count);
  void EnterRow(int64_t row);
  void KeepOrder();
  bool Reads(loops::ExprId value, loops::BufferId buffer, const std::vector<Affine>* except) const;

  // Values.

  // A function is a chain of operations that wait for each other. A processor looks ahead of it as
  // far as it has room for what waits: on Zen 1 erf took 47 cycles for each register where its
  // operations take 22. So those of some registers are emitted in turns: of four it takes 36, of
  // six 31, and twelve are too many for the processor's own registers.
  static constexpr int64_t kTogether = 6;
  LaneValue Evaluate(loops::ExprId id, const Chunk& chunk, const Mask& mask,
                     std::map<loops::ExprId, LaneValue>& known);
  bool Holds(Dtype half, loops::ExprId id, int depth = 8) const;
  LaneValue AffineValue(const loops::Expr& e, const Chunk& chunk);
  Mask ActiveMask(const Chunk& chunk);

  llvm::BasicBlock* Block(const char* name) {
    return llvm::BasicBlock::Create(module_.getContext(), name, function_);
  }
  llvm::Value* Field(size_t offset, llvm::Type* type) {
    return b_.CreateLoad(type, b_.CreateGEP(b_.getInt8Ty(), args_, b_.getInt64(offset)));
  }
  llvm::Function* FaultFunction();

  const loops::LoopNest& nest_;
  const Target& target_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  Scope scope_;
  Ops ops_;
  MemoryEmitter memory_;
  llvm::Function* function_ = nullptr;
  llvm::Value *args_ = nullptr, *rank_ = nullptr, *size_ = nullptr, *cancel_ = nullptr;
  std::vector<Chunk> chunks_ = {Chunk{}};
  struct Rows {  // iterations of a loop that one statement takes at once
    const loops::Stmt* loop = nullptr;
    Affine first;
    int64_t count = 1;
  } rows_;
  bool in_vector_ = false;
  bool polled_ = false;  // an outer loop looks at the cancel flag
  struct Copy {          // which iteration of a round of an innermost loop is being emitted
    const loops::Stmt* loop = nullptr;
    int64_t number = 0;
  } copy_;
  bool streams_ = false;
  struct LaneIf {
    const std::vector<Affine>* conditions;
    bool negated;
  };
  std::vector<LaneIf> lane_ifs_;
  std::vector<std::array<uint8_t, 64>> palettes_;  // shapes of tiles that are used
  llvm::Value* palette_ = nullptr;                 // where the number of the last one is kept
};

}  // namespace weft::codegen
