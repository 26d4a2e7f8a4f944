#include "codegen/reference/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace weft::codegen {

using loops::ExprKind;
using loops::LoopKind;

Machine::Machine(Program& program, CheckedMemory& memory, std::span<const int64_t> params,
                 bool check)
    : program_(program),
      memory_(memory),
      check_(check),
      vars_(program.vars),
      frames_(program.frames),
      lets_(program.lets) {
  std::ranges::copy(params, vars_.begin());
}

void Machine::Place(Actor actor, int32_t rank, int32_t size, const std::array<int64_t, 6>& place) {
  actor_ = actor;
  rank_ = rank;
  size_ = size;
  place_ = place;
  pc_ = 0;
}

bool Machine::Holds(const FlatList& conditions) const {
  return std::ranges::all_of(conditions,
                             [&](const FlatAffine& e) { return e.Eval(vars_.data()) >= 0; });
}

int64_t Machine::MaxOf(const FlatList& list) const {
  int64_t value = std::numeric_limits<int64_t>::min();
  for (const FlatAffine& e : list) value = std::max(value, e.Eval(vars_.data()));
  return value;
}

int64_t Machine::MinOf(const FlatList& list) const {
  int64_t value = std::numeric_limits<int64_t>::max();
  for (const FlatAffine& e : list) value = std::min(value, e.Eval(vars_.data()));
  return value;
}

Status Machine::Run(KernelFault* fault, int64_t& steps_left) {
  while (!done()) {
    FlatOp& op = program_.ops[pc_];
    switch (op.kind) {
      case OpKind::kLoop:
        op.loop == LoopKind::kParallel ? EnterBand(op) : EnterLoop(op);
        break;
      case OpKind::kLoopEnd:
        if (--steps_left < 0) return Limit("the interpreter has taken as many steps as it may");
        NextIteration(program_.ops[op.target]);
        break;
      case OpKind::kIf:
        pc_ = Holds(op.conditions) ? pc_ + 1 : op.target;
        break;
      case OpKind::kSingle:
        pc_ = rank_ == 0 ? pc_ + 1 : op.target;
        break;
      case OpKind::kJump:
        pc_ = op.target;
        break;
      case OpKind::kBarrier:
        return {};
      case OpKind::kExchange:
        if (--steps_left < 0) return Limit("the interpreter has taken as many steps as it may");
        return Evaluate(op.value, offered_);
      case OpKind::kStore:
      case OpKind::kLet:
        if (--steps_left < 0) return Limit("the interpreter has taken as many steps as it may");
        WEFT_TRY(Assign(op, fault));
        ++pc_;
        break;
    }
  }
  return {};
}

void Machine::EnterLoop(const FlatOp& op) {
  Frame& f = frames_[op.frame];
  f.at = MaxOf(op.lo[0]);
  f.end = MinOf(op.hi[0]);
  if (loops::IsGrid(op.loop)) {  // this actor's one iteration
    f.at += op.steps[0] * place_[loops::GridAxis(op.loop)];
    f.end = std::min(f.end, f.at + 1);
  }
  vars_[op.vars[0]] = f.at;
  pc_ = f.at < f.end ? pc_ + 1 : op.target;
}

// Frame 0 counts the iterations of the whole band; frame k+1 holds the start and trip count of loop
// k.
void Machine::EnterBand(const FlatOp& op) {
  int64_t total = 1;
  for (size_t k = 0; k < op.vars.size(); ++k) {
    Frame& f = frames_[op.frame + k + 1];
    f.at = MaxOf(op.lo[k]);
    f.end = std::max<int64_t>(0, CeilDiv(MinOf(op.hi[k]) - f.at, op.steps[k]).constant());
    total *= f.end;
  }
  Frame& all = frames_[op.frame];
  all.at = total * rank_ / size_;
  all.end = total * (rank_ + 1) / size_;
  if (all.at < all.end) SetBandVars(op);
  pc_ = all.at < all.end ? pc_ + 1 : op.target;
}

void Machine::SetBandVars(const FlatOp& loop) {
  int64_t rest = frames_[loop.frame].at;
  for (size_t k = loop.vars.size(); k-- > 0;) {
    const Frame& f = frames_[loop.frame + k + 1];
    vars_[loop.vars[k]] = f.at + rest % f.end * loop.steps[k];
    rest /= f.end;
  }
}

void Machine::NextIteration(const FlatOp& loop) {
  Frame& f = frames_[loop.frame];
  const bool band = loop.loop == LoopKind::kParallel;
  f.at += band ? 1 : loop.steps[0];
  if (f.at >= f.end) {
    pc_ = loop.target;
    return;
  }
  band ? SetBandVars(loop) : void(vars_[loop.vars[0]] = f.at);
  pc_ = static_cast<size_t>(&loop - program_.ops.data()) + 1;
}

