// What statements compute: expressions over the lanes of a chunk, stores, and integers that are
// checked.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "codegen/llvm/kernel_builder.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::ExprId;
using loops::ExprKind;
using loops::Stmt;

constexpr size_t kLongChain = 12;  // operations of a function whose registers take turns

Mask KernelBuilder::ActiveMask(const Chunk& chunk) {
  Mask mask;
  for (const LaneIf& lane_if : lane_ifs_) {
    const Mask own = memory_.MaskOf(*lane_if.conditions, chunk);
    mask = memory_.Both(mask, lane_if.negated ? memory_.Not(own, chunk) : own);
  }
  return mask;
}

namespace {

// What is computed for a value, operands first, where that is long; else the value alone.
std::vector<ExprId> OperationsOf(const loops::LoopNest& nest, ExprId value) {
  std::vector<bool> used(nest.exprs.size());
  used[value.index] = true;
  size_t count = 0;
  for (int32_t i = value.index; i >= 0; --i) {  // operands stand before
    if (!used[i]) continue;
    for (const ExprId arg : nest.exprs[i].args) used[arg.index] = true;
    count += nest.exprs[i].kind == ExprKind::kOp;
  }
  if (count < kLongChain) return {value};
  std::vector<ExprId> operations;
  for (int32_t i = 0; i <= value.index; ++i)
    if (used[i]) operations.emplace_back(i);
  return operations;
}

}  // namespace

// Whether iterations of a loop around one long function are registers of it, too: if none waits for
// another's result.
bool KernelBuilder::TakesTurns(const Stmt& loop) const {
  if (loop.body.size() != 1 || in_vector_) return false;
  const Stmt& lanes = nest_[loop.body[0]];
  if (lanes.kind != loops::StmtKind::kFor || lanes.loop != loops::LoopKind::kVector ||
      lanes.body.size() != 1 || !lanes.lo[0].IsConstant())
    return false;
  const Stmt& s = nest_[lanes.body[0]];
  return s.kind == loops::StmtKind::kStore && OperationsOf(nest_, s.value).size() > 1 &&
         !Reads(s.value, s.buffer, nullptr);
}

// So many iterations from `first` on of a loop that takes turns.
void KernelBuilder::InTurns(const Stmt& s, const Affine& first, int64_t count) {
  rows_ = {.loop = &s, .first = first, .count = count};
  Body(s.body);
  rows_ = {};
}

void KernelBuilder::EnterRow(int64_t row) {
  if (rows_.loop->loop == loops::LoopKind::kUnroll) memory_.Iteration(row);
  scope_.Substitute(rows_.loop->var, rows_.first + row * rows_.loop->step);
}

// A label, past which LLVM's scheduler moves nothing: for fewer live registers it would put one
// register's chain after the other's again. It is local to the object and leaves nothing in it.
void KernelBuilder::KeepOrder() {
  llvm::LLVMContext& context = module_.getContext();
  llvm::Value* nothing = llvm::MetadataAsValue::get(context, llvm::MDNode::get(context, {}));
  b_.CreateIntrinsic(llvm::Intrinsic::codeview_annotation, {}, {nothing});
}

// Whether the value is computed from the buffer: from any of it, or other than at this index.
bool KernelBuilder::Reads(ExprId value, loops::BufferId buffer,
                          const std::vector<Affine>* except) const {
  std::vector<ExprId> todo = {value};
  std::vector<bool> seen(nest_.exprs.size());
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    if (seen[id.index]) continue;
    seen[id.index] = true;
    const loops::Expr& e = nest_[id];
    if (e.kind == ExprKind::kLoad && e.buffer == buffer && (!except || e.index != *except))
      return true;
    todo.insert(todo.end(), e.args.begin(), e.args.end());
  }
  return false;
}

void KernelBuilder::Assign(const Stmt& s) {
  const size_t count = chunks_.size() * static_cast<size_t>(rows_.count);
  const auto chunk = [&](size_t i) -> const Chunk& {
    if (rows_.loop != nullptr) EnterRow(static_cast<int64_t>(i / chunks_.size()));
    return chunks_[i % chunks_.size()];
  };
  // Where other lanes' results are read, they are before any is stored.
  const bool all_first = count > 1 && Reads(s.value, s.buffer, &s.index);
  const std::vector<ExprId> operations =
      count > 1 ? OperationsOf(nest_, s.value) : std::vector{s.value};
  const size_t together = operations.size() > 1 ? static_cast<size_t>(kTogether) : 1;
  std::vector<LaneValue> values(count);
  std::vector<Mask> masks(count);
  for (size_t first = 0; first < count; first += together) {
    const size_t end = std::min(first + together, count);
    std::vector<std::map<ExprId, LaneValue>> known(end - first);
    for (size_t i = first; i < end; ++i) masks[i] = ActiveMask(chunk(i));
    for (const ExprId operation : operations) {
      for (size_t i = first; i < end; ++i)
        if (!masks[i].never) values[i] = Evaluate(operation, chunk(i), masks[i], known[i - first]);
      if (end - first > 1 && nest_[operation].kind == ExprKind::kOp) KeepOrder();
    }
    for (size_t i = first; !all_first && i < end; ++i)
      if (!masks[i].never) memory_.Store(s, chunk(i), masks[i], values[i]);
  }
  for (size_t i = 0; all_first && i < count; ++i)
    if (!masks[i].never) memory_.Store(s, chunk(i), masks[i], values[i]);
}

