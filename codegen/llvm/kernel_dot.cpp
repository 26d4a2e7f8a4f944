// Sums of products of small integers, several steps of the reduction an instruction.
//
// The nest says it step by step, an unrolled loop inside the lanes:
//
//   vector n { unroll k = 0:2 { y[m, n] = y[m, n] + cast(x[.., k]):i32 * cast(w[k, n]):i32 } }
//
// Sums modulo 2^32 are the same in every order, so this is a matter of choosing instructions:
// VPMADDWD multiplies pairs of 16-bit integers and adds the two products, VPDPWSSD adds the sum to
// the accumulator as well, and VPDPBUSD does so for four products of an unsigned and a signed byte
// (Intel's Software Developer's Manual, volume 2). None of them saturates what is a sum of 32 bits.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <optional>

#include "codegen/llvm/kernel_builder.h"

namespace weft::codegen {
namespace {

using llvm::Value;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopNest;
using loops::Stmt;

// The load below a cast to 32 bits, if 16 bits with a sign hold what it loads and all iterations of
// the loop have the same guards.
const loops::Expr* Narrow(const LoopNest& nest, ExprId id, Var step) {
  const loops::Expr& cast = nest[id];
  if (cast.kind != ExprKind::kOp || cast.op != ScalarOp::kCast) return nullptr;
  const loops::Expr& load = nest[cast.args[0]];
  const bool fits =
      load.dtype == Dtype::kI16 || load.dtype == Dtype::kI8 || load.dtype == Dtype::kU8;
  if (load.kind != ExprKind::kLoad || !fits) return nullptr;
  const auto moves = [step](const Affine& guard) { return guard.Uses(step); };
  return std::ranges::any_of(load.guards, moves) ? nullptr : &load;
}

struct SumOfProducts {
  const Stmt* store = nullptr;
  ExprId sum;  // loads what was there
  const loops::Expr *a = nullptr, *b = nullptr;
};

std::optional<SumOfProducts> AsSumOfProducts(const LoopNest& nest, const Stmt& loop) {
  if (loop.body.size() != 1) return std::nullopt;
  const Stmt& store = nest[loop.body[0]];
  if (store.kind != loops::StmtKind::kStore || store.stream) return std::nullopt;
  const loops::Expr& add = nest[store.value];
  const auto is = [](const loops::Expr& e, ScalarOp op) {
    return e.kind == ExprKind::kOp && e.op == op && e.dtype == Dtype::kI32;
  };
  if (!is(add, ScalarOp::kAdd) || !is(nest[add.args[1]], ScalarOp::kMul)) return std::nullopt;
  const loops::Expr &old = nest[add.args[0]], &product = nest[add.args[1]];
  const bool same = old.kind == ExprKind::kLoad && old.buffer == store.buffer &&
                    old.index == store.index && old.guards.empty();
  const auto moves = [&](const Affine& e) { return e.Uses(loop.var); };
  if (!same || std::ranges::any_of(store.index, moves)) return std::nullopt;
  SumOfProducts sum{.store = &store,
                    .sum = add.args[0],
                    .a = Narrow(nest, product.args[0], loop.var),
                    .b = Narrow(nest, product.args[1], loop.var)};
  const bool aliases =
      sum.a && sum.b && (sum.a->buffer == store.buffer || sum.b->buffer == store.buffer);
  if (!sum.a || !sum.b || aliases) return std::nullopt;
  return sum;
}

struct Instruction {
  llvm::Intrinsic::ID id = llvm::Intrinsic::not_intrinsic;
  bool adds = false;  // takes the accumulator too
};

// For `width` lanes of 32 bits.
Instruction PairsOf(Isa isa, unsigned width) {
  using namespace llvm;
  const bool fused = HasDotProducts(isa);
  if (width == 16) {
    return fused ? Instruction{Intrinsic::x86_avx512_vpdpwssd_512, true}
                 : Instruction{Intrinsic::x86_avx512_pmaddw_d_512};
  }
  if (width == 8) {
    return fused ? Instruction{Intrinsic::x86_avx512_vpdpwssd_256, true}
                 : Instruction{Intrinsic::x86_avx2_pmadd_wd};
  }
  return fused ? Instruction{Intrinsic::x86_avx512_vpdpwssd_128, true}
               : Instruction{Intrinsic::x86_sse2_pmadd_wd};
}

Instruction QuadsOf(unsigned width) {
  using namespace llvm;
  if (width == 16) return {Intrinsic::x86_avx512_vpdpbusd_512, true};
  if (width == 8) return {Intrinsic::x86_avx512_vpdpbusd_256, true};
  return {Intrinsic::x86_avx512_vpdpbusd_128, true};
}

}  // namespace

bool KernelBuilder::DotProduct(const Stmt& loop) {
  constexpr unsigned kFewest = 4;  // lanes
  const int64_t steps = loops::ConstantTrip(loop);
  if (!in_vector_ || loop.step != 1 || (steps != 2 && steps != 4)) return false;
  const auto sum = AsSumOfProducts(nest_, loop);
  if (!sum) return false;
  const bool quads = steps == 4;
  const bool by_bytes = HasDotProducts(target_.isa) &&
                        ((sum->a->dtype == Dtype::kU8 && sum->b->dtype == Dtype::kI8) ||
                         (sum->a->dtype == Dtype::kI8 && sum->b->dtype == Dtype::kU8));
  const auto wide = [](const Chunk& chunk) { return chunk.width >= kFewest; };
  if ((quads && !by_bytes) || !std::ranges::all_of(chunks_, wide)) return false;
  const bool swap = quads && sum->b->dtype == Dtype::kU8;  // the unsigned factor comes first
  const loops::Expr &a = swap ? *sum->b : *sum->a, &b = swap ? *sum->a : *sum->b;
  for (const Chunk& chunk : chunks_) {
    const Mask mask = ActiveMask(chunk);
    if (mask.never) continue;
    const auto factor = [&](const loops::Expr& load) {
      LaneValue value = memory_.LoadSteps(load, loop, chunk, mask);
      if (!quads) value.value = ops_.Cast(load.dtype, Dtype::kI16, value.value);
      llvm::Type* lane = b_.getInt32Ty();
      if (!value.is_vector)
        return b_.CreateVectorSplat(chunk.width, b_.CreateBitCast(value.value, lane));
      return b_.CreateBitCast(value.value, llvm::FixedVectorType::get(lane, chunk.width));
    };
    Value *first = factor(a), *second = factor(b);
    std::map<ExprId, LaneValue> known;
    Value* old = memory_.Splat(Evaluate(sum->sum, chunk, mask, known), chunk);
    const Instruction instruction =
        quads ? QuadsOf(chunk.width) : PairsOf(target_.isa, chunk.width);
    Value* result = nullptr;
    if (instruction.adds) {
      result = b_.CreateIntrinsic(instruction.id, {}, {old, first, second});
    } else {
      auto* pairs = llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * chunk.width);
      result = b_.CreateIntrinsic(
          instruction.id, {}, {b_.CreateBitCast(first, pairs), b_.CreateBitCast(second, pairs)});
      result = b_.CreateAdd(old, result);
    }
    memory_.Store(*sum->store, chunk, mask, {result, true});
  }
  return true;
}

}  // namespace weft::codegen
