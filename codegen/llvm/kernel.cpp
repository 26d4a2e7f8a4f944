#include "codegen/llvm/kernel.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

#include "base/check.h"
#include "codegen/llvm/memory.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

class Kernel {
 public:
  Kernel(const LoopNest& nest, const Target& target, llvm::Module& module)
      : nest_(nest),
        target_(target),
        module_(module),
        b_(module.getContext()),
        scope_(b_, nest),
        ops_(b_, module),
        memory_(b_, module, scope_, ops_, nest, static_cast<unsigned>(target.VectorBytes())) {}

  void Build();

 private:
  // Statements.
  void Body(const std::vector<StmtId>& body);
  void Statement(StmtId id);
  void If(const Stmt& s);
  void Single(const Stmt& s);
  void Barrier();
  void Let(const Stmt& s);
  void Fault(const Stmt& let, Value* found, Value* inside, const Chunk& chunk);
  void Assign(const Stmt& s);

  // Loops.
  void SerialLoop(const Stmt& s);
  void ParallelLoop(StmtId id);
  void UnrolledLoop(const Stmt& s);
  void VectorLoop(const Stmt& s);
  template <typename F>
  void CountedLoop(Value* begin, Value* end, int64_t step, bool runs, bool poll, F body);
  Value* BoundValue(const std::vector<Affine>& list, bool largest);
  void PollCancel(BasicBlock* exit);
  bool HoldsBarrier(const std::vector<StmtId>& body) const;
  bool HoldsLoop(const std::vector<StmtId>& body) const;
  unsigned LaneBytes(const std::vector<StmtId>& body) const;
  unsigned ValueBytes(ExprId id, std::vector<bool>& seen) const;
  bool ReadsElsewhere(const Stmt& store) const;

  // Values.
  LaneValue Evaluate(ExprId id, const Chunk& chunk, const Mask& mask,
                     std::map<ExprId, LaneValue>& known);
  LaneValue AffineValue(const loops::Expr& e, const Chunk& chunk);
  Mask ActiveMask(const Chunk& chunk);

  BasicBlock* Block(const char* name) {
    return BasicBlock::Create(module_.getContext(), name, function_);
  }
  Value* Field(size_t offset, llvm::Type* type) {
    return b_.CreateLoad(type, b_.CreateGEP(b_.getInt8Ty(), args_, b_.getInt64(offset)));
  }
  llvm::Function* FaultFunction();

  const LoopNest& nest_;
  const Target& target_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  Scope scope_;
  Ops ops_;
  MemoryEmitter memory_;
  llvm::Function* function_ = nullptr;
  Value *args_ = nullptr, *rank_ = nullptr, *size_ = nullptr, *cancel_ = nullptr;
  std::vector<Chunk> chunks_ = {Chunk{}};
  bool in_vector_ = false;
  bool polled_ = false;  // an outer loop looks at the cancel flag
  bool streams_ = false;
  struct LaneIf {
    const std::vector<Affine>* conditions;
    bool negated;
  };
  std::vector<LaneIf> lane_ifs_;
};

void Kernel::Build() {
  llvm::Type *ptr = b_.getPtrTy(), *i32 = b_.getInt32Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, i32, i32}, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, nest_.name, module_);
  args_ = function_->getArg(0);
  rank_ = function_->getArg(1);
  size_ = function_->getArg(2);
  b_.SetInsertPoint(Block("entry"));
  memory_.OpenBuffers(args_, rank_);
  Value* cancel = Field(offsetof(KernelArgs, cancel), ptr);
  cancel_ = b_.CreateSelect(b_.CreateIsNull(cancel), memory_.zeros(), cancel);
  Value* params = nest_.params > 0 ? Field(offsetof(KernelArgs, params), ptr) : nullptr;
  std::vector<Value*> values;
  for (int32_t p = 0; p < nest_.params; ++p) {
    values.push_back(
        b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), params, b_.getInt64(p))));
  }
  streams_ = std::ranges::any_of(nest_.stmts, [](const Stmt& s) { return s.stream; });
  scope_.OpenLevel();
  for (int32_t p = 0; p < nest_.params; ++p) scope_.Bind(p, values[p]);
  Body(nest_.body);
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateRetVoid();
  scope_.RemoveAnchors();
  for (llvm::Function& f : module_) {
    if (f.isDeclaration()) continue;
    f.addFnAttr(llvm::Attribute::NoUnwind);
    f.addFnAttr("no-builtins");
    f.addFnAttr("target-cpu", CpuName(target_.isa));
    f.addFnAttr("target-features", CpuFeatures(target_.isa));
    if (target_.VectorBytes() == 64) {
      f.addFnAttr("prefer-vector-width", "512");
      f.addFnAttr("min-legal-vector-width", "512");
    }
  }
}