// A maximum is one instruction if the operand that may be NaN is the one it falls back to, so what
// is kept stays NaN. Whether one of the others is takes half an instruction each, as a comparison
// looks at two; where each step mends its own, two.
bool KernelBuilder::Extremes(const Stmt& loop, const Affine& first, int64_t count) {
  const auto only = [&](const Stmt& s) -> const Stmt* {
    return s.body.size() == 1 ? &nest_[s.body[0]] : nullptr;
  };
  const Stmt* lanes = only(loop);
  if (lanes == nullptr || lanes->kind != loops::StmtKind::kFor ||
      lanes->loop != loops::LoopKind::kVector || in_vector_)
    return false;
  const Stmt* store = only(*lanes);
  if (store == nullptr || store->kind != loops::StmtKind::kStore) return false;
  const loops::Expr& e = nest_[store->value];
  const bool extreme =
      e.kind == ExprKind::kOp && (e.op == ScalarOp::kMax || e.op == ScalarOp::kMin);
  if (!extreme || (e.dtype != Dtype::kF32 && e.dtype != Dtype::kF64)) return false;
  const loops::Expr& kept = nest_[e.args[0]];
  const bool keeps = kept.kind == ExprKind::kLoad && kept.buffer == store->buffer &&
                     kept.index == store->index && kept.guards.empty();
  const auto moves = [&](const Affine& at) { return at.Uses(loop.var); };
  if (!keeps || std::ranges::any_of(store->index, moves) || moves(lanes->lo[0]) ||
      Reads(e.args[1], store->buffer, nullptr))
    return false;
  InLanes(*lanes, [&] {
    for (const Chunk& chunk : chunks_) {
      Value* most = memory_.Splat(memory_.Load(kept, chunk, {}), chunk);
      Value *known = nullptr, *odd = nullptr;  // whether all were numbers; one not yet looked at
      const auto look = [&](Value* a, Value* b) {
        Value* numbers = b_.CreateFCmpORD(a, b);
        known = known ? b_.CreateAnd(known, numbers) : numbers;
      };
      for (int64_t i = 0; i < count; ++i) {
        if (loop.loop == loops::LoopKind::kUnroll) memory_.Iteration(i);
        scope_.Substitute(loop.var, first + i * loop.step);
        std::map<ExprId, LaneValue> parts;
        Value* x = memory_.Splat(Evaluate(e.args[1], chunk, {}, parts), chunk);
        Value* more =
            e.op == ScalarOp::kMax ? b_.CreateFCmpOGT(x, most) : b_.CreateFCmpOLT(x, most);
        most = b_.CreateSelect(more, x, most);
        if (odd) look(odd, x);
        odd = odd ? nullptr : x;
      }
      if (odd) look(odd, odd);
      most = b_.CreateSelect(known, most, llvm::ConstantFP::getNaN(most->getType()));
      memory_.Store(*store, chunk, {}, {most, true});
    }
  });
  return true;
}

// Whether a value of f32 is one that this type of 16 bits holds, so that nothing is left to round.
bool KernelBuilder::Holds(Dtype half, ExprId id, int depth) const {
  const loops::Expr& e = nest_[id];
  if (e.dtype != Dtype::kF32 || depth == 0) return false;
  if (e.kind == ExprKind::kLiteral) return ScalarOf(half, e.literal.f32).f32 == e.literal.f32;
  if (e.kind != ExprKind::kOp) return false;
  const auto holds = [&](ExprId arg) { return Holds(half, arg, depth - 1); };
  switch (e.op) {
    case ScalarOp::kCast:
      return nest_[e.args[0]].dtype == half;
    case ScalarOp::kSelect:
      return holds(e.args[1]) && holds(e.args[2]);
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
      return std::ranges::all_of(e.args, holds);
    default:
      return false;
  }
}

