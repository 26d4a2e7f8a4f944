// Loops: counted, split over the team, expanded, in lanes.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "codegen/llvm/kernel_builder.h"

namespace weft::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::ExprId;
using loops::LoopKind;
using loops::Stmt;
using loops::StmtId;
using loops::StmtKind;

namespace {

constexpr int64_t kMany = int64_t{1} << 40;  // where counting ends

// What the counter of a loop is a multiple of that moves by `step` from one value to the next.
int64_t MultipleOf(const Stmt& s, int64_t step) {
  return s.lo.size() == 1 && s.lo[0].IsConstant() ? std::gcd(s.lo[0].constant(), step) : 1;
}

}  // namespace

Value* KernelBuilder::BoundValue(const std::vector<Affine>& list, bool largest) {
  Value* bound = nullptr;
  for (const Affine& e : list) {
    Value* value = scope_.Emit(scope_.Resolve(e));
    const auto id = largest ? llvm::Intrinsic::smax : llvm::Intrinsic::smin;
    bound = bound ? b_.CreateBinaryIntrinsic(id, bound, value) : value;
  }
  return bound;
}

// Head-tested once, then tested at the end of each iteration. body(value of the counter).
void KernelBuilder::CountedLoop(Value* begin, Value* end, int64_t step, bool runs, bool poll,
                                llvm::function_ref<void(Value*)> body) {
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
  Value* next = b_.CreateNSWAdd(counter, b_.getInt64(static_cast<uint64_t>(step)));  // may be < 0
  counter->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), head, exit);
  b_.SetInsertPoint(exit);
}

// Once the flag is set, every loop that polls is left at once. Barriers are still waited at, so
// that no rank is left alone: loops that hold one don't poll.
void KernelBuilder::PollCancel(BasicBlock* exit) {
  auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), cancel_, llvm::Align(4));
  flag->setAtomic(llvm::AtomicOrdering::Monotonic);
  BasicBlock* go = Block("go");
  llvm::MDBuilder md(module_.getContext());
  b_.CreateCondBr(b_.CreateICmpEQ(flag, b_.getInt32(0)), go, exit,
                  md.createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(go);
}

bool KernelBuilder::HoldsBarrier(const std::vector<StmtId>& body) const {
  return std::ranges::any_of(body, [&](StmtId id) {
    return nest_[id].kind == StmtKind::kBarrier || HoldsBarrier(nest_[id].body) ||
           HoldsBarrier(nest_[id].otherwise);
  });
}

bool KernelBuilder::HoldsLoop(const std::vector<StmtId>& body) const {
  return std::ranges::any_of(body, [&](StmtId id) {
    const Stmt& s = nest_[id];
    const bool loop =
        s.kind == StmtKind::kFor && (s.loop == LoopKind::kSerial || s.loop == LoopKind::kParallel);
    return loop || HoldsLoop(s.body) || HoldsLoop(s.otherwise);
  });
}

// How many statements run, at most, between two looks at the flag: within one iteration of those
// loops that look at it.
int64_t KernelBuilder::Unpolled(const std::vector<StmtId>& body) {
  int64_t work = 0;
  std::vector<const Stmt*> bound;
  for (StmtId id : body) {
    const Stmt& s = nest_[id];
    const int64_t trips = s.kind == StmtKind::kFor ? scope_.ranges().MostTrips(s) : 1;
    if (s.kind == StmtKind::kFor || s.kind == StmtKind::kLet) scope_.ranges().Push(s);
    int64_t once = 1 + Unpolled(s.body) + Unpolled(s.otherwise);
    if (s.kind == StmtKind::kFor) scope_.ranges().Pop(s);
    if (s.kind == StmtKind::kLet) bound.push_back(&s);  // to the end of the block
    if (!IsLong(s, trips, once)) once = trips > kMany / once ? kMany : once * trips;
    work = std::min(kMany, work + once);
  }
  for (size_t i = bound.size(); i-- > 0;) scope_.ranges().Pop(*bound[i]);
  return work;
}

// Whether a loop with so much in it runs too long not to be stopped.
bool KernelBuilder::IsLong(const Stmt& s, int64_t trips, int64_t once) const {
  constexpr int64_t kLong = int64_t{1} << 24;  // statements: well below a second
  return s.kind == StmtKind::kFor &&
         (s.loop == LoopKind::kSerial || s.loop == LoopKind::kParallel) && !HoldsBarrier(s.body) &&
         once > kLong / std::max<int64_t>(1, trips);
}

