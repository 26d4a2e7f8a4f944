// Sums of products of numbers of a byte or two, several steps of the reduction at once.
//
// The nest says it step by step, an unrolled loop inside the lanes:
//
//   vector n { unroll k = 0:2 { y[m, n] = y[m, n] + cast(x[.., k]):i32 * cast(w[k, n]):i32 } }
//
// Sums modulo 2^32 are the same in every order, so this is a matter of choosing instructions:
// VPMADDWD multiplies pairs of 16-bit integers and adds the two products, VPDPWSSD adds the sum to
// the accumulator as well, and VPDPBUSD does so for four products of an unsigned and a signed byte
// (Intel's Software Developer's Manual, volume 2). None of them saturates what is a sum of 32 bits.
//
// A single step is a pair whose other product is 0, since VPMADDWD is cheaper than VPMULLD.
//
// Products of bfloat16 are added up in their order, by the same FMAs: but neighbouring steps share
// their loads, as one is the upper half of 32 bits and the other the lower. Where the nest says
// that subnormal numbers are dropped and the upper half comes first, VDPBF16PS does both at once:
//
//   vector n { unroll k = 0:2 { y[m, n] = fma_flush(x[.., 1 - k], w[1 - k, n], y[m, n]) } }
//
// Pairs that lie apart in memory are put together.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "codegen/llvm/kernel_builder.h"
#include "codegen/llvm/sum_of_products.h"