void Kernel::Body(const std::vector<StmtId>& body) {
  std::vector<const Stmt*> lets;
  for (StmtId id : body) {
    Statement(id);
    if (nest_[id].kind == StmtKind::kLet) lets.push_back(&nest_[id]);
  }
  for (size_t i = lets.size(); i-- > 0;) {
    scope_.ranges().Pop(*lets[i]);
    if (!in_vector_) scope_.CloseLevel();
  }
}

void Kernel::Statement(StmtId id) {
  const Stmt& s = nest_[id];
  switch (s.kind) {
    case StmtKind::kFor:
      if (s.loop == LoopKind::kParallel) return ParallelLoop(id);
      if (s.loop == LoopKind::kVector) return VectorLoop(s);
      return s.loop == LoopKind::kUnroll ? UnrolledLoop(s) : SerialLoop(s);
    case StmtKind::kIf:
      return If(s);
    case StmtKind::kStore:
      return Assign(s);
    case StmtKind::kLet:
      return Let(s);
    case StmtKind::kBarrier:
      return Barrier();
    case StmtKind::kMark:
      return Body(s.body);
    case StmtKind::kSingle:
      return Single(s);
  }
  WEFT_UNREACHABLE();
}

void Kernel::If(const Stmt& s) {
  const auto in_scope = [&](const std::vector<StmtId>& body, const std::vector<Affine>& known) {
    scope_.ranges().PushConstraints(known);
    Body(body);
    scope_.ranges().PopConstraints(known.size());
  };
  std::vector<Affine> conditions;
  for (const Affine& c : s.conditions) conditions.push_back(scope_.Resolve(c));
  const bool by_lane =
      std::ranges::any_of(conditions, [&](const Affine& c) { return scope_.LaneDependent(c); });
  if (in_vector_ && by_lane) {
    lane_ifs_.push_back({&s.conditions, false});
    Body(s.body);
    lane_ifs_.back().negated = true;
    Body(s.otherwise);
    lane_ifs_.pop_back();
    return;
  }
  const Mask mask = memory_.MaskOf(conditions, Chunk{});
  if (mask.never) return Body(s.otherwise);
  if (!mask.uniform) return in_scope(s.body, conditions);
  BasicBlock *then = Block("then"), *otherwise = Block("else"), *after = Block("after");
  b_.CreateCondBr(mask.uniform, then, otherwise);
  b_.SetInsertPoint(then);
  in_scope(s.body, conditions);
  b_.CreateBr(after);
  b_.SetInsertPoint(otherwise);
  Body(s.otherwise);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void Kernel::Single(const Stmt& s) {
  BasicBlock *then = Block("single"), *after = Block("after");
  b_.CreateCondBr(b_.CreateICmpEQ(rank_, b_.getInt32(0)), then, after);
  b_.SetInsertPoint(then);
  Body(s.body);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void Kernel::Barrier() {
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  llvm::Type* ptr = b_.getPtrTy();
  Value* wait = Field(offsetof(KernelArgs, barrier), ptr);
  Value* data = Field(offsetof(KernelArgs, barrier_data), ptr);
  b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {ptr}, false), wait, {data});
}

Value* Kernel::BoundValue(const std::vector<Affine>& list, bool largest) {
  Value* bound = nullptr;
  for (const Affine& e : list) {
    Value* value = scope_.Emit(scope_.Resolve(e));
    const auto id = largest ? llvm::Intrinsic::smax : llvm::Intrinsic::smin;
    bound = bound ? b_.CreateBinaryIntrinsic(id, bound, value) : value;
  }
  return bound;
}