// The values that a statement computes itself, each once.
std::set<ExprId> KernelBuilder::ValuesOf(const Stmt& s) const {
  std::set<ExprId> values;
  std::vector<ExprId> todo;
  if (s.value.valid()) todo.push_back(s.value);
  while (!todo.empty()) {
    const ExprId value = todo.back();
    todo.pop_back();
    if (!values.insert(value).second) continue;
    todo.insert(todo.end(), nest_[value].args.begin(), nest_[value].args.end());
  }
  return values;
}

// How many registers are filled when `body` runs once.
int64_t KernelBuilder::WorkOf(const std::vector<StmtId>& body) const {
  int64_t work = 0;
  for (StmtId id : body) {
    const Stmt& s = nest_[id];
    int64_t times = 1;
    if (s.kind == StmtKind::kFor) {
      const int64_t trip = std::max<int64_t>(1, loops::ConstantTrip(s));
      const int64_t full = target_.VectorBytes() / LaneBytes(s.body);
      times = s.loop == LoopKind::kVector ? (trip + full - 1) / full : trip;
    }
    work +=
        static_cast<int64_t>(ValuesOf(s).size()) + times * (WorkOf(s.body) + WorkOf(s.otherwise));
  }
  return work;
}

// Whether `copies` iterations of `loop` read an element twice, for different iterations of the
// unrolled loops around a load in `body`, as the taps of a window do.
bool KernelBuilder::SharesReads(const Stmt& loop, int64_t copies, const std::vector<StmtId>& body,
                                std::vector<const Stmt*>& unrolled) const {
  const auto shares = [&](const loops::Expr& load, const Stmt& other) {
    for (int64_t a = 1; a < copies; ++a) {
      for (int64_t b = 1; b < loops::ConstantTrip(other); ++b) {
        const auto same = [&](int64_t sign) {
          bool moves = false;
          for (const Affine& e : load.index) {
            const int64_t by = a * loop.step * e.CoefficientOf(loop.var);
            if (by != sign * b * other.step * e.CoefficientOf(other.var)) return false;
            moves |= by != 0;
          }
          return moves;
        };
        if (same(1) || same(-1)) return true;
      }
    }
    return false;
  };
  for (StmtId id : body) {
    const Stmt& s = nest_[id];
    for (ExprId value : ValuesOf(s)) {
      const loops::Expr& e = nest_[value];
      if (e.kind == loops::ExprKind::kLoad &&
          std::ranges::any_of(unrolled, [&](const Stmt* other) { return shares(e, *other); }))
        return true;
    }
    if (s.loop == LoopKind::kUnroll && s.kind == StmtKind::kFor) unrolled.push_back(&s);
    if (SharesReads(loop, copies, s.body, unrolled)) return true;
    if (s.loop == LoopKind::kUnroll && s.kind == StmtKind::kFor) unrolled.pop_back();
    if (SharesReads(loop, copies, s.otherwise, unrolled)) return true;
  }
  return false;
}

// How many iterations of an innermost loop become one: so many that what the loop itself costs
// (counting, addresses, a prefetch of what lies in one line) is little beside them. A thread that
// shares its core issues in every other cycle only, which does not hide that cost. But copies that
// share what they read would keep it in registers that accumulators need. Of a long function, so
// many that the registers of a round take turns without a rest, if that is not too much code.
int64_t KernelBuilder::CopiesOf(const Stmt& s, int64_t trip) const {
  constexpr int64_t kWork = 192, kMost = 8;
  if (trip < 2 || HoldsLoop(s.body) || HoldsBarrier(s.body)) return 1;
  if (TakesTurns(s)) {
    const int64_t registers = RegistersOf(nest_[s.body[0]]);
    const int64_t copies = kTogether / std::gcd(kTogether, registers);
    return copies * registers <= 2 * kTogether ? std::min(trip, copies) : 1;
  }
  const int64_t most = std::clamp<int64_t>(kWork / std::max<int64_t>(1, WorkOf(s.body)), 1, kMost);
  int64_t best = std::min(trip, most);
  for (int64_t copies = best; copies > most / 2; --copies)
    if (trip % copies < trip % best) best = copies;
  std::vector<const Stmt*> unrolled;
  return SharesReads(s, best, s.body, unrolled) ? 1 : best;
}

// `copies` iterations from `first` on.
void KernelBuilder::Copies(const Stmt& s, const Affine& first, int64_t copies) {
  if (copies > 1 && TakesTurns(s)) return InTurns(s, first, copies);
  if (copies > 1 && Extremes(s, first, copies)) return;
  for (int64_t i = 0; i < copies; ++i) {
    copy_ = {.loop = &s, .number = i};
    scope_.Substitute(s.var, first + i * s.step);
    Body(s.body);
  }
  copy_ = {};
}