namespace weft::codegen {
namespace {

using llvm::Value;
using loops::ExprId;
using loops::ExprKind;
using loops::LoopNest;
using loops::Stmt;

bool FitsSignedHalf(Dtype dtype) {
  return dtype == Dtype::kI16 || dtype == Dtype::kI8 || dtype == Dtype::kU8;
}

// A load of a bfloat16, or that below a cast to 32 bits of a bfloat16 or an integer that 16 bits
// with a sign hold, if all iterations of the loop have the same guards.
const loops::Expr* Narrow(const LoopNest& nest, ExprId id, Var step) {
  const loops::Expr& cast = nest[id];
  const bool bare = cast.dtype == Dtype::kBF16;
  if (!bare && (cast.kind != ExprKind::kOp || cast.op != ScalarOp::kCast)) return nullptr;
  const loops::Expr& load = bare ? cast : nest[cast.args[0]];
  const bool fits =
      bare || cast.dtype == Dtype::kF32 ? load.dtype == Dtype::kBF16 : FitsSignedHalf(load.dtype);
  if (load.kind != ExprKind::kLoad || !fits) return nullptr;
  const auto moves = [step](const Affine& guard) { return guard.Uses(step); };
  return std::ranges::any_of(load.guards, moves) ? nullptr : &load;
}

}  // namespace

bool IsZero(const loops::Expr& e) {
  if (e.kind != ExprKind::kLiteral) return false;
  if (e.dtype == Dtype::kF32) return e.literal.f32 == 0 && !std::signbit(e.literal.f32);
  return IsInteger(e.dtype) && e.literal.i == 0;
}

std::optional<SumOfProducts> AsSumOfProducts(const LoopNest& nest, const Stmt& loop) {
  if (loop.body.size() != 1) return std::nullopt;
  const Stmt& store = nest[loop.body[0]];
  if (store.kind != loops::StmtKind::kStore || store.stream) return std::nullopt;
  const loops::Expr& value = nest[store.value];
  const auto is = [](const loops::Expr& e, ScalarOp op, Dtype dtype) {
    return e.kind == ExprKind::kOp && e.op == op && e.dtype == dtype;
  };
  std::vector<ExprId> args;  // factors, what was there
  const bool flushes = is(value, ScalarOp::kFmaFlush, Dtype::kF32);
  if (flushes || is(value, ScalarOp::kFma, Dtype::kF32)) {
    args = value.args;
  } else if (is(value, ScalarOp::kAdd, Dtype::kI32) &&
             is(nest[value.args[1]], ScalarOp::kMul, Dtype::kI32)) {
    args = nest[value.args[1]].args;
    args.push_back(value.args[0]);
  } else {
    return std::nullopt;
  }
  const loops::Expr& old = nest[args[2]];
  const bool same = old.kind == ExprKind::kLoad && old.buffer == store.buffer &&
                    old.index == store.index && old.guards.empty();
  const auto moves = [&](const Affine& e) { return e.Uses(loop.var); };
  if (!same || std::ranges::any_of(store.index, moves)) return std::nullopt;
  SumOfProducts sum{.store = &store,
                    .sum = args[2],
                    .a = Narrow(nest, args[0], loop.var),
                    .b = Narrow(nest, args[1], loop.var),
                    .flushes = flushes};
  const bool aliases =
      sum.a && sum.b && (sum.a->buffer == store.buffer || sum.b->buffer == store.buffer);
  if (!sum.a || !sum.b || aliases) return std::nullopt;
  return sum;
}

namespace {

// A sum apart but for what may happen to its two sums elsewhere.
std::optional<SumApart> SumApartIn(const LoopNest& nest, const Stmt& lanes) {
  using loops::StmtKind;
  if (lanes.body.size() != 4) return std::nullopt;
  const auto at = [&](size_t i) -> const Stmt& { return nest[lanes.body[i]]; };
  const auto is_store = [](const Stmt& s) { return s.kind == StmtKind::kStore && !s.stream; };
  const Stmt &even = at(0), &odd = at(1), &steps = at(2), &join = at(3);
  if (!is_store(even) || !is_store(odd) || !is_store(join) || steps.kind != StmtKind::kFor ||
      steps.loop != loops::LoopKind::kUnroll || steps.body.size() != 1)
    return std::nullopt;
  const Stmt& add = nest[steps.body[0]];
  const loops::BufferId apart = even.buffer;
  if (nest[apart].space != loops::Space::kRegister || even.index.size() != 2) return std::nullopt;
  const Affine lane = even.index[1];
  const auto in = [&](const Stmt& s, const Affine& parity) {
    return is_store(s) && s.buffer == apart && s.index == std::vector<Affine>{parity, lane};
  };
  const auto loads = [&](ExprId id, loops::BufferId buffer, const std::vector<Affine>& index) {
    const loops::Expr& e = nest[id];
    return e.kind == ExprKind::kLoad && e.buffer == buffer && e.index == index && e.guards.empty();
  };
  const auto adds = [&](ExprId id) {
    return nest[id].kind == ExprKind::kOp && nest[id].op == ScalarOp::kAddFlush;
  };
  const Affine step = Affine::OfVar(steps.var), parity = Mod(step, 2);
  if (!in(even, 0) || !in(odd, 1) || !IsZero(nest[even.value]) || !IsZero(nest[odd.value]) ||
      lane - Affine::OfVar(lanes.var) != (lane - Affine::OfVar(lanes.var)).constant())
    return std::nullopt;
  const loops::Expr& product = nest[add.value];
  if (!in(add, parity) || product.kind != ExprKind::kOp || product.op != ScalarOp::kFmaFlush ||
      !loads(product.args[2], apart, {parity, lane}) || steps.step != 1 ||
      loops::ConstantTrip(steps) < 1 || steps.lo[0] != Affine(0))
    return std::nullopt;
  if (!adds(join.value) || !adds(nest[join.value].args[1])) return std::nullopt;
  const ExprId old = nest[join.value].args[0];
  const std::vector<ExprId>& both = nest[nest[join.value].args[1]].args;
  if (!loads(both[0], apart, {0, lane}) || !loads(both[1], apart, {1, lane}) ||
      !loads(old, join.buffer, join.index) || join.buffer == apart)
    return std::nullopt;
  const auto factor = [&](size_t i) -> const loops::Expr* {
    const loops::Expr& load = nest[product.args[i]];
    const bool fits = load.kind == ExprKind::kLoad && load.guards.empty() &&
                      load.buffer != join.buffer && load.buffer != apart;
    return fits ? &load : nullptr;
  };
  SumApart found{.sum = {.store = &join, .sum = old, .a = factor(0), .b = factor(1)},
                 .steps = &steps,
                 .apart = apart};
  found.sum.flushes = true;
  if (!found.sum.a || !found.sum.b) return std::nullopt;
  return found;
}

// Whether all that touches the two sums of one sum apart are sums apart, which leave nothing to
// each other.
bool StaysInSums(const LoopNest& nest, loops::BufferId apart) {
  const auto reads = [&](const auto& self, ExprId id) -> bool {
    const loops::Expr& e = nest[id];
    return (e.kind == ExprKind::kLoad && e.buffer == apart) ||
           std::ranges::any_of(e.args, [&](ExprId arg) { return self(self, arg); });
  };
  const auto stays = [&](const auto& self, loops::StmtId id) -> bool {
    const Stmt& s = nest[id];
    if (s.kind == loops::StmtKind::kStore && s.buffer == apart) return false;
    if (s.value.valid() && reads(reads, s.value)) return false;
    if (s.kind == loops::StmtKind::kFor && s.loop == loops::LoopKind::kVector) {
      const auto sum = SumApartIn(nest, s);
      if (sum && sum->apart == apart) return true;
    }
    const auto inside = [&](loops::StmtId inner) { return self(self, inner); };
    return std::ranges::all_of(s.body, inside) && std::ranges::all_of(s.otherwise, inside);
  };
  return std::ranges::all_of(nest.body, [&](loops::StmtId id) { return stays(stays, id); });
}

}  // namespace

std::optional<SumApart> AsSumApart(const LoopNest& nest, const Stmt& lanes) {
  auto found = SumApartIn(nest, lanes);
  return found && StaysInSums(nest, found->apart) ? found : std::nullopt;
}

namespace {

// A load of the same places whose two steps come in the opposite order.
loops::Expr Backwards(loops::Expr load, const Stmt& loop) {
  const Affine other = loop.lo[0] + loop.lo[0] + 1 - Affine::OfVar(loop.var);
  for (Affine& e : load.index)
    e = e.Substitute([&](Var v) { return v == loop.var ? other : Affine::OfVar(v); });
  return load;
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

// The steps of a factor, <width x i32>: the same in all lanes or not.
Value* KernelBuilder::StepsOf(const loops::Expr& load, const Stmt& loop, bool widen,
                              const Chunk& chunk, const Mask& mask) {
  LaneValue value = memory_.LoadSteps(load, loop, chunk, mask);
  if (widen) value.value = ops_.Cast(load.dtype, Dtype::kI16, value.value);
  llvm::Type* lane = b_.getInt32Ty();
  if (!value.is_vector)
    return b_.CreateVectorSplat(chunk.width, b_.CreateBitCast(value.value, lane));
  return b_.CreateBitCast(value.value, llvm::FixedVectorType::get(lane, chunk.width));
}

// Two steps of bfloat16, the first of which is the upper half of 32 bits.
Value* KernelBuilder::PairOf(const loops::Expr& load, const Stmt& loop, const Chunk& chunk,
                             const Mask& mask) {
  const loops::Expr in_memory = Backwards(load, loop);
  if (load.guards.empty() && !mask.lanes && memory_.StepsInRows(in_memory, loop, chunk))
    return StepsOf(in_memory, loop, false, chunk, mask);
  LaneValue halves[2];
  for (int64_t step = 0; step < 2; ++step) {
    scope_.Substitute(loop.var, scope_.Resolve(loop.lo[0]) + step);
    halves[step] = memory_.Load(load, chunk, mask);
  }
  const bool is_vector = halves[0].is_vector || halves[1].is_vector;
  llvm::Type* lane = b_.getInt32Ty();
  llvm::Type* type = is_vector ? llvm::FixedVectorType::get(lane, chunk.width) : lane;
  const auto bits = [&](const LaneValue& half) {
    Value* value = is_vector ? memory_.Splat(half, chunk) : half.value;
    return b_.CreateZExt(ops_.ToMemory(Dtype::kBF16, value), type);
  };
  Value* pair = b_.CreateOr(b_.CreateShl(bits(halves[0]), 16), bits(halves[1]));
  return is_vector ? pair : b_.CreateVectorSplat(chunk.width, pair);
}

// Two steps of bfloat16: the first is the lower half of 32 bits.
Value* KernelBuilder::AddFloats(Value* sum, Value* a, Value* b) {
  const auto half = [&](Value* bits, bool upper) {
    Value* one = upper ? b_.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), 0xFFFF0000))
                       : b_.CreateShl(bits, 16);
    return b_.CreateBitCast(one, sum->getType());
  };
  for (const bool upper : {false, true}) {
    Value* const args[] = {half(a, upper), half(b, upper), sum};
    sum = ops_.Emit(ScalarOp::kFma, Dtype::kF32, Dtype::kF32, args);
  }
  return sum;
}

