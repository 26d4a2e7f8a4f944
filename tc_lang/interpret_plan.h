// How the interpreter runs: statements as small programs over strips of lanes.
//
// One index of a statement (its widest, if that keeps the order of each sum) runs in strips of up
// to kStrip lanes. Every node of an expression is one instruction, which computes a strip at a time
// into a slot of its own; so the cost of interpreting is shared by all lanes. Branches that may not
// be taken run under a mask: operations are total, so only reads have to look at it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "tc_lang/interpret.h"
#include "tc_lang/program.h"
#include "tc_lang/region.h"

namespace weft::tc {

inline constexpr int64_t kStrip = 256;

// A strip of values. 16-bit floats are held as f32; integers and bool as int64.
union Slot {
  float f32[kStrip];
  double f64[kStrip];
  int64_t i[kStrip];
};

enum class LaneKind : uint8_t { kF32, kF64, kInt };
inline LaneKind LaneKindOf(Dtype dtype) {
  if (dtype == Dtype::kF64) return LaneKind::kF64;
  return IsFloat(dtype) ? LaneKind::kF32 : LaneKind::kInt;
}

// constant + sum of coefficients[i] * index i.
struct Linear {
  int64_t constant = 0;
  std::vector<int64_t> coefficients;
  int64_t At(const std::vector<int64_t>& indices) const {
    int64_t value = constant;
    for (size_t i = 0; i < coefficients.size(); ++i) value += coefficients[i] * indices[i];
    return value;
  }
};

struct Instruction {
  enum Kind : uint8_t { kIndex, kRead, kGather, kOp, kCheck, kMask, kMaskNot, kSkip } kind = kOp;
  ScalarOp op = ScalarOp::kAdd;
  Dtype operand = Dtype::kF32, dtype = Dtype::kF32;
  int32_t out = -1, mask = -1;  // slots; mask -1: all lanes
  int32_t args[3] = {-1, -1, -1};
  int32_t index = 0;               // kIndex
  size_t skip_to = 0;              // kSkip: when no lane of args[0] is set
  int32_t tensor = -1;             // kRead, kGather
  bool checked = false;            // a subscript may leave the tensor, or find it unwritten
  Linear offset;                   // kRead: of the element
  std::vector<Linear> subscripts;  // kRead when checked
  std::vector<int32_t> gathered;   // kGather: slots of subscripts
  Interval range;                  // kCheck: of args[0]
};

// One expression, compiled.
struct Code {
  std::vector<Instruction> instructions;
  int32_t result = -1;
  Dtype dtype = Dtype::kF32;
};

// No two instances of the left indices write one cell: the binder has made it so
// (bind_scatter.cpp).
struct CompiledStatement {
  const Statement* source = nullptr;
  size_t number = 0;  // 1-based, for messages
  std::vector<Interval> ranges;
  std::vector<int32_t> outer;  // loop order: recurrences, the left, reductions; without the strip
  size_t first_reduction = 0;  // in `outer`
  int32_t strip = -1;          // index; -1: one lane
  Dtype accumulate = Dtype::kF32, companion_dtype = Dtype::kF32;
  std::vector<Linear> guard;  // each >= 0, or the value is `otherwise`
  bool guarded = false;
  Scalar otherwise;
  Code value, companion;
  Linear target;                          // offset of the cell, when subscripts are linear
  std::vector<Affine> target_subscripts;  // otherwise
  std::vector<int64_t> target_strides;
  std::vector<int32_t> recurrence;
};

// The state of a run.
struct Machine {
  const Program* program = nullptr;
  std::vector<int64_t> params;
  bool widen = false;
  std::vector<Tensor> tensors;                // by tensor id, written ones included
  std::vector<void*> data;                    // of each; nullptr where nothing may be written
  std::vector<std::vector<uint8_t>> written;  // by element; empty: known to be written
  std::vector<Slot> slots;
  std::vector<int64_t> at;  // index values at lane 0
  Status error;
  const CompiledStatement* now = nullptr;
  Dtype TypeOf(Dtype dtype) const { return widen && IsFloat(dtype) ? Dtype::kF64 : dtype; }
};

// Literals and params are filled into their slots once, here.
// `pinned`: index 0 belongs to a loop around several statements.
CompiledStatement CompileStatement(Machine& machine, size_t statement, bool pinned);
// Fills code.result's slot for lanes [0, lanes); false with machine.error set.
bool RunCode(Machine& machine, const Code& code, int64_t lanes);
// Runs a statement; pinned: for index 0 = machine.at[0] only.
bool RunStatement(Machine& machine, const CompiledStatement& s, bool pinned);

Scalar GetLane(const Slot& slot, Dtype dtype, int64_t lane);
void SetLane(Slot& slot, Dtype dtype, int64_t lane, Scalar value);

}  // namespace weft::tc