// Rounds of several iterations, then what is left of them.
void KernelBuilder::LoopOfCopies(const Stmt& s, int64_t trip, int64_t copies) {
  const Affine lo = scope_.Resolve(s.lo[0]);
  int64_t rounds = trip / copies;
  if (rounds == 1) rounds = 0;
  if (rounds > 0) {
    Stmt round = s;
    round.var = scope_.NewVar();
    round.step = copies * s.step;
    round.hi = {s.lo[0] + rounds * round.step};
    scope_.ranges().Push(round);
    const int64_t multiple = lo.IsConstant() ? std::gcd(lo.constant(), round.step) : 1;
    const bool poll = IsLong(s, trip, 1 + Unpolled(s.body));
    CountedLoop(scope_.Emit(lo), scope_.Emit(scope_.Resolve(round.hi[0])), round.step, true, poll,
                [&](Value* counter) {
                  scope_.Bind(round.var, counter, multiple);
                  Copies(s, Affine::OfVar(round.var), copies);
                });
    scope_.ranges().Pop(round);
  }
  const int64_t done = rounds * copies;
  Copies(s, lo + done * s.step, trip - done);
}

// Of a loop whose trip is known when it runs, as over the last block of a sum: the rounds that have
// all their iterations. Where those begin that are left.
Value* KernelBuilder::Rounds(const Stmt& s, Value* lo, Value* hi, bool poll) {
  constexpr int64_t kAny = 840;  // a multiple of all that CopiesOf tries
  const int64_t copies =
      TakesTurns(s)
          ? 1
          : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(CopiesOf(s, kAny))));
  const int64_t most = scope_.ranges().MostTrips(s);
  if (copies < 2 || most < 2 * copies) return lo;
  Stmt round = s;
  round.var = scope_.NewVar();
  round.step = copies * s.step;
  for (Affine& e : round.hi) e = e - (round.step - s.step);
  scope_.ranges().Push(round);
  Value* step = b_.getInt64(static_cast<uint64_t>(round.step));
  Value* last = b_.CreateNSWSub(hi, b_.getInt64(static_cast<uint64_t>(round.step - s.step)));
  Value* counted = b_.CreateAdd(b_.CreateSub(last, lo), b_.getInt64(round.step - 1));
  Value* rounds =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSDiv(counted, step), b_.getInt64(0));
  const int64_t multiple = MultipleOf(s, round.step);
  CountedLoop(lo, last, round.step, false, poll, [&](Value* counter) {
    scope_.Bind(round.var, counter, multiple);
    Copies(s, Affine::OfVar(round.var), copies);
  });
  scope_.ranges().Pop(round);
  return b_.CreateAdd(lo, b_.CreateMul(rounds, step));
}

// Whether the copy of an iteration before this one has fetched the same line.
bool KernelBuilder::IsFetched(const Stmt& prefetch) const {
  constexpr int64_t kLineBytes = 64;
  if (copy_.number == 0 || prefetch.near) return false;
  const int64_t stride = prefetch.index[0].CoefficientOf(copy_.loop->var) * copy_.loop->step *
                         Bits(nest_[prefetch.buffer].dtype) / 8;
  return FloorDiv(copy_.number * stride, kLineBytes) ==
         FloorDiv((copy_.number - 1) * stride, kLineBytes);
}

void KernelBuilder::SerialLoop(const Stmt& s) {
  const int64_t trip = loops::ConstantTrip(s);
  if (trip == 0) return;
  if (MatrixProduct(s)) return;
  scope_.ranges().Push(s);
  if (const int64_t copies = CopiesOf(s, trip); copies > 1) {
    LoopOfCopies(s, trip, copies);
  } else if (trip == 1) {
    scope_.Substitute(s.var, scope_.Resolve(s.lo[0]));
    Body(s.body);
  } else {
    Value *lo = BoundValue(s.lo, true), *hi = BoundValue(s.hi, false);
    const bool poll = (!polled_ && !HoldsBarrier(s.body) && HoldsLoop(s.body)) ||
                      IsLong(s, scope_.ranges().MostTrips(s), 1 + Unpolled(s.body));
    const bool outer = std::exchange(polled_, polled_ || poll);
    const int64_t multiple = MultipleOf(s, s.step);
    if (trip < 0) lo = Rounds(s, lo, hi, poll);
    CountedLoop(lo, hi, s.step, trip > 0, poll, [&](Value* counter) {
      scope_.Bind(s.var, counter, multiple);
      Body(s.body);
    });
    polled_ = outer;
  }
  scope_.ranges().Pop(s);
}