Value* KernelBuilder::AddIntegers(Value* sum, Value* a, Value* b, bool quads, unsigned width) {
  const Instruction instruction = quads ? QuadsOf(width) : PairsOf(target_.isa, width);
  if (instruction.adds) return b_.CreateIntrinsic(instruction.id, {}, {sum, a, b});
  auto* pairs = llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * width);
  return b_.CreateAdd(sum,
                      b_.CreateIntrinsic(instruction.id, {},
                                         {b_.CreateBitCast(a, pairs), b_.CreateBitCast(b, pairs)}));
}

// Lanes of sum + a * b, all of 32 bits, where 16 with a sign hold a and b. Null for anything else.
Value* KernelBuilder::AddSmallProduct(const loops::Expr& sum, const Chunk& chunk, const Mask& mask,
                                      std::map<ExprId, LaneValue>& known) {
  const auto is = [](const loops::Expr& e, ScalarOp op) {
    return e.kind == ExprKind::kOp && e.op == op && e.dtype == Dtype::kI32;
  };
  const bool fits = chunk.width == 4 || chunk.width == 8 || chunk.width == 16;
  if (!fits || !is(sum, ScalarOp::kAdd) || !is(nest_[sum.args[1]], ScalarOp::kMul)) return nullptr;
  const auto from = [&](ExprId id) { return nest_[nest_[id].args[0]].dtype; };
  const auto is_small = [&](ExprId id) {
    return is(nest_[id], ScalarOp::kCast) && FitsSignedHalf(from(id));
  };
  std::vector<ExprId> factors = nest_[sum.args[1]].args;
  if (!std::ranges::all_of(factors, is_small)) return nullptr;
  // The upper half of the second factor must be 0. Weights are bytes, read once for many products.
  if (SizeBytes(from(factors[0])) < SizeBytes(from(factors[1])) || from(factors[0]) == Dtype::kU8)
    std::swap(factors[0], factors[1]);
  const auto evaluate = [&](ExprId id) { return Evaluate(id, chunk, mask, known); };
  const LaneValue old = evaluate(sum.args[0]), a = evaluate(factors[0]);
  LaneValue b = evaluate(factors[1]);
  if (!old.is_vector && !a.is_vector && !b.is_vector) return nullptr;
  if (from(factors[1]) != Dtype::kU8)
    b.value = b_.CreateAnd(b.value, llvm::ConstantInt::get(b.value->getType(), 0xFFFF));
  const auto lanes = [&](const LaneValue& value) { return memory_.Splat(value, chunk); };
  return AddIntegers(lanes(old), lanes(a), lanes(b), /*quads=*/false, chunk.width);
}

