// Where the buffers of a nest lie.
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/llvm/memory.h"
#include "plan/kernel_abi.h"

namespace weft::codegen {

using llvm::Value;
using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::LoopNest;
using loops::Space;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

constexpr int64_t kScratchAlign = 64;

// For each buffer, the axis along which vector loops move most often; -1 if none does.
class LaneAxes {
 public:
  explicit LaneAxes(const LoopNest& nest) : nest_(nest), counts_(nest.buffers.size()) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i].resize(nest.buffers[i].shape.size());
    Walk(nest.body, -1);
  }

  int32_t Of(size_t buffer) const {
    const std::vector<int>& counts = counts_[buffer];
    const auto most = std::ranges::max_element(counts);
    return most == counts.end() || *most == 0 ? -1 : static_cast<int32_t>(most - counts.begin());
  }

 private:
  void Walk(const std::vector<StmtId>& body, Var lane) {
    for (StmtId id : body) {
      const Stmt& s = nest_[id];
      const bool vector = s.kind == StmtKind::kFor && s.loop == loops::LoopKind::kVector;
      Walk(s.body, vector ? s.var : lane);
      Walk(s.otherwise, lane);
      if (lane < 0 || !s.value.valid()) continue;
      seen_.assign(nest_.exprs.size(), false);
      Values(s.value, lane);
      if (s.kind == StmtKind::kStore) Count(s.buffer, s.index, lane);
    }
  }

  void Values(ExprId id, Var lane) {
    if (seen_[id.index]) return;
    seen_[id.index] = true;
    const Expr& e = nest_[id];
    if (e.kind == loops::ExprKind::kLoad) Count(e.buffer, e.index, lane);
    for (ExprId arg : e.args) Values(arg, lane);
  }

  void Count(BufferId buffer, const std::vector<Affine>& index, Var lane) {
    for (size_t axis = 0; axis < index.size(); ++axis)
      counts_[buffer.index][axis] += index[axis].Uses(lane);
  }

  const LoopNest& nest_;
  std::vector<std::vector<int>> counts_;
  std::vector<bool> seen_;
};

Value* Field(llvm::IRBuilder<>& b, Value* args, size_t offset, llvm::Type* type) {
  return b.CreateLoad(type, b.CreateGEP(b.getInt8Ty(), args, b.getInt64(offset)));
}

}  // namespace

MemoryEmitter::MemoryEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, Scope& scope,
                             Ops& ops, const LoopNest& nest, unsigned vector_bytes)
    : b_(builder),
      module_(module),
      scope_(scope),
      ops_(ops),
      nest_(nest),
      vector_bytes_(vector_bytes) {
  auto* type = llvm::ArrayType::get(b_.getInt8Ty(), kScratchAlign);
  auto* zeros = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::PrivateLinkage,
                                         llvm::ConstantAggregateZero::get(type), "zeros");
  zeros->setAlignment(llvm::Align(kScratchAlign));
  zeros_ = zeros;
}

void MemoryEmitter::OpenBuffers(Value* args, Value* rank) {
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  Value* operands = Field(b_, args, offsetof(KernelArgs, buffers), ptr);
  Value* team = Field(b_, args, offsetof(KernelArgs, team_scratch), ptr);
  Value* own = Field(b_, args, offsetof(KernelArgs, rank_scratch), ptr);
  Value* stride = Field(b_, args, offsetof(KernelArgs, rank_scratch_stride), i64);
  own = b_.CreateGEP(b_.getInt8Ty(), own, b_.CreateMul(stride, b_.CreateZExt(rank, i64)));
  places_.resize(nest_.buffers.size());
  MakeAliasScopes();
  const LaneAxes axes(nest_);
  for (size_t i = 0; i < nest_.buffers.size(); ++i) {
    const Buffer& buffer = nest_.buffers[i];
    Place& place = places_[i];
    place.align = std::max(buffer.align_bytes, SizeBytes(buffer.dtype));
    if (buffer.space == Space::kRegister) {
      OpenRegister(i, axes.Of(i));
    } else if (buffer.space == Space::kGlobal) {
      place.base = Field(b_, operands, i * sizeof(void*), ptr);
    } else {
      const auto offset = static_cast<uint64_t>(loops::ScratchOffset(nest_, BufferId(i)));
      place.base = b_.CreateGEP(b_.getInt8Ty(), buffer.space == Space::kShared ? team : own,
                                b_.getInt64(offset));
      place.align = kScratchAlign;
    }
    if (place.base) place.base->setName(buffer.name);
  }
}