// A band of parallel loops: this rank's share of the product of their ranges.
void KernelBuilder::ParallelLoop(StmtId id) {
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
  const Stmt& innermost = nest_[band.back()];
  int64_t most = 1;
  for (StmtId member : band) {
    const int64_t trips_here = scope_.ranges().MostTrips(nest_[member]);
    most = trips_here > 0 && most > kMany / trips_here ? kMany : most * trips_here;
    scope_.ranges().Push(nest_[member]);
  }
  const bool poll =
      HoldsLoop(innermost.body) || IsLong(innermost, most, 1 + Unpolled(innermost.body));
  for (size_t k = band.size(); k-- > 0;) scope_.ranges().Pop(nest_[band[k]]);
  const bool outer = std::exchange(polled_, poll);
  CountedLoop(begin, end, 1, false, poll, [&](Value* counter) {
    llvm::IRBuilder<> at(scope_.anchor());
    Value* rest = counter;
    for (size_t k = band.size(); k-- > 0;) {
      const Stmt& s = nest_[band[k]];
      Value* place = k == 0 ? rest : at.CreateURem(rest, trips[k]);
      rest = k == 0 ? rest : at.CreateUDiv(rest, trips[k]);
      Value* scaled = at.CreateMul(place, b_.getInt64(static_cast<uint64_t>(s.step)));
      scope_.Bind(s.var, at.CreateAdd(starts[k], scaled), MultipleOf(s, s.step));
    }
    for (StmtId member : band) scope_.ranges().Push(nest_[member]);
    Body(nest_[band.back()].body);
    for (size_t k = band.size(); k-- > 0;) scope_.ranges().Pop(nest_[band[k]]);
  });
  polled_ = outer;
}

void KernelBuilder::UnrolledLoop(const Stmt& s) {
  const int64_t trip = loops::ConstantTrip(s);
  scope_.ranges().Push(s);
  if (!DotProduct(s)) {
    const Affine lo = scope_.Resolve(s.lo[0]);
    const bool in_turns = trip > 1 && TakesTurns(s);
    memory_.OpenUnrolled(s);
    if (in_turns) InTurns(s, lo, trip);
    const bool done = in_turns || (trip > 1 && Extremes(s, lo, trip));
    for (int64_t i = 0; !done && i < trip; ++i) {
      memory_.Iteration(i);
      scope_.Substitute(s.var, lo + i * s.step);
      Body(s.body);
    }
    memory_.CloseUnrolled();
  }
  scope_.ranges().Pop(s);
}

// The size of the widest value that is computed, which decides how many lanes fill a register.
unsigned KernelBuilder::ValueBytes(ExprId id, std::vector<bool>& seen) const {
  if (seen[id.index]) return 1;
  seen[id.index] = true;
  const loops::Expr& e = nest_[id];
  unsigned bytes = std::max<unsigned>(1, ops_.RegisterType(e.dtype)->getScalarSizeInBits() / 8);
  for (ExprId arg : e.args) bytes = std::max(bytes, ValueBytes(arg, seen));
  return bytes;
}

unsigned KernelBuilder::LaneBytes(const std::vector<StmtId>& body) const {
  unsigned bytes = 1;
  std::vector<bool> seen(nest_.exprs.size());
  for (StmtId id : body) {
    const Stmt& s = nest_[id];
    if (s.value.valid()) bytes = std::max(bytes, ValueBytes(s.value, seen));
    bytes = std::max({bytes, LaneBytes(s.body), LaneBytes(s.otherwise)});
  }
  return bytes;
}

int64_t KernelBuilder::LanesOf(const Stmt& vector_loop) const {
  return target_.VectorBytes() / LaneBytes(vector_loop.body);
}

// Full registers, then one in which not all lanes count, or a narrower one.
void KernelBuilder::InLanes(const Stmt& s, llvm::function_ref<void()> body) {
  const int64_t trip = loops::ConstantTrip(s);
  if (trip == 0) return;
  const int64_t full = LanesOf(s);
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
  body();
  scope_.ranges().Pop(s);
  scope_.CloseLanes();
  in_vector_ = false;
  chunks_ = {Chunk{}};
}

void KernelBuilder::VectorLoop(const Stmt& s) {
  InLanes(s, [&] { Body(s.body); });
}

}  // namespace weft::codegen