// Head-tested once, then tested at the end of each iteration. body(value of the counter).
template <typename F>
void Kernel::CountedLoop(Value* begin, Value* end, int64_t step, bool runs, bool poll, F body) {
  BasicBlock *before = b_.GetInsertBlock(), *head = Block("loop"), *exit = Block("done");
  if (runs) {
    b_.CreateBr(head);
  } else {
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), head, exit);
  }
  b_.SetInsertPoint(head);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  counter->addIncoming(begin, before);
  if (poll) PollCancel(exit);
  scope_.OpenLevel();
  body(counter);
  scope_.CloseLevel();
  Value* next = b_.CreateAdd(counter, b_.getInt64(static_cast<uint64_t>(step)), "", true, true);
  counter->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), head, exit);
  b_.SetInsertPoint(exit);
}

// Once the flag is set, every loop that polls is left at once. Barriers are still waited at, so
// that no rank is left alone: loops that hold one don't poll.
void Kernel::PollCancel(BasicBlock* exit) {
  auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), cancel_, llvm::Align(4));
  flag->setAtomic(llvm::AtomicOrdering::Monotonic);
  BasicBlock* go = Block("go");
  llvm::MDBuilder md(module_.getContext());
  b_.CreateCondBr(b_.CreateICmpEQ(flag, b_.getInt32(0)), go, exit,
                  md.createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(go);
}

bool Kernel::HoldsBarrier(const std::vector<StmtId>& body) const {
  return std::ranges::any_of(body, [&](StmtId id) {
    return nest_[id].kind == StmtKind::kBarrier || HoldsBarrier(nest_[id].body) ||
           HoldsBarrier(nest_[id].otherwise);
  });
}

bool Kernel::HoldsLoop(const std::vector<StmtId>& body) const {
  return std::ranges::any_of(body, [&](StmtId id) {
    const Stmt& s = nest_[id];
    const bool loop =
        s.kind == StmtKind::kFor && (s.loop == LoopKind::kSerial || s.loop == LoopKind::kParallel);
    return loop || HoldsLoop(s.body) || HoldsLoop(s.otherwise);
  });
}

void Kernel::SerialLoop(const Stmt& s) {
  const int64_t trip = loops::ConstantTrip(s);
  if (trip == 0) return;
  scope_.ranges().Push(s);
  if (trip == 1) {
    scope_.Substitute(s.var, scope_.Resolve(s.lo[0]));
    Body(s.body);
  } else {
    Value *lo = BoundValue(s.lo, true), *hi = BoundValue(s.hi, false);
    const bool poll = !polled_ && !HoldsBarrier(s.body) && HoldsLoop(s.body);
    const bool outer = std::exchange(polled_, polled_ || poll);
    const bool simple = s.lo.size() == 1 && s.lo[0].IsConstant();
    const int64_t multiple = simple ? std::gcd(s.lo[0].constant(), s.step) : 1;
    CountedLoop(lo, hi, s.step, trip > 0, poll, [&](Value* counter) {
      scope_.Bind(s.var, counter, multiple);
      Body(s.body);
    });
    polled_ = outer;
  }
  scope_.ranges().Pop(s);
}