bool KernelBuilder::DotProduct(const Stmt& loop) {
  constexpr unsigned kFewest = 4;  // lanes
  const int64_t steps = loops::ConstantTrip(loop);
  if (!in_vector_ || loop.step != 1 || (steps != 2 && steps != 4)) return false;
  const auto sum = AsSumOfProducts(nest_, loop);
  if (!sum) return false;
  const bool quads = steps == 4, floats = IsFloat(nest_[sum->sum].dtype);
  const bool swap = quads && sum->b->dtype == Dtype::kU8;  // the unsigned factor comes first
  const loops::Expr &a = swap ? *sum->b : *sum->a, &b = swap ? *sum->a : *sum->b;
  if (quads && (!HasDotProducts(target_.isa) || a.dtype != Dtype::kU8 || b.dtype != Dtype::kI8))
    return false;
  // Two multiply-adds are no better for halves that lie apart in memory.
  const auto fits = [&](const Chunk& chunk) {
    const auto lies = [&](const loops::Expr& load) {
      return load.guards.empty() && memory_.StepsInRows(load, loop, chunk);
    };
    const bool any = !floats || sum->flushes;
    return chunk.width >= kFewest && (any || (lane_ifs_.empty() && lies(a) && lies(b)));
  };
  if (!std::ranges::all_of(chunks_, fits)) return false;
  for (const Chunk& chunk : chunks_) {
    const Mask mask = ActiveMask(chunk);
    if (mask.never) continue;
    const auto steps_of = [&](const loops::Expr& load) {
      return sum->flushes ? PairOf(load, loop, chunk, mask)
                          : StepsOf(load, loop, !quads && !floats, chunk, mask);
    };
    Value *first = steps_of(a), *second = steps_of(b);
    std::map<ExprId, LaneValue> known;
    Value* old = memory_.Splat(Evaluate(sum->sum, chunk, mask, known), chunk);
    Value* next = sum->flushes ? ops_.AddPairs(old, first, second)
                  : floats     ? AddFloats(old, first, second)
                               : AddIntegers(old, first, second, quads, chunk.width);
    memory_.Store(*sum->store, chunk, mask, {next, true});
  }
  return true;
}

}  // namespace weft::codegen