Status Machine::Assign(FlatOp& op, KernelFault* fault) {
  Scalar value;
  if (op.lanes == 0) {
    WEFT_TRY(Evaluate(op.value, value));
    if (op.kind == OpKind::kStore) return Store(op, value);
    Let(op, value, fault);
    return {};
  }
  // All lanes read before any is written, as one instruction would.
  std::array<Scalar, 64> values;
  uint64_t active = 0;
  for (int64_t lane = 0; lane < op.lanes; ++lane) {
    if (!BindLane(op, lane)) continue;
    active |= uint64_t{1} << lane;
    WEFT_TRY(Evaluate(op.value, values[lane]));
  }
  for (int64_t lane = 0; lane < op.lanes; ++lane) {
    if ((active >> lane & 1) == 0) continue;
    BindLane(op, lane);
    if (op.kind == OpKind::kStore) {
      WEFT_TRY(Store(op, values[lane]));
    } else {
      Let(op, values[lane], fault);
      lets_[op.let][lane] = vars_[op.vars[0]];
    }
  }
  return {};
}

// Sets what depends on the lane; false if the lane is masked off.
bool Machine::BindLane(const FlatOp& op, int64_t lane) {
  vars_[op.lane_var] = MaxOf(op.lane_lo) + lane * op.lane_step;
  for (const LaneBinding& b : op.bindings) {
    vars_[b.var] = b.let >= 0 ? lets_[b.let][lane] : MaxOf(b.lo) + vars_[b.counter] * b.step;
  }
  return std::ranges::all_of(op.masks,
                             [&](const LaneMask& m) { return Holds(m.conditions) != m.negated; });
}

Status Machine::LoadNode(const Node& node, Scalar& result) {
  const loops::BufferId buffer = node.access.buffer;
  result = {};
  if (!Holds(node.guards)) return {};
  const int64_t offset = node.access.offset.Eval(vars_.data());
  if (check_) {
    index_.clear();
    for (const FlatAffine& e : node.access.index) index_.push_back(e.Eval(vars_.data()));
    WEFT_TRY(memory_.Read(buffer, index_, offset, actor_));
  }
  result = LoadScalar(node.dtype, memory_.Base(buffer, actor_), offset);
  return {};
}

namespace {

// The operations that fill most of a network's time; the rest goes through EvalScalar.
bool FastF32(const Node& n, const Scalar* s, Scalar& result) {
  const float a = s[n.args[0]].f32, b = s[n.args[1]].f32;
  switch (n.op) {
    case ScalarOp::kAdd:
      result.f32 = a + b;
      return true;
    case ScalarOp::kSub:
      result.f32 = a - b;
      return true;
    case ScalarOp::kMul:
      result.f32 = a * b;
      return true;
    case ScalarOp::kFma:
      result.f32 = std::fma(a, b, s[n.args[2]].f32);
      return true;
    default:
      return false;
  }
}

}  // namespace

Status Machine::Evaluate(FlatValue& value, Scalar& result) {
  Scalar* slots = value.slots.data();
  for (size_t i = 0; i < value.nodes.size(); ++i) {
    const Node& n = value.nodes[i];
    switch (n.kind) {
      case ExprKind::kLiteral:
        break;
      case ExprKind::kAffine:
        slots[i] = ScalarOfInt(n.dtype, n.affine.Eval(vars_.data()));
        break;
      case ExprKind::kLoad:
        WEFT_TRY(LoadNode(n, slots[i]));
        break;
      case ExprKind::kOp: {
        if (n.dtype == Dtype::kF32 && n.operand == Dtype::kF32 && FastF32(n, slots, slots[i]))
          break;
        const auto arity = static_cast<size_t>(ScalarArity(n.op));
        std::array<Scalar, kMostArity> args;
        for (size_t k = 0; k < arity; ++k) args[k] = slots[n.args[k]];
        slots[i] = EvalScalar(n.op, n.operand, n.dtype, {args.data(), arity});
        break;
      }
    }
  }
  result = slots[value.nodes.size() - 1];
  return {};
}

Status Machine::Store(const FlatOp& op, Scalar value) {
  const int64_t offset = op.access.offset.Eval(vars_.data());
  if (check_) {
    index_.clear();
    for (const FlatAffine& e : op.access.index) index_.push_back(e.Eval(vars_.data()));
    WEFT_TRY(memory_.Write(op.access.buffer, index_, offset, actor_));
  }
  StoreScalar(op.value.nodes.back().dtype, memory_.Base(op.access.buffer, actor_), offset, value);
  return {};
}

Status Machine::PassExchange(Scalar value) { return Store(program_.ops[pc_++], value); }

void Machine::Let(const FlatOp& op, Scalar value, KernelFault* fault) {
  const int64_t lo = MaxOf(op.lo[0]), hi = MinOf(op.hi[0]);
  const bool inside = value.i >= lo && value.i < hi;
  if (!inside && fault && fault->code == 0) {
    *fault = {.code = op.by_buffer ? 2U : 1U,
              .operand = static_cast<uint64_t>(op.access.buffer.index),
              .found = value.i,
              .lo = lo,
              .hi = hi};
  }
  vars_[op.vars[0]] = inside ? value.i : lo;
}

}  // namespace weft::codegen