// A band of parallel loops: this rank's share of the product of their ranges.
void Kernel::ParallelLoop(StmtId id) {
  const std::vector<StmtId> band = loops::ParallelBand(nest_, id);
  std::vector<Value*> starts, trips;
  Value* total = b_.getInt64(1);
  for (StmtId member : band) {
    const Stmt& s = nest_[member];
    Value* lo = BoundValue(s.lo, true);
    Value* length = b_.CreateSub(BoundValue(s.hi, false), lo);
    length = b_.CreateAdd(length, b_.getInt64(static_cast<uint64_t>(s.step - 1)));
    Value* trip = b_.CreateSDiv(length, b_.getInt64(static_cast<uint64_t>(s.step)));
    trips.push_back(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, trip, b_.getInt64(0)));
    starts.push_back(lo);
    total = b_.CreateMul(total, trips.back());
  }
  Value* rank = b_.CreateZExt(rank_, b_.getInt64Ty());
  Value* size = b_.CreateZExt(size_, b_.getInt64Ty());
  Value* begin = b_.CreateUDiv(b_.CreateMul(total, rank), size);
  Value* end = b_.CreateUDiv(b_.CreateMul(total, b_.CreateAdd(rank, b_.getInt64(1))), size);
  const bool poll = HoldsLoop(nest_[band.back()].body);
  const bool outer = std::exchange(polled_, poll);
  CountedLoop(begin, end, 1, false, poll, [&](Value* counter) {
    llvm::IRBuilder<> at(scope_.anchor());
    Value* rest = counter;
    for (size_t k = band.size(); k-- > 0;) {
      const Stmt& s = nest_[band[k]];
      Value* place = k == 0 ? rest : at.CreateURem(rest, trips[k]);
      rest = k == 0 ? rest : at.CreateUDiv(rest, trips[k]);
      Value* scaled = at.CreateMul(place, b_.getInt64(static_cast<uint64_t>(s.step)));
      const bool simple = s.lo.size() == 1 && s.lo[0].IsConstant();
      scope_.Bind(s.var, at.CreateAdd(starts[k], scaled),
                  simple ? std::gcd(s.lo[0].constant(), s.step) : 1);
    }
    for (StmtId member : band) scope_.ranges().Push(nest_[member]);
    Body(nest_[band.back()].body);
    for (size_t k = band.size(); k-- > 0;) scope_.ranges().Pop(nest_[band[k]]);
  });
  polled_ = outer;
}

void Kernel::UnrolledLoop(const Stmt& s) {
  const int64_t trip = loops::ConstantTrip(s);
  scope_.ranges().Push(s);
  const Affine lo = scope_.Resolve(s.lo[0]);
  for (int64_t i = 0; i < trip; ++i) {
    scope_.Substitute(s.var, lo + i * s.step);
    Body(s.body);
  }
  scope_.ranges().Pop(s);
}

// The size of the widest value that is computed, which decides how many lanes fill a register.
unsigned Kernel::ValueBytes(ExprId id, std::vector<bool>& seen) const {
  if (seen[id.index]) return 1;
  seen[id.index] = true;
  const loops::Expr& e = nest_[id];
  unsigned bytes = std::max<unsigned>(1, ops_.RegisterType(e.dtype)->getScalarSizeInBits() / 8);
  for (ExprId arg : e.args) bytes = std::max(bytes, ValueBytes(arg, seen));
  return bytes;
}

unsigned Kernel::LaneBytes(const std::vector<StmtId>& body) const {
  unsigned bytes = 1;
  std::vector<bool> seen(nest_.exprs.size());
  for (StmtId id : body) {
    const Stmt& s = nest_[id];
    if (s.value.valid()) bytes = std::max(bytes, ValueBytes(s.value, seen));
    bytes = std::max({bytes, LaneBytes(s.body), LaneBytes(s.otherwise)});
  }
  return bytes;
}

// Full registers, then one in which not all lanes count, or a narrower one.
void Kernel::VectorLoop(const Stmt& s) {
  const int64_t trip = loops::ConstantTrip(s);
  if (trip == 0) return;
  const int64_t full = target_.VectorBytes() / LaneBytes(s.body);
  chunks_.clear();
  for (int64_t first = 0; first < trip; first += full) {
    Chunk chunk{.first = first, .active = std::min(full, trip - first), .number = chunks_.size()};
    chunk.width = 1;
    while (chunk.width < chunk.active) chunk.width *= 2;
    chunks_.push_back(chunk);
  }
  in_vector_ = true;
  scope_.OpenLanes(s.var, s.lo[0], s.step);
  scope_.ranges().Push(s);
  Body(s.body);
  scope_.ranges().Pop(s);
  scope_.CloseLanes();
  in_vector_ = false;
  chunks_ = {Chunk{}};
}

