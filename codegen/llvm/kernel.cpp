#include "codegen/llvm/kernel.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/llvm/kernel_builder.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::LoopKind;
using loops::LoopNest;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

void KernelBuilder::Build() {
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
  if (palette_) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
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

namespace {

bool IsSerialLoop(const Stmt& s) { return s.kind == StmtKind::kFor && s.loop == LoopKind::kSerial; }

}  // namespace

void KernelBuilder::Body(const std::vector<StmtId>& body) {
  std::vector<const Stmt*> lets;
  for (size_t i = 0; i < body.size(); ++i) {
    const StmtId id = body[i];
    if (i + 1 < body.size() && IsSerialLoop(nest_[body[i + 1]]) &&
        MatrixProduct(nest_[body[i + 1]], &nest_[id])) {
      ++i;
      continue;
    }
    Statement(id);
    if (nest_[id].kind == StmtKind::kLet) lets.push_back(&nest_[id]);
  }
  for (size_t i = lets.size(); i-- > 0;) {
    scope_.ranges().Pop(*lets[i]);
    if (!in_vector_) scope_.CloseLevel();
  }
}

void KernelBuilder::Statement(StmtId id) {
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
    case StmtKind::kPrefetch:
      if (!IsFetched(s)) memory_.Prefetch(s);
      return;
    case StmtKind::kSingle:
      return Single(s);
  }
  WEFT_UNREACHABLE();
}

void KernelBuilder::If(const Stmt& s) {
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

void KernelBuilder::Single(const Stmt& s) {
  BasicBlock *then = Block("single"), *after = Block("after");
  b_.CreateCondBr(b_.CreateICmpEQ(rank_, b_.getInt32(0)), then, after);
  b_.SetInsertPoint(then);
  Body(s.body);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void KernelBuilder::Barrier() {
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  llvm::Type* ptr = b_.getPtrTy();
  Value* wait = Field(offsetof(KernelArgs, barrier), ptr);
  Value* data = Field(offsetof(KernelArgs, barrier_data), ptr);
  b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {ptr}, false), wait, {data});
}

std::unique_ptr<llvm::Module> BuildModule(const LoopNest& nest, const Target& target,
                                          llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>(nest.name, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  KernelBuilder(nest, target, *module).Build();
  return module;
}

}  // namespace weft::codegen