// The axis of the lanes is innermost and padded to whole registers, so that a vector loop's last,
// partly used register lies in memory (that SROA will remove) like any other. 16-bit floats stay
// f32.
void MemoryEmitter::OpenRegister(size_t id, int32_t lane_axis) {
  const Buffer& buffer = nest_.buffers[id];
  Place& place = places_[id];
  const auto rank = static_cast<int32_t>(buffer.shape.size());
  const int64_t element = module_.getDataLayout().getTypeAllocSize(ElementType(BufferId(id)));
  const int64_t lanes = vector_bytes_ / element;
  std::vector<int32_t> order;  // innermost first
  if (lane_axis >= 0) order.push_back(lane_axis);
  for (int32_t axis = rank; axis-- > 0;) {
    if (axis != lane_axis) order.push_back(axis);
  }
  place.strides.resize(rank);
  place.lane_axis = lane_axis;
  int64_t stride = 1;
  for (int32_t axis : order) {
    place.strides[axis] = stride;
    const int64_t extent = buffer.shape[axis].constant();
    stride *= axis == lane_axis ? (extent + lanes - 1) / lanes * lanes : extent;
  }
  const int64_t elems = stride + (lane_axis >= 0 ? lanes : 0);
  auto* type = llvm::ArrayType::get(ElementType(BufferId(id)), static_cast<uint64_t>(elems));
  auto* slot = b_.CreateAlloca(type);
  slot->setAlignment(llvm::Align(kScratchAlign));
  place.base = slot;
  place.align = kScratchAlign;
}

// Operands and scratch are distinct: each has an alias scope, and an access of one names all the
// others.
void MemoryEmitter::MakeAliasScopes() {
  llvm::MDBuilder md(module_.getContext());
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain(nest_.name);
  std::vector<llvm::Metadata*> scopes;
  for (const Buffer& buffer : nest_.buffers)
    scopes.push_back(md.createAnonymousAliasScope(domain, buffer.name));
  for (size_t i = 0; i < scopes.size(); ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    places_[i].scope = llvm::MDNode::get(module_.getContext(), {scopes[i]});
    places_[i].others = llvm::MDNode::get(module_.getContext(), others);
  }
}

Affine MemoryEmitter::Offset(BufferId id, const std::vector<Affine>& index) const {
  if (!IsRegister(id)) return loops::ElementOffset(nest_[id], index);
  Affine offset;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const auto& fold = nest_[id].fold;
    const bool folded = axis < fold.size() && fold[axis] > 0;
    offset +=
        (folded ? Mod(index[axis], fold[axis]) : index[axis]) * places_[id.index].strides[axis];
  }
  return offset;
}

llvm::Type* MemoryEmitter::ElementType(BufferId id) const {
  const Dtype dtype = nest_[id].dtype;
  const bool as_f32 = IsRegister(id) && IsFloat(dtype);
  return as_f32 ? ops_.RegisterType(dtype) : ops_.MemoryType(dtype);
}

Value* MemoryEmitter::FromElement(BufferId id, Value* value) {
  return IsRegister(id) && IsFloat(nest_[id].dtype) ? value
                                                    : ops_.FromMemory(nest_[id].dtype, value);
}

Value* MemoryEmitter::ToElement(BufferId id, Value* value) {
  return IsRegister(id) && IsFloat(nest_[id].dtype) ? value : ops_.ToMemory(nest_[id].dtype, value);
}

Value* MemoryEmitter::PointerTo(BufferId id, const Affine& offset) {
  const int64_t size = module_.getDataLayout().getTypeAllocSize(ElementType(id));
  return scope_.Pointer(places_[id.index].base, IsPacked(id) ? FloorDiv(offset, 2) : offset * size);
}

// What is promised of the first element and of everything that is added to it.
llvm::Align MemoryEmitter::AlignAt(BufferId id, const Affine& offset) const {
  const int64_t size = module_.getDataLayout().getTypeAllocSize(ElementType(id));
  const int64_t multiple = scope_.MultipleOf(offset);
  if (IsPacked(id) && multiple % 2 != 0) return llvm::Align(1);
  const int64_t step = IsPacked(id) ? multiple / 2 : multiple * size;
  const int64_t align = places_[id.index].align;
  return llvm::Align(static_cast<uint64_t>(step == 0 ? align : std::min(align, step & -step)));
}

void MemoryEmitter::Annotate(llvm::Instruction* access, BufferId id) {
  if (IsRegister(id)) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, places_[id.index].scope);
  access->setMetadata(llvm::LLVMContext::MD_noalias, places_[id.index].others);
  if (nest_[id].access == loops::Access::kIn && llvm::isa<llvm::LoadInst>(access)) {
    access->setMetadata(llvm::LLVMContext::MD_invariant_load,
                        llvm::MDNode::get(module_.getContext(), {}));
  }
}

}  // namespace weft::codegen