Mask Kernel::ActiveMask(const Chunk& chunk) {
  Mask mask;
  for (const LaneIf& lane_if : lane_ifs_) {
    const Mask own = memory_.MaskOf(*lane_if.conditions, chunk);
    mask = memory_.Both(mask, lane_if.negated ? memory_.Not(own, chunk) : own);
  }
  return mask;
}

// True if the value reads other elements of the buffer that the store writes: all lanes must be
// read first.
bool Kernel::ReadsElsewhere(const Stmt& store) const {
  std::vector<ExprId> todo = {store.value};
  std::vector<bool> seen(nest_.exprs.size());
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    if (seen[id.index]) continue;
    seen[id.index] = true;
    const loops::Expr& e = nest_[id];
    if (e.kind == ExprKind::kLoad && e.buffer == store.buffer && e.index != store.index)
      return true;
    todo.insert(todo.end(), e.args.begin(), e.args.end());
  }
  return false;
}

void Kernel::Assign(const Stmt& s) {
  const bool all_first = chunks_.size() > 1 && ReadsElsewhere(s);
  std::vector<LaneValue> values;
  std::vector<Mask> masks;
  for (const Chunk& chunk : chunks_) {
    std::map<ExprId, LaneValue> known;
    masks.push_back(ActiveMask(chunk));
    if (masks.back().never) {
      values.emplace_back();
      continue;
    }
    values.push_back(Evaluate(s.value, chunk, masks.back(), known));
    if (!all_first) memory_.Store(s, chunk, masks.back(), values.back());
  }
  for (size_t i = 0; all_first && i < chunks_.size(); ++i)
    memory_.Store(s, chunks_[i], masks[i], values[i]);
}

LaneValue Kernel::Evaluate(ExprId id, const Chunk& chunk, const Mask& mask,
                           std::map<ExprId, LaneValue>& known) {
  if (const auto it = known.find(id); it != known.end()) return it->second;
  const loops::Expr& e = nest_[id];
  LaneValue result;
  if (e.kind == ExprKind::kLiteral) {
    result = {ops_.Literal(e.dtype, e.literal), false};
  } else if (e.kind == ExprKind::kAffine) {
    result = AffineValue(e, chunk);
  } else if (e.kind == ExprKind::kLoad) {
    result = memory_.Load(e, chunk, mask);
  } else {
    std::vector<LaneValue> parts;
    for (ExprId arg : e.args) parts.push_back(Evaluate(arg, chunk, mask, known));
    // What is the same in all lanes is computed once.
    result.is_vector = std::ranges::any_of(parts, [](const LaneValue& v) { return v.is_vector; });
    std::vector<Value*> args;
    for (const LaneValue& part : parts)
      args.push_back(result.is_vector ? memory_.Splat(part, chunk) : part.value);
    result.value = ops_.Emit(e.op, nest_[e.args.back()].dtype, e.dtype, args);
  }
  return known[id] = result;
}

LaneValue Kernel::AffineValue(const loops::Expr& e, const Chunk& chunk) {
  const bool is_vector = chunk.width > 1 && scope_.LaneDependent(e.index[0]);
  if (!is_vector && !scope_.LaneDependent(e.index[0])) {
    return {ops_.Cast(Dtype::kI64, e.dtype, scope_.Emit(scope_.Resolve(e.index[0]))), false};
  }
  Value* value = scope_.EmitLanes(e.index[0], chunk);
  // Through 32 bits where they suffice: conversions of 64-bit lanes are slow.
  const Interval range = scope_.ranges().Of(e.index[0]);
  if (is_vector && IsFloat(e.dtype) && range.lo >= INT32_MIN && range.hi <= INT32_MAX) {
    return {ops_.Cast(Dtype::kI32, e.dtype, ops_.Cast(Dtype::kI64, Dtype::kI32, value)), true};
  }
  return {ops_.Cast(Dtype::kI64, e.dtype, value), is_vector};
}