LaneValue KernelBuilder::Evaluate(ExprId id, const Chunk& chunk, const Mask& mask,
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
  } else if (Value* added = AddSmallProduct(e, chunk, mask, known)) {
    result = {added, true};
  } else {
    std::vector<LaneValue> parts;
    for (ExprId arg : e.args) parts.push_back(Evaluate(arg, chunk, mask, known));
    // What is the same in all lanes is computed once.
    result.is_vector = std::ranges::any_of(parts, [](const LaneValue& v) { return v.is_vector; });
    std::vector<Value*> args;
    for (const LaneValue& part : parts)
      args.push_back(result.is_vector ? memory_.Splat(part, chunk) : part.value);
    const bool half = e.dtype == Dtype::kBF16 || e.dtype == Dtype::kF16;
    if (half && e.op == ScalarOp::kCast && Holds(e.dtype, e.args[0])) return known[id] = parts[0];
    result.value = ops_.Emit(e.op, nest_[e.args.back()].dtype, e.dtype, args);
  }
  return known[id] = result;
}

LaneValue KernelBuilder::AffineValue(const loops::Expr& e, const Chunk& chunk) {
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
void KernelBuilder::Let(const Stmt& s) {
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
    // Lanes that don't count can't be at fault.
    if (mask.lanes) inside = b_.CreateOr(inside, b_.CreateNot(mask.lanes));
    if (mask.uniform)
      inside = b_.CreateOr(inside, memory_.Splat({b_.CreateNot(mask.uniform), false}, chunk));
    if (!mask.never) Fault(s, {value, lo, hi}, inside, chunk);
    lanes.push_back(clamped);
  }
  scope_.ranges().Push(s);
  if (in_vector_) return scope_.BindLanes(s.var, std::move(lanes));
  scope_.OpenLevel();
  scope_.Bind(s.var, lanes[0]);
}

// `found`: the value and its two limits. Of several lanes at fault the first is told.
void KernelBuilder::Fault(const Stmt& let, const std::array<Value*, 3>& found, Value* inside,
                          const Chunk& chunk) {
  Value *fails = nullptr, *outside = nullptr;
  if (chunk.width == 1) {
    fails = b_.CreateNot(inside);
  } else {
    outside = b_.CreateBitCast(b_.CreateNot(inside), b_.getIntNTy(chunk.width));
    const auto counts =
        llvm::APInt::getLowBitsSet(chunk.width, static_cast<unsigned>(chunk.active));
    outside = b_.CreateAnd(outside, llvm::ConstantInt::get(outside->getType(), counts));
    fails = b_.CreateIsNotNull(outside);
  }
  BasicBlock *fault = Block("fault"), *after = Block("inside");
  llvm::MDBuilder md(module_.getContext());
  b_.CreateCondBr(fails, fault, after, md.createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(fault);
  Value* lane = outside ? b_.CreateIntrinsic(llvm::Intrinsic::cttz, {outside->getType()},
                                             {outside, b_.getTrue()})
                        : nullptr;
  const auto of_lane = [&](Value* v) { return lane ? b_.CreateExtractElement(v, lane) : v; };
  b_.CreateCall(FaultFunction(), {args_, b_.getInt64(let.by_buffer ? 2 : 1),
                                  b_.getInt64(static_cast<uint64_t>(let.buffer.index)),
                                  of_lane(found[0]), of_lane(found[1]), of_lane(found[2])});
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// void fault(args, code, operand, found, lo, hi): the first to find something fills the slot.
llvm::Function* KernelBuilder::FaultFunction() {
  if (llvm::Function* known = module_.getFunction("weft_fault")) return known;
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, i64, i64, i64, i64}, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "weft_fault", module_);
  f->addFnAttr(llvm::Attribute::NoInline);
  f->addFnAttr(llvm::Attribute::Cold);
  const auto block = [&](const char* name) {
    return BasicBlock::Create(module_.getContext(), name, f);
  };
  BasicBlock *claim = block("claim"), *fill = block("fill"), *out = block("out");
  llvm::IRBuilder<> b(claim);
  Value* slot = b.CreateLoad(
      ptr, b.CreateGEP(b.getInt8Ty(), f->getArg(0), b.getInt64(offsetof(KernelArgs, fault))));
  auto* won =
      b.CreateAtomicCmpXchg(slot, b.getInt64(0), f->getArg(1), llvm::Align(8),
                            llvm::AtomicOrdering::AcquireRelease, llvm::AtomicOrdering::Acquire);
  b.CreateCondBr(b.CreateExtractValue(won, 1), fill, out);
  b.SetInsertPoint(fill);
  const auto set = [&](size_t offset, Value* v) {
    b.CreateStore(v, b.CreateGEP(b.getInt8Ty(), slot, b.getInt64(offset)));
  };
  set(offsetof(KernelFault, operand), f->getArg(2));
  set(offsetof(KernelFault, found), f->getArg(3));
  set(offsetof(KernelFault, lo), f->getArg(4));
  set(offsetof(KernelFault, hi), f->getArg(5));
  b.CreateBr(out);
  b.SetInsertPoint(out);
  b.CreateRetVoid();
  return f;
}

}  // namespace weft::codegen
