// Variables and index arithmetic while a nest is turned into IR.
//
// Loop variables are values; those of unrolled loops are replaced by what they stand for, and that
// of a vector loop by its value in each lane. An expression is then a sum over loops: the part that
// belongs to a loop is computed at the head of that loop's body, once, and so nothing of an address
// but what really changes is left in the innermost loop. All strides are constants.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <optional>
#include <vector>

#include "polyhedral/loops/loop_nest.h"
#include "polyhedral/loops/ranges.h"

namespace weft::codegen {

// Some lanes of a vector loop, in one register of `width` lanes of which the first `active` count.
// Width 1 is scalar code.
struct Chunk {
  int64_t first = 0, active = 1;
  unsigned width = 1;
  size_t number = 0;
};

// An expression over the lanes of a chunk: base + diffs[lane].
struct LaneForm {
  Affine base;
  std::vector<int64_t> diffs;
  bool Uniform(int64_t active) const;     // all the same
  bool Contiguous(int64_t active) const;  // one more from lane to lane
};

class Scope {
 public:
  Scope(llvm::IRBuilder<>& builder, const loops::LoopNest& nest)
      : b_(builder), bindings_(nest.vars.size()), ranges_(nest) {}

  // A level is a place where values may be computed ahead of time: the function's entry, the head
  // of a loop's body, what follows a let. It opens where the builder stands.
  void OpenLevel();
  void CloseLevel();
  void RemoveAnchors();  // at the very end
  llvm::Instruction* anchor() const { return levels_.back().anchor; }

  Var NewVar();  // one more than the nest has, for Bind
  void Bind(Var v, llvm::Value* value, int64_t multiple = 1);
  void Substitute(Var v, const Affine& by);
  void OpenLanes(Var v, const Affine& lo, int64_t step);
  void CloseLanes();
  void BindLanes(Var v, std::vector<llvm::Value*> chunks);  // <width x i64> for each chunk
  bool LaneDependent(const Affine& e) const;

  Affine Resolve(const Affine& e) const;  // without unrolled variables
  // nullopt if the lanes differ by more than constants.
  std::optional<LaneForm> Lanes(const Affine& e, const Chunk& chunk) const;
  llvm::Value* Emit(const Affine& e);  // i64, of a resolved expression
  llvm::Value* Pointer(llvm::Value* base, const Affine& bytes);
  llvm::Value* EmitLanes(const Affine& e, const Chunk& chunk);  // <width x i64> in general
  int64_t MultipleOf(const Affine& e) const;  // a constant that divides the value; 0 if it is 0

  loops::Ranges& ranges() { return ranges_; }

 private:
  struct Binding {
    llvm::Value* value = nullptr;
    size_t level = 0;
    int64_t multiple = 1;
    std::optional<Affine> by;
    std::vector<llvm::Value*> lanes;
  };
  struct Level {
    llvm::Instruction* anchor;
    std::map<std::pair<llvm::Value*, Affine>, llvm::Value*> known;
  };
  Affine AtLane(const Affine& resolved, int64_t lane) const;
  size_t LevelOf(const Affine& e) const;
  std::map<size_t, Affine> ByLevel(const Affine& e) const;
  llvm::Value* Part(size_t level, const Affine& part);
  llvm::Value* Sum(const Affine& e, llvm::IRBuilder<>& at);
  llvm::Value* Floor(llvm::IRBuilder<>& at, llvm::Value* dividend, int64_t divisor,
                     bool non_negative) const;
  llvm::Value* LaneSum(const Affine& resolved, const Chunk& chunk);

  llvm::IRBuilder<>& b_;
  std::vector<Binding> bindings_;
  std::vector<Level> levels_;
  std::vector<llvm::Instruction*> anchors_;
  Var lane_var_ = -1;
  Affine lane_lo_;
  int64_t lane_step_ = 1;
  loops::Ranges ranges_;
};

}  // namespace weft::codegen