// The value is checked, a violation reported, and the value replaced by the least legal one.
void Kernel::Let(const Stmt& s) {
  std::vector<Value*> lanes;
  for (const Chunk& chunk : chunks_) {
    std::map<ExprId, LaneValue> known;
    const Mask mask = ActiveMask(chunk);
    const LaneValue found = Evaluate(s.value, chunk, mask, known);
    Value* value = memory_.Splat(
        {ops_.Cast(nest_[s.value].dtype, Dtype::kI64, found.value), found.is_vector}, chunk);
    Value *lo = scope_.EmitLanes(s.lo[0], chunk), *hi = scope_.EmitLanes(s.hi[0], chunk);
    Value* inside = b_.CreateAnd(b_.CreateICmpSGE(value, lo), b_.CreateICmpSLT(value, hi));
    Value* clamped = b_.CreateSelect(inside, value, lo);
    Value* unused = nullptr;  // lanes that don't count can't be at fault
    if (chunk.width > 1 && mask.lanes) unused = b_.CreateNot(mask.lanes);
    if (chunk.width == 1 && mask.uniform) unused = b_.CreateNot(mask.uniform);
    Fault(s, value, unused ? b_.CreateOr(inside, unused) : inside, chunk);
    lanes.push_back(clamped);
  }
  scope_.ranges().Push(s);
  if (in_vector_) return scope_.BindLanes(s.var, std::move(lanes));
  scope_.OpenLevel();
  scope_.Bind(s.var, lanes[0]);
}

void Kernel::Fault(const Stmt& let, Value* found, Value* inside, const Chunk& chunk) {
  const auto lane_of = [&](Value* v, int64_t lane) {
    return chunk.width == 1 ? v : b_.CreateExtractElement(v, static_cast<uint64_t>(lane));
  };
  Value* all = lane_of(inside, 0);
  for (int64_t lane = 1; lane < chunk.active; ++lane)
    all = b_.CreateAnd(all, lane_of(inside, lane));
  BasicBlock *fault = Block("fault"), *after = Block("inside");
  llvm::MDBuilder md(module_.getContext());
  b_.CreateCondBr(all, after, fault, md.createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(fault);
  for (int64_t lane = 0; lane < chunk.active; ++lane) {
    b_.CreateCall(FaultFunction(),
                  {args_, lane_of(inside, lane),
                   b_.getInt64(static_cast<uint64_t>(let.buffer.index)), lane_of(found, lane)});
  }
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// void fault(args, inside, operand, index): the first to find something fills the slot.
llvm::Function* Kernel::FaultFunction() {
  if (llvm::Function* known = module_.getFunction("weft_fault")) return known;
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, b_.getInt1Ty(), i64, i64}, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "weft_fault", module_);
  f->addFnAttr(llvm::Attribute::NoInline);
  f->addFnAttr(llvm::Attribute::Cold);
  const auto block = [&](const char* name) {
    return BasicBlock::Create(module_.getContext(), name, f);
  };
  BasicBlock *entry = block("entry"), *claim = block("claim"), *fill = block("fill"),
             *out = block("out");
  llvm::IRBuilder<> b(entry);
  b.CreateCondBr(f->getArg(1), out, claim);
  b.SetInsertPoint(claim);
  Value* slot = b.CreateLoad(
      ptr, b.CreateGEP(b.getInt8Ty(), f->getArg(0), b.getInt64(offsetof(KernelArgs, fault))));
  auto* won =
      b.CreateAtomicCmpXchg(slot, b.getInt64(0), b.getInt64(1), llvm::Align(8),
                            llvm::AtomicOrdering::AcquireRelease, llvm::AtomicOrdering::Acquire);
  b.CreateCondBr(b.CreateExtractValue(won, 1), fill, out);
  b.SetInsertPoint(fill);
  const auto set = [&](size_t offset, Value* v) {
    b.CreateStore(v, b.CreateGEP(b.getInt8Ty(), slot, b.getInt64(offset)));
  };
  set(offsetof(KernelFault, operand), f->getArg(2));
  set(offsetof(KernelFault, index), f->getArg(3));
  b.CreateBr(out);
  b.SetInsertPoint(out);
  b.CreateRetVoid();
  return f;
}

}  // namespace

std::unique_ptr<llvm::Module> BuildModule(const LoopNest& nest, const Target& target,
                                          llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>(nest.name, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  Kernel(nest, target, *module).Build();
  return module;
}

}  // namespace weft::codegen
