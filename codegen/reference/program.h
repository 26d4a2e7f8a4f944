// A nest as a flat program: what the interpreter steps through. Statements are positions, so a rank
// can stop at a barrier in the middle of loops and another one take over.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "polyhedral/loops/loop_nest.h"

namespace weft::codegen {

// An affine expression without indirection but for floors.
class FlatAffine {
 public:
  explicit FlatAffine(const Affine& e);
  int64_t Eval(const int64_t* vars) const;

 private:
  struct Floor;
  int64_t constant_;
  std::vector<std::pair<Var, int64_t>> terms_;
  std::vector<Floor> floors_;
};

struct FlatAffine::Floor {
  int64_t coefficient;
  FlatAffine dividend;
  int64_t divisor;
};

inline int64_t FlatAffine::Eval(const int64_t* vars) const {
  int64_t sum = constant_;
  for (const auto& [var, coefficient] : terms_) sum += coefficient * vars[var];
  for (const Floor& f : floors_) sum += f.coefficient * FloorDiv(f.dividend.Eval(vars), f.divisor);
  return sum;
}

using FlatList = std::vector<FlatAffine>;

struct Access {
  loops::BufferId buffer;
  FlatAffine offset{0};
  FlatList index;  // for checks
};

// One node of a value: writes the slot of its own position.
struct Node {
  loops::ExprKind kind = loops::ExprKind::kLiteral;
  ScalarOp op = ScalarOp::kAdd;
  Dtype operand = Dtype::kF32, dtype = Dtype::kF32;
  std::array<int32_t, kMostArity> args{};
  Access access;         // kLoad
  FlatList guards;       // kLoad
  FlatAffine affine{0};  // kAffine
};

struct FlatValue {
  std::vector<Node> nodes;    // the last is the value
  std::vector<Scalar> slots;  // literals filled in
};

// What a lane must bind before a statement of a vector loop runs for it, in this order.
struct LaneBinding {
  Var var;
  FlatList lo;       // an unrolled loop's start; empty: a let, whose lanes lie in lane values
  Var counter = -1;  // an unrolled loop's iteration
  int64_t step = 1;
  int32_t let = -1;
};

struct LaneMask {
  FlatList conditions;
  bool negated;
};

enum class OpKind : uint8_t {
  kLoop,
  kLoopEnd,
  kIf,
  kJump,
  kStore,
  kExchange,
  kLet,
  kBarrier,
  kSingle
};

struct FlatOp {
  OpKind kind = OpKind::kStore;
  size_t target = 0;  // kLoop, kIf, kSingle: where to go if not taken; kLoopEnd: its loop; kJump
  // kLoop: one loop, or the loops of a parallel band. `frame` is the first of its frames.
  std::vector<Var> vars;
  std::vector<FlatList> lo, hi;
  std::vector<int64_t> steps;
  loops::LoopKind loop = loops::LoopKind::kSerial;
  size_t frame = 0;
  FlatList conditions;   // kIf
  int32_t across = 0;    // kExchange
  bool cluster = false;  // kBarrier
  // kStore, kExchange, kLet
  Access access;
  FlatValue value;
  // In a vector loop: its variable, first value, step and lanes (0: not in one).
  Var lane_var = -1;
  FlatList lane_lo;
  int64_t lane_step = 1, lanes = 0;
  std::vector<LaneBinding> bindings;
  std::vector<LaneMask> masks;
  bool by_buffer = false;  // kLet
  int32_t let = -1;        // kLet in a vector loop: where its lanes' values lie
};

struct Program {
  std::vector<FlatOp> ops;
  size_t vars = 0, frames = 0, lets = 0;
  bool grid = false;  // block and thread loops: CUDA's meaning
};

Program Flatten(const loops::LoopNest& nest);

}  // namespace weft::codegen
