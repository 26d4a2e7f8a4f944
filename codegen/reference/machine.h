// One actor stepping through a flat program, until it ends or stands at a barrier.
#pragma once

#include <array>

#include "codegen/reference/memory.h"
#include "codegen/reference/program.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

struct Grid {
  std::array<int64_t, 6> extent = {1, 1, 1, 1, 1, 1};  // block x y z, thread x y z
  int64_t cluster = 1;                                 // blocks that run together, along x
};

class Machine {
 public:
  Machine(Program& program, CheckedMemory& memory, std::span<const int64_t> params, bool check);

  // What distinguishes the actor: its rank among `size`, or its place in the grid.
  void Place(Actor actor, int32_t rank, int32_t size, const std::array<int64_t, 6>& place);
  Status Run(KernelFault* fault, int64_t& steps_left);
  // Where it stands at an exchange: with whom (0: it does not), and what it has for them. Whoever
  // runs it gives it what it gets.
  int32_t across() const {
    return !done() && program_.ops[pc_].kind == OpKind::kExchange ? program_.ops[pc_].across : 0;
  }
  Scalar offered() const { return offered_; }
  Status PassExchange(Scalar value);
  bool done() const { return pc_ >= program_.ops.size(); }
  size_t pc() const { return pc_; }
  // Whether it stands at a barrier of its cluster.
  bool awaits_cluster() const { return !done() && program_.ops[pc_].cluster; }
  void PassBarrier() {
    actor_.round += program_.ops[pc_].cluster;
    ++actor_.phase;
    ++pc_;
  }

 private:
  struct Frame {
    int64_t at = 0, end = 0;
  };
  bool Holds(const FlatList& conditions) const;
  int64_t MaxOf(const FlatList& list) const;
  int64_t MinOf(const FlatList& list) const;
  void EnterLoop(const FlatOp& op);
  void EnterBand(const FlatOp& op);
  void NextIteration(const FlatOp& loop);
  void SetBandVars(const FlatOp& loop);
  Status Assign(FlatOp& op, KernelFault* fault);
  bool BindLane(const FlatOp& op, int64_t lane);
  Status Evaluate(FlatValue& value, Scalar& result);
  Status LoadNode(const Node& node, Scalar& result);
  Status Store(const FlatOp& op, Scalar value);
  void Let(const FlatOp& op, Scalar value, KernelFault* fault);

  Program& program_;
  CheckedMemory& memory_;
  bool check_;
  Actor actor_;
  int32_t rank_ = 0, size_ = 1;
  std::array<int64_t, 6> place_{};
  size_t pc_ = 0;
  Scalar offered_;
  std::vector<int64_t> vars_, index_;
  std::vector<Frame> frames_;
  std::vector<std::array<int64_t, 64>> lets_;
};

}  // namespace weft::codegen
